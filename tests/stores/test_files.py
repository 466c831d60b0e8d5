import os
import resource
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.stores.processes import SPAWN, has_changed, started, until_at_work

from toolcrib.core.errors import ConfigError
from toolcrib.stores.files import discard_leftovers, locked, read_text, replace_text, writing

DAMAGED = "It is damaged, or of another program: put a good copy in its place, or move it away."
DIRECTORY = "A directory is in its place: move that away."


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def write_for_ever(path: str, size: int) -> None:
    for number in range(1_000_000):
        replace_text(Path(path), f"{number % 10}" * size)


def write_with_a_full_disk(path: str, size: int, answers) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    try:
        replace_text(Path(path), "x" * size)
    except ConfigError as error:
        answers.put(str(error))


def test_what_was_written_is_read(tmp_path):
    """Directories are made on the way, and nothing else is left behind."""
    path = tmp_path / "a" / "b" / "toolcrib.toml"

    replace_text(path, "größe = 1\n")

    assert read_text(path) == "größe = 1\n"
    assert names(path.parent) == ["toolcrib.toml"]


def test_a_file_that_is_not_there_is_none(tmp_path):
    """Missing is not wrong."""
    assert read_text(tmp_path / "toolcrib.toml") is None


def test_a_byte_order_mark_is_not_part_of_the_text(tmp_path):
    """Some editors write one."""
    (tmp_path / "mcp.json").write_bytes(b"\xef\xbb\xbf{}")

    assert read_text(tmp_path / "mcp.json") == "{}"


def test_a_file_that_cannot_be_read_says_why(tmp_path):
    """With its path."""
    (tmp_path / "latin").write_bytes(b"gr\xf6\xdfe")

    with pytest.raises(ConfigError) as not_text:
        read_text(tmp_path / "latin")
    with pytest.raises(ConfigError) as not_file:
        read_text(tmp_path)

    assert str(not_text.value) == f"{tmp_path}/latin: The file is not UTF-8: byte 2. {DAMAGED}"
    assert str(not_file.value) == f"{tmp_path}: The file cannot be read: Is a directory. {DIRECTORY}"


def test_a_file_keeps_its_mode_and_a_link_stays_a_link(tmp_path):
    """A private file stays private; a file kept elsewhere (dotfiles) is changed there."""
    real = tmp_path / "dotfiles.toml"
    real.write_text("old")
    real.chmod(0o600)
    link = tmp_path / "toolcrib.toml"
    link.symlink_to(real)

    replace_text(link, "new")

    assert (link.is_symlink(), real.read_text(), stat.S_IMODE(real.stat().st_mode)) == (True, "new", 0o600)


def test_a_new_file_has_the_mode_asked_for_within_the_umask(tmp_path):
    """Whoever works with a strict umask gets private files."""
    before = os.umask(0o077)
    try:
        replace_text(tmp_path / "strict", "x")
        os.umask(0o022)
        replace_text(tmp_path / "usual", "x")
        replace_text(tmp_path / "secret", "x", mode=0o600)
    finally:
        os.umask(before)

    modes = {name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in names(tmp_path)}
    assert modes == {"secret": 0o600, "strict": 0o600, "usual": 0o644}


def test_a_reader_never_sees_a_half_written_file_however_the_writer_dies(tmp_path):
    """The writer is killed in the middle of its work, again and again; what is there is always a whole version."""
    path, size = tmp_path / "toolcrib.lock", 300_000
    replace_text(path, "s" * size)
    for _ in range(3):
        changed = has_changed(path)
        with started(write_for_ever, (str(path), size)) as writers:
            until_at_work(writers, changed)

        text = read_text(path)

        assert text == text[0] * size
    discard_leftovers(path)
    assert names(tmp_path) == ["toolcrib.lock"]


def test_a_full_disk_is_a_clear_error_and_the_old_file_stays(tmp_path):
    """Nothing is lost, and no half of the new version is left lying about."""
    path = tmp_path / "toolcrib.toml"
    path.write_text("old")
    answers = SPAWN.SimpleQueue()
    with started(write_with_a_full_disk, (str(path), 1_000_000, answers)):
        answer = answers.get()

    assert answer == (
        f"{path}: The file cannot be written: File too large. What was there before is unchanged. "
        "Raise the limit on the size of files, then try again."
    )
    assert (read_text(path), names(tmp_path)) == ("old", ["toolcrib.toml"])


def test_a_directory_that_is_none_is_a_clear_error(tmp_path):
    """Instead of a bare exception of the operating system."""
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigError) as caught:
        replace_text(tmp_path / "file" / "toolcrib.toml", "x")

    assert str(caught.value).endswith(
        "The file cannot be written: Not a directory. What was there before is unchanged. "
        "A file is in the place of its directory: move that away."
    )


def test_only_one_holds_the_file_at_a_time(tmp_path):
    """A second one waits, and says so when it has waited long enough."""
    path = tmp_path / "toolcrib.lock"
    with locked(path), pytest.raises(ConfigError) as caught, locked(path, timeout_s=0):
        pass

    assert str(caught.value) == (f"{path}: Another process keeps the file locked. Try again when it has finished.")
    with locked(path, timeout_s=0):
        pass


def test_who_waits_gets_the_file_when_it_is_free(tmp_path):
    """Threads of one process take turns as well."""
    path, order = tmp_path / "toolcrib.lock", []

    def second() -> None:
        with locked(path):
            order.append("second")

    waiting = threading.Thread(target=second)
    with locked(path):
        waiting.start()
        order.append("first")
    waiting.join()

    assert order == ["first", "second"]


def test_a_process_that_dies_gives_the_file_free(tmp_path):
    """No stale locks to clean up by hand."""
    path = tmp_path / "toolcrib.lock"
    script = (
        "import os, signal, sys; from pathlib import Path; from toolcrib.stores.files import locked\n"
        "with locked(Path(sys.argv[1])): os.kill(os.getpid(), signal.SIGKILL)"
    )
    died = subprocess.run(
        [sys.executable, "-c", script, str(path)], check=False, env=os.environ | {"PYTHONPATH": ":".join(sys.path)}
    )

    with locked(path, timeout_s=0):
        assert died.returncode == -signal.SIGKILL


def test_what_is_written_in_parts_is_there_as_a_whole_or_not_at_all(tmp_path):
    """Until the end, and after a failure, what was there before is there; nothing is left beside it."""
    path = tmp_path / "export.jsonl"
    path.write_bytes(b"old")
    with pytest.raises(KeyError), writing(path, 0o600) as write:  # noqa: PT012 - it breaks off in the middle
        write(b"half of it")
        raise KeyError
    broken = path.read_bytes()
    with writing(path, 0o600, keep=0o600) as write:
        write(b"one ")
        meanwhile = path.read_bytes()
        write(b"two")

    assert (broken, meanwhile, path.read_bytes()) == (b"old", b"old", b"one two")
    assert list(tmp_path.iterdir()) == [path]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_pipe_is_written_as_it_is(tmp_path):
    """Such as ``-o >(gzip)``: it cannot be replaced."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with writing(path) as write:
        write(b"through")

    assert os.read(reader, 100) == b"through"
    os.close(reader)


def test_a_link_that_leads_to_itself_is_named(tmp_path):
    """Whether it is read, locked or written."""
    path = tmp_path / "loop"
    path.symlink_to("loop")

    for use in (lambda: read_text(path), lambda: replace_text(path, "x"), lambda: locked(path).__enter__()):
        with pytest.raises(ConfigError, match="loop") as caught:
            use()
        assert "leads to itself" in caught.value.hint
