"""Answers in the lock: changed by many processes at once, some of them killed, and none of them lost."""

import os
from pathlib import Path

import pytest
from tests.stores.processes import started, until_at_work

from toolcrib.config.lock import Lock, Record, StandingAnswer, read_lock, with_answer
from toolcrib.core.errors import ConfigError
from toolcrib.core.kinds import DiscoveryStatus
from toolcrib.stores.lockfile import LockFile

ROUNDS = 4


def put(tool: str, caller: str):
    return lambda lock: with_answer(lock, tool, caller, StandingAnswer(True, "2026-11-16T00:00:00Z", "terminal"))


def answer_many(path: str, caller: str, times: int) -> None:
    for number in range(times):
        LockFile(Path(path)).change(put(f"tool_{number}", caller))


def answer_for_ever(path: str, caller: str, log: str) -> None:
    """Write answers, and acknowledge each in a log that a kill cannot take back."""
    acknowledged = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    file = LockFile(Path(path))
    for number in range(1_000_000):
        file.change(put(f"{caller}_{number}", caller))
        os.write(acknowledged, f"{caller}_{number}\n".encode())


def test_an_answer_is_stored_beside_the_records_and_can_be_taken_back(tmp_path):
    """The last one of a tool takes the tool with it."""
    file = LockFile(tmp_path / "toolcrib.lock")
    record = file.update("docs", lambda _: Record("docs", DiscoveryStatus.FAILED, error="boom"))
    file.change(put("a", "ann"))
    both = file.change(put("a", "bob"))
    one = file.change(lambda lock: with_answer(lock, "a", "ann", None))
    none = file.change(lambda lock: with_answer(lock, "a", "bob", None))

    assert set(both.approvals["a"]) == {"ann", "bob"}
    assert set(one.approvals["a"]) == {"bob"}
    assert none == file.read() == Lock({"docs": record})


def test_records_and_answers_do_not_overwrite_each_other(tmp_path):
    """Whichever is written last."""
    ours, theirs = LockFile(tmp_path / "toolcrib.lock"), LockFile(tmp_path / "toolcrib.lock")
    ours.read()
    theirs.change(put("a", "ann"))
    ours.update("docs", lambda _: Record("docs"))
    theirs.change(put("b", "ann"))

    assert set(ours.read().approvals) == {"a", "b"}
    assert set(ours.read().records) == {"docs"}


def test_no_answer_of_many_processes_is_lost(tmp_path):
    """Four of them, each with ten answers, to the same tools."""
    path = tmp_path / "toolcrib.lock"
    callers = ["ann", "bob", "cyd", "dan"]
    with started(answer_many, *((str(path), caller, 10) for caller in callers)) as workers:
        for worker in workers:
            worker.join()

    answers = LockFile(path).read().approvals
    assert {tool: sorted(found) for tool, found in answers.items()} == {f"tool_{n}": callers for n in range(10)}


def have_acknowledged(logs: list[Path]) -> bool:
    return all(log.exists() and log.stat().st_size > 20 for log in logs)


def test_no_acknowledged_answer_is_lost_when_its_writer_is_killed(tmp_path):
    """Four rounds of two writers killed in the middle of their work: the file is whole and holds all it should."""
    path = tmp_path / "toolcrib.lock"
    for number in range(ROUNDS):
        logs = {name: tmp_path / f"{name}.log" for name in (f"w{number}a", f"w{number}b")}
        with started(answer_for_ever, *((str(path), name, str(log)) for name, log in logs.items())) as writers:
            until_at_work(
                writers, lambda logs=logs: all(log.exists() and log.stat().st_size > 20 for log in logs.values())
            )

        found = read_lock(path.read_text(), str(path)).approvals
        acknowledged = {line for log in tmp_path.glob("*.log") for line in log.read_text().split()}
        assert acknowledged <= set(found)


def test_a_change_that_cannot_be_written_is_an_error_and_not_half_done(tmp_path):
    """Unlike a record, an answer must not seem to be kept."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError):
        LockFile(tmp_path / "file" / "toolcrib.lock").change(put("a", "ann"))

    file = LockFile(tmp_path / "toolcrib.lock")
    file.change(put("a", "ann"))
    before = file.path.read_bytes()
    with pytest.raises(ZeroDivisionError):
        file.change(lambda lock: 1 / 0)
    assert file.path.read_bytes() == before


def test_a_damaged_lock_is_not_written_over(tmp_path):
    """What is in it may still be mended."""
    file = LockFile(tmp_path / "toolcrib.lock")
    file.path.write_text("{")

    with pytest.raises(ConfigError, match="Mend it"):
        file.change(put("a", "ann"))
    assert file.path.read_text() == "{"
