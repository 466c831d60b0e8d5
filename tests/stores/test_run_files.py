"""Run files: who serves what, told to nobody but the user who serves it."""

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from toolcrib.core.errors import ConfigError
from toolcrib.stores.run_files import (
    RunFile,
    RunFiles,
    RunOffer,
    _is_there,
    _read_private,
    choose,
    make_code,
    new_number,
    process_began,
    this_system,
)

URL = "http://127.0.0.1:7337"


@pytest.fixture
def runs(tmp_path: Path) -> RunFiles:
    return RunFiles({"XDG_STATE_HOME": str(tmp_path)})


def changed(written, **fields: object) -> None:
    """Rewrite a run file as if it said something else."""
    written.path.write_bytes(json.dumps(written.entry._replace(**fields)._asdict()).encode())


def test_a_run_file_is_there_while_its_process_serves(runs: RunFiles, tmp_path: Path):
    written = runs.write(RunOffer(URL, tmp_path / "toolcrib.toml", "1.2.3"))
    found = runs.read()
    written.remove()

    assert found == [written.entry]
    assert (found[0].url, found[0].directory, found[0].pid) == (URL, str(tmp_path), os.getpid())
    assert len(bytes.fromhex(found[0].secret)) == 32
    assert runs.read() == []


def test_the_newest_is_found_first(runs: RunFiles, tmp_path: Path):
    written = [runs.write(RunOffer(f"{URL}{number}", tmp_path / f"{number}.toml", "1.2.3")) for number in range(3)]
    for moment, one in enumerate((written[1], written[2], written[0])):
        os.utime(one.path, ns=(moment, moment))

    assert [entry.url[-1] for entry in runs.read()] == ["0", "2", "1"]
    for one in written:
        one.remove()


def test_nobody_else_can_read_it(runs: RunFiles, tmp_path: Path):
    written = runs.write(RunOffer(URL, tmp_path / "toolcrib.toml", "1"))

    assert stat.S_IMODE(written.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(runs.directory.stat().st_mode) == 0o700


def test_a_directory_that_others_can_read_is_refused(runs: RunFiles, tmp_path: Path):
    runs.write(RunOffer(URL, tmp_path / "toolcrib.toml", "1"))
    runs.directory.chmod(0o755)

    for attempt in (runs.read, lambda: runs.write(RunOffer(URL, tmp_path / "toolcrib.toml", "1"))):
        with pytest.raises(ConfigError, match="not yours alone"):
            attempt()


def test_a_directory_that_is_a_link_is_refused(runs: RunFiles, tmp_path: Path):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    runs.directory.parent.mkdir(parents=True)
    runs.directory.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(ConfigError, match="not yours alone"):
        runs.read()


def test_a_file_that_others_can_read_or_that_is_a_link_does_not_count(runs: RunFiles, tmp_path: Path):
    open_to_others, linked = (runs.write(RunOffer(URL, tmp_path / "toolcrib.toml", "1")) for _ in range(2))
    open_to_others.path.chmod(0o640)
    linked.path.rename(tmp_path / "moved")
    linked.path.symlink_to(tmp_path / "moved")

    assert runs.read() == []


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b"[" * 5000])
def test_a_file_that_says_nothing_does_not_count(runs: RunFiles, tmp_path: Path, content: bytes):
    runs.write(RunOffer(URL, tmp_path / "toolcrib.toml", "1")).path.write_bytes(content)

    assert runs.read() == []


def test_the_file_of_a_process_that_is_gone_is_swept(runs: RunFiles, tmp_path: Path):
    written = runs.write(RunOffer(URL, tmp_path / "toolcrib.toml", "1"))
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    changed(written, pid=ended.pid, began="1")

    assert runs.read() == []
    assert not written.path.exists()


def test_a_process_id_that_was_used_again_is_somebody_else(runs: RunFiles, tmp_path: Path):
    written = runs.write(RunOffer(URL, tmp_path / "toolcrib.toml", "1"))
    changed(written, began="1")

    assert runs.read() == []
    assert not written.path.exists()


def test_what_was_served_before_the_machine_started_again_is_swept(runs: RunFiles, tmp_path: Path):
    written = runs.write(RunOffer(URL, tmp_path / "toolcrib.toml", "1"))
    changed(written, system="another-boot " + this_system().partition(" ")[2])

    assert runs.read() == []
    assert not written.path.exists()


def test_a_process_in_another_namespace_may_be_running(runs: RunFiles, tmp_path: Path):
    """A container that shares the home has process ids that mean nothing here."""
    written = runs.write(RunOffer(URL, tmp_path / "toolcrib.toml", "1"))
    changed(written, system=f"{this_system().split()[0]} pid:[1]", pid=2**22, began="7")

    assert [run.began for run in runs.read()] == ["7"]


def test_a_process_that_proc_does_not_show_is_there_if_it_takes_signals(runs: RunFiles, tmp_path: Path):
    """Zero, which is our own group, stands for one that is hidden: it takes signals, and ``/proc`` has no such name."""
    written = runs.write(RunOffer(URL, tmp_path / "toolcrib.toml", "1"))
    changed(written, pid=0, began="7")

    assert [run.began for run in runs.read()] == ["7"]


def test_looking_for_a_process_disturbs_nobody():
    heard: list[int] = []
    before = signal.signal(signal.SIGHUP, lambda number, _: heard.append(number))
    try:
        found = _is_there(os.getpid())
    finally:
        signal.signal(signal.SIGHUP, before)

    assert (found, heard) == ("there", [])


def test_the_system_tells_when_a_process_began():
    assert process_began(os.getpid()) == process_began(os.getpid()) != ""
    assert process_began(2**22 + 1) == ""


def entry(config: str, url: str = URL) -> RunFile:
    path = Path(config)
    return RunFile(
        url=url, directory=str(path.parent), config=config, pid=1, began="1", system="s", secret="s", version="1"
    )


def test_every_project_finds_its_own():
    """The same file first, then the same directory; another project's never, unless we are in none."""
    one, other, beside = entry("/one/toolcrib.toml"), entry("/two/toolcrib.toml"), entry("/one/other.toml")

    assert choose([other, beside, one], Path("/one/toolcrib.toml"), is_project=True) == [one, beside]
    assert choose([one, other], Path("/two/toolcrib.toml"), is_project=True) == [other]
    assert choose([one], Path("/three/toolcrib.toml"), is_project=True) == []
    assert choose([one], Path("/three/toolcrib.toml"), is_project=False) == [one]
    assert choose([one, other], Path("/three/toolcrib.toml"), is_project=False) == []


def test_a_code_belongs_to_a_side_an_address_and_a_number():
    codes = {
        make_code(secret, url, side, number)
        for secret in ("a", "b")
        for url in (URL, "http://127.0.0.1:7338")
        for side in ("server", "client")
        for number in ("1", "2")
    }

    assert len(codes) == 16


def test_a_number_is_used_once():
    numbers = {new_number() for _ in range(3)}

    assert [len(bytes.fromhex(number)) for number in numbers] == [32] * 3


def test_a_file_in_the_place_of_the_directory_is_refused(runs: RunFiles, tmp_path: Path):
    runs.directory.parent.mkdir(parents=True)
    runs.directory.write_text("")
    runs.directory.chmod(0o600)

    with pytest.raises(ConfigError, match="not yours alone"):
        runs.write(RunOffer(URL, tmp_path / "toolcrib.toml", "1"))


def test_what_belongs_to_another_user_does_not_count(runs: RunFiles, tmp_path: Path, monkeypatch):
    """Neither a file nor the directory."""
    written = runs.write(RunOffer(URL, tmp_path / "toolcrib.toml", "1"))
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)

    assert _read_private(written.path) is None
    with pytest.raises(ConfigError, match="not yours alone"):
        runs.read()


def test_the_system_is_told_by_its_boot():
    boot = Path("/proc/sys/kernel/random/boot_id")

    told = this_system().split()
    assert told[0] == (boot.read_text().strip() if boot.exists() else os.uname().nodename.replace(" ", "-"))


def test_where_nobody_ever_served_nobody_is_found(runs: RunFiles):
    assert runs.read() == []


def test_a_place_where_no_directory_can_be_is_told(tmp_path: Path):
    (tmp_path / "toolcrib").write_text("")
    runs = RunFiles({"XDG_STATE_HOME": str(tmp_path)})

    with pytest.raises(ConfigError, match="The run file cannot be written: File exists"):
        runs.write(RunOffer(URL, tmp_path / "toolcrib.toml", "1"))
    with pytest.raises(ConfigError, match="The run file cannot be read: Not a directory"):
        runs.read()


@pytest.mark.parametrize("path", ["x" * 300, "/proc/self/mem"], ids=["cannot be opened", "cannot be read"])
def test_a_file_that_cannot_be_read_is_told(path: str):
    with pytest.raises(ConfigError, match="cannot be read"):
        _read_private(Path(path))


def test_a_run_file_says_which_system_its_process_runs_on(tmp_path: Path):
    env = {"XDG_STATE_HOME": str(tmp_path)}
    there, here = RunFiles(env, lambda: "boot pid:[1]"), RunFiles(env)

    systems = [runs.write(RunOffer(URL, tmp_path / "toolcrib.toml", "1")).entry.system for runs in (there, here)]

    assert systems == ["boot pid:[1]", this_system()]


def test_what_is_no_process_never_began():
    """A number that only a signal understands is none."""
    assert process_began(0) == ""


def test_a_directory_in_the_place_of_a_run_file_says_nothing(tmp_path: Path):
    """However private it is."""
    (tmp_path / "run.json").mkdir(mode=0o700)

    assert _read_private(tmp_path / "run.json") is None


def test_no_descriptor_of_a_run_file_stays_open(tmp_path):
    """A server runs for months, and its children must not inherit it either."""
    RunFiles({"XDG_STATE_HOME": str(tmp_path)}).write(RunOffer(URL, tmp_path / "toolcrib.toml", "1"))

    opened = [os.readlink(one) for one in Path("/proc/self/fd").iterdir() if os.path.lexists(one)]
    assert not [name for name in opened if name.startswith(str(tmp_path))]


def test_reading_leaves_no_descriptor_open(runs, tmp_path):
    own = runs.write(RunOffer(URL, tmp_path / "toolcrib.toml", "1"))

    assert _read_private(own.path) == own.entry
    opened = [os.readlink(one) for one in Path("/proc/self/fd").iterdir() if os.path.lexists(one)]
    assert str(own.path) not in opened


def test_a_process_that_ended_unnoticed_runs_no_more(runs: RunFiles, tmp_path: Path):
    """A zombie has a process id, and when it began, and nothing else."""
    written = runs.write(RunOffer(URL, tmp_path / "toolcrib.toml", "1"))
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        changed(written, pid=process.pid, began=process_began(process.pid))
        process.stdin.close()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)

        assert runs.read() == []
