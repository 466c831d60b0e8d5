import os
import resource
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.stores.processes import SPAWN, has_changed, started, until_at_work

from toolcrib.config.lock import Lock, Record, read_lock, write_lock
from toolcrib.core.errors import ConfigError
from toolcrib.core.kinds import DiscoveryStatus
from toolcrib.stores.lockfile import LockFile

TIME = Record("time", DiscoveryStatus.SUCCESS, ({"name": "now"},), "2026-11-03T12:00:00Z", config_hash="abc")
DOCS = Record("docs", DiscoveryStatus.FAILED, error="boom")


def put(record: Record):
    return lambda present: record


def count_up(path: str, server: str, times: int) -> None:
    for _ in range(times):
        LockFile(Path(path)).update(server, _one_more)


def _one_more(present: Record | None) -> Record:
    found = present or Record("")
    return replace(found, status=DiscoveryStatus.SUCCESS, problems=(*found.problems, "x"))


def update_for_ever(path: str) -> None:
    big = tuple({"name": f"tool_{n}", "description": "x" * 200} for n in range(500))
    for number in range(1_000_000):
        LockFile(Path(path)).update("big", put(Record("big", DiscoveryStatus.SUCCESS, big, error=str(number))))


def update_with_a_full_disk(path: str, answers) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
    file = LockFile(Path(path))
    file.update("docs", put(replace(DOCS, error="x" * 10_000)))
    answers.put((file.problem, sorted(file.read().records)))


@pytest.fixture
def public_directory():
    """Not under ``tmp_path``, which nobody else may enter."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@contextmanager
def read_only(directory: Path) -> Iterator[None]:
    """The super-user may write anywhere, so for a moment the test is somebody else."""
    directory.chmod(0o555)
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        os.setegid(65534)
        os.seteuid(65534)
    try:
        yield
    finally:
        if user == 0:
            os.seteuid(user)
            os.setegid(group)
        directory.chmod(0o755)


def test_a_record_is_stored_changed_and_removed(tmp_path):
    """Each change sees the record as it is on disk; the other records are left alone."""
    file = LockFile(tmp_path / "toolcrib.lock")
    empty = file.read()
    file.update("docs", put(DOCS))
    stored = file.update("time", put(TIME))
    changed = file.update("time", lambda present: replace(present, status=DiscoveryStatus.FAILED, error="gone"))
    removed = file.update("docs", lambda present: None)

    assert (empty, stored, removed) == (Lock(), TIME, None)
    assert file.read() == LockFile(file.path).read() == Lock({"time": changed})
    assert changed == replace(TIME, status=DiscoveryStatus.FAILED, error="gone")
    assert file.path.read_text() == write_lock(Lock({"time": changed}))
    assert file.problem == ""


def test_what_another_process_wrote_is_seen(tmp_path):
    """A reader need not be told."""
    ours, theirs = LockFile(tmp_path / "toolcrib.lock"), LockFile(tmp_path / "toolcrib.lock")
    before = ours.read()
    theirs.update("time", put(TIME))

    assert (before, ours.read()) == (Lock(), Lock({"time": TIME}))


def test_a_file_that_did_not_change_is_not_read_again(tmp_path):
    """The fast path of every listing: the same values, not equal ones."""
    file = LockFile(tmp_path / "toolcrib.lock")
    file.update("time", put(TIME))

    assert file.read().records["time"] is file.read().records["time"]


def test_no_update_of_many_processes_is_lost(tmp_path):
    """Four processes, twenty updates each, half of them of the same server."""
    path = tmp_path / "toolcrib.lock"
    servers = ["common", "common", "a", "b"]
    with started(count_up, *((str(path), server, 20) for server in servers)) as workers:
        for worker in workers:
            worker.join()

    counts = {name: len(record.problems) for name, record in LockFile(path).read().records.items()}

    assert counts == {"a": 20, "b": 20, "common": 40}


def test_what_a_killed_writer_left_lying_about_is_cleared_away_by_the_next(tmp_path):
    """But nothing else."""
    for name in (".toolcrib.lock.0123.tmp", ".toolcrib.toml.0123.tmp", "toolcrib.lock.tmp"):
        (tmp_path / name).write_text("half")
    LockFile(tmp_path / "toolcrib.lock").update("time", put(TIME))

    assert sorted(found.name for found in tmp_path.iterdir()) == [
        ".toolcrib.lock.guard", ".toolcrib.toml.0123.tmp", "toolcrib.lock", "toolcrib.lock.tmp"
    ]  # fmt: skip


def test_a_writer_that_is_killed_leaves_a_lock_that_can_be_read(tmp_path):
    """However often it happens, and whatever it was writing."""
    path = tmp_path / "toolcrib.lock"
    file = LockFile(path)
    file.update("time", put(TIME))
    for _ in range(3):
        changed = has_changed(path)
        with started(update_for_ever, (str(path),)) as writers:
            until_at_work(writers, changed)

        assert file.read().records["time"] == TIME
    file.update("big", lambda present: None)
    assert sorted(found.name for found in tmp_path.iterdir()) == [".toolcrib.lock.guard", "toolcrib.lock"]


def test_a_damaged_lock_is_an_error_to_read_and_is_left_alone(tmp_path):
    """With it every pin would be forgotten; what is found meanwhile is kept in memory."""
    file = LockFile(tmp_path / "toolcrib.lock")
    file.path.write_text('{"version": 1, "serv')

    with pytest.raises(ConfigError, match="Mend it, or move it away"):
        file.read()
    file.update("time", put(TIME))

    assert "kept in memory" in file.problem
    assert file.path.read_text() == '{"version": 1, "serv'


def test_in_a_directory_that_cannot_be_written_records_are_kept_in_memory(public_directory):
    """toolcrib works on, says what is wrong, and writes again as soon as it can."""
    directory = public_directory
    file = LockFile(directory / "toolcrib.lock")
    file.update("docs", put(DOCS))
    file.path.chmod(0o644)
    (directory / ".toolcrib.lock.guard").unlink()

    with read_only(directory):
        kept = file.update("time", put(TIME))
        grown = file.update("time", _one_more)
        found, problem = file.read(), file.problem
    other = LockFile(file.path).read()
    file.update("time", _one_more)

    assert (kept, grown) == (TIME, replace(TIME, problems=("x",)))
    assert found == Lock({"docs": DOCS, "time": grown})
    assert problem == (
        f"{file.path}: The file cannot be locked: Permission denied. Give this user the right to it, then try again. "
        "What was found is kept in memory until it can be written."
    )
    assert other == Lock({"docs": DOCS})
    assert (file.problem, LockFile(file.path).read()) == (
        "",
        Lock({"docs": DOCS, "time": replace(TIME, problems=("x", "x"))}),
    )


def test_on_a_full_disk_the_old_lock_stays_and_the_problem_is_said(tmp_path):
    """The new record is still known to the process that found it."""
    path = tmp_path / "toolcrib.lock"
    LockFile(path).update("time", put(TIME))
    answers = SPAWN.SimpleQueue()
    with started(update_with_a_full_disk, (str(path), answers)):
        problem, known = answers.get()

    assert problem == (
        f"{path}: The file cannot be written: File too large. What was there before is unchanged. "
        "Raise the limit on the size of files, then try again. "
        "What was found is kept in memory until it can be written."
    )
    assert known == ["docs", "time"]
    assert read_lock(path.read_text(), str(path)) == Lock({"time": TIME})


def test_a_change_that_fails_changes_nothing_and_is_not_hidden(tmp_path):
    """A mistake in the caller is the caller's; it is made once, not twice."""
    file = LockFile(tmp_path / "toolcrib.lock")
    file.update("time", put(TIME))
    calls = []

    def fail(present: Record | None) -> Record:
        calls.append(present)
        raise ConfigError("no")

    with pytest.raises(ConfigError, match="no"):
        file.update("time", fail)

    assert (calls, file.read(), file.problem) == ([TIME], Lock({"time": TIME}), "")
