"""The audit log: what was acknowledged is there, in order, whoever else writes and whatever the disk says."""

import asyncio
import stat
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import apsw
import pytest
from tests.fleet import launcher
from tests.fleet.running import until
from tests.stores.audit_logs import find, numbered, tamper, walk, written

from toolcrib.core.audit import AuditEntry, AuditStatus
from toolcrib.core.errors import AuditUnavailable
from toolcrib.stores.audit.file import FORMAT, AuditFile
from toolcrib.stores.audit.log import AuditQuery, Head, InDoubtError
from toolcrib.stores.audit.writer import AuditSettings, QueuedAudit
from toolcrib.stores.sqlite_file import refuse_old_sqlite

QUICK = AuditSettings(linger_s=0.001, retry_s=0.01)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "audit.db"


def tools(path: Path) -> list[str]:
    return [entry.tool or entry.event for entry in find(path)]


async def test_what_is_noted_is_written_soon(path: Path):
    """Without anybody who waits for it."""
    log = QueuedAudit(AuditFile(path), time.time_ns, settings=QUICK)

    log.note(AuditEntry("start"))

    await asyncio.to_thread(until, lambda: log.status().written == 1, deadline_s=150, what="written")
    await log.close()


async def test_a_busy_event_loop_does_not_hold_the_writer_up(path: Path):
    """A loop that never gets to its timers fills the backlog; a batch of it wakes the writer directly."""
    log = QueuedAudit(AuditFile(path), time.time_ns, settings=AuditSettings(linger_s=600, batch_max=10))

    for entry in numbered(25):
        log.note(entry)
    until(lambda: log.status().written == 25, deadline_s=150, what="written while the loop is busy")

    await log.close()
    assert len(tools(path)) == 25


async def test_what_is_still_gathered_when_the_log_is_closed_is_written(path: Path):
    """However long it would have been gathered otherwise."""
    log = QueuedAudit(AuditFile(path), time.time_ns, settings=AuditSettings(linger_s=600))

    log.note(AuditEntry("start"))
    await log.close()

    assert (log.status().opened, log.status().written, tools(path)) == (True, 1, ["start"])


async def test_nothing_is_opened_before_the_first_entry(path: Path):
    """A log nobody writes to costs nothing."""
    log = QueuedAudit(AuditFile(path), time.time_ns)

    status = log.status()
    await log.close()

    assert status == AuditStatus(enabled=True, place=str(path))
    assert not path.parent.exists()


async def test_only_the_user_may_read_the_log(path: Path):
    """File, side files and directory; a file that others could read is closed to them."""
    await written(path, numbered(1))
    path.chmod(0o644)
    log = QueuedAudit(AuditFile(path), time.time_ns)

    await log.commit(AuditEntry("start"))

    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in (path.parent, *path.parent.iterdir())}
    assert modes == {"state": 0o700, "audit.db": 0o600, "audit.db-wal": 0o600, "audit.db-shm": 0o600}
    await log.close()


WRITER = """
import asyncio, sys, time
from pathlib import Path
from toolcrib.core.audit import AuditEntry
from toolcrib.stores.audit.file import AuditFile
from toolcrib.stores.audit.writer import QueuedAudit

async def main():
    log = QueuedAudit(AuditFile(Path(sys.argv[1])), time.time_ns)
    async def work(name):
        for number in range(25):
            await log.commit(AuditEntry("call", caller=sys.argv[2], tool=f"{name}-{number}"))
    await asyncio.gather(*(work(str(name)) for name in range(8)))
    await log.close()

asyncio.run(main())
"""


def test_two_processes_keep_one_chain(path: Path):
    """Both begin with a file that does not exist yet, and neither loses an entry."""
    writers = [
        launcher.popen([sys.executable, "-c", WRITER, str(path), name], is_example=True) for name in ("one", "two")
    ]

    codes = [writer.wait(150) for writer in writers]

    assert codes == [0, 0]
    assert (walk(path).fault, walk(path).entries) == (None, 400)
    assert [len(find(path, AuditQuery(caller=name))) for name in ("one", "two")] == [200, 200]


UNCLOSED = """
import asyncio, sys, time
from pathlib import Path
from toolcrib.core.audit import AuditEntry
from toolcrib.stores.audit.file import AuditFile
from toolcrib.stores.audit.writer import QueuedAudit

log = QueuedAudit(AuditFile(Path(sys.argv[1])), time.time_ns)
asyncio.run(log.commit(AuditEntry("call", tool="done")))
"""


def test_a_program_that_never_closes_its_log_ends_all_the_same(path: Path):
    """What it was told is written is there."""
    done = launcher.run([sys.executable, "-c", UNCLOSED, str(path)], stdin="", timeout_s=150)

    assert done.returncode == 0, done.stderr
    assert tools(path) == ["done"]


FULL = """
import asyncio, resource, signal, sys, time
from pathlib import Path
from toolcrib.core.audit import AuditEntry
from toolcrib.core.errors import AuditUnavailable
from toolcrib.stores.audit.file import AuditFile
from toolcrib.stores.audit.writer import AuditSettings, QueuedAudit

async def main():
    told = []
    log = QueuedAudit(AuditFile(Path(sys.argv[1])), time.time_ns, told.append, AuditSettings(retry_s=0.01))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
    acknowledged = 0
    try:
        while True:
            await log.commit(AuditEntry("call.begun", tool="x" * 500))
            acknowledged += 1
    except AuditUnavailable as error:
        print(str(error))
    log.note(AuditEntry("call", tool="kept"))
    print(bool(log.status().problem), bool(log.status().failures))
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await log.commit(AuditEntry("call.begun", tool="again"))
    await log.close()
    print(log.status().problem == "", told[-1] == "", len(told), acknowledged)

asyncio.run(main())
"""


def test_a_full_disk_refuses_what_must_be_written_and_keeps_what_was_noted(path: Path):
    """A plain sentence, nothing acknowledged lost, and everything goes on once there is room."""
    child = [sys.executable, "-c", FULL, str(path)]

    done = launcher.run(child, stdin="", timeout_s=150)

    assert done.returncode == 0, done.stderr
    sentence, troubled, mended = done.stdout.splitlines()
    assert sentence.startswith("The audit log cannot be written: ")
    assert "Make room or mend the place of audit.db" in sentence
    assert troubled == "True True"
    assert mended.split()[:3] == ["True", "True", "2"]
    begun = find(path, AuditQuery(tool="xxx*"))
    assert walk(path).fault is None
    assert len(begun) == int(mended.split()[3]) > 10
    assert tools(path)[-2:] == ["kept", "again"]


@pytest.mark.parametrize("obstacle", ["a directory", "no database", "a newer log"])
async def test_a_file_that_cannot_be_used_is_told(path: Path, obstacle: str):
    """Whatever stands in its place, the reason is in the error and in the status."""
    path.parent.mkdir()
    if obstacle == "a directory":
        path.mkdir()
    elif obstacle == "no database":
        path.write_bytes(b"hello, this is no database" * 100)
    else:
        apsw.Connection(str(path)).execute("PRAGMA user_version = 99")
    log = QueuedAudit(AuditFile(path), time.time_ns)

    with pytest.raises(AuditUnavailable) as caught:
        await log.commit(AuditEntry("start"))

    reason = {
        "a directory": "is a directory",
        "no database": "the file is not a database",
        "a newer log": f"The audit log {path} was written by a newer toolcrib (format 99)",
    }[obstacle]
    assert caught.value.message == f"The audit log cannot be written: {reason}."
    assert log.status().problem == reason
    await log.close()


async def test_a_backlog_that_is_full_refuses_instead_of_forgetting(path: Path):
    """What had no room is counted, the log says so as soon as it can, and until then nothing is committed."""
    path.parent.mkdir()
    path.mkdir()
    log = QueuedAudit(
        AuditFile(path), time.time_ns, settings=AuditSettings(linger_s=0.001, retry_s=0.01, backlog_max=3)
    )
    for entry in numbered(5):
        log.note(entry)
    await asyncio.to_thread(until, lambda: bool(log.status().problem), deadline_s=150, what="trouble")

    with pytest.raises(AuditUnavailable, match="is a directory"):
        await log.commit(AuditEntry("call.begun"))
    path.rmdir()
    await asyncio.to_thread(until, lambda: log.status().backlog == 0, deadline_s=150, what="written")
    status = log.status()
    await log.close()

    assert (status.lost, status.problem) == (2, "")
    assert tools(path) == ["tool1", "tool2", "tool3", "audit.gap"]
    assert find(path)[-1].details == {"lost": 2}


async def test_a_full_backlog_takes_nobody_who_waits(path: Path):
    """Although nothing is wrong with the disk yet."""
    log = QueuedAudit(AuditFile(path), time.time_ns, settings=AuditSettings(linger_s=600, backlog_max=2))
    for entry in numbered(2):
        log.note(entry)

    with pytest.raises(AuditUnavailable, match="more waits to be written than the disk takes"):
        await log.commit(AuditEntry("call.begun"))

    await log.close()
    assert tools(path) == ["tool1", "tool2"]


async def test_nobody_waits_for_a_log_that_was_closed_in_trouble(path: Path):
    """Whoever still waits is refused, whichever batch they were in; so is whoever comes later."""
    path.mkdir(parents=True)
    log = QueuedAudit(AuditFile(path), time.time_ns, settings=AuditSettings(batch_max=2))
    waiting = [asyncio.ensure_future(log.commit(entry)) for entry in numbered(5)]
    await asyncio.sleep(0)

    await log.close()
    answers = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 150)

    assert [type(answer) for answer in answers] == [AuditUnavailable] * 5
    with pytest.raises(AuditUnavailable):
        await log.commit(AuditEntry("start"))


async def test_a_log_that_was_moved_away_is_begun_anew(path: Path):
    """What is written next is found where the log belongs, not in a file without a name."""
    log = QueuedAudit(AuditFile(path), time.time_ns)
    await log.commit(AuditEntry("call", tool="old"))
    path.rename(path.with_name("moved.db"))
    for side in ("-wal", "-shm"):
        path.with_name(path.name + side).unlink()

    await log.commit(AuditEntry("call", tool="new"))
    await log.close()

    assert tools(path) == ["new"]


async def test_a_caller_who_gives_up_does_not_disturb_the_others(path: Path):
    """The entry may be written all the same."""
    log = QueuedAudit(AuditFile(path), time.time_ns)
    impatient = asyncio.ensure_future(log.commit(AuditEntry("call.begun", tool="a")))
    patient = asyncio.ensure_future(log.commit(AuditEntry("call.begun", tool="b")))
    await asyncio.sleep(0)

    impatient.cancel()
    await patient
    await log.close()

    assert impatient.cancelled()
    assert "b" in tools(path)


@pytest.mark.parametrize("version", ["3.40.1", "3.51.2"])
def test_an_sqlite_that_may_damage_the_log_is_refused(version: str):
    """The WAL-reset bug was fixed in 3.51.3."""
    refuse_old_sqlite("3.51.3", FORMAT)
    refuse_old_sqlite("3.54.1", FORMAT)

    with pytest.raises(AuditUnavailable, match=f"SQLite {version} may damage"):
        refuse_old_sqlite(version, FORMAT)


def test_what_is_no_log_is_told(tmp_path: Path):
    """In words, not with a traceback."""
    (tmp_path / "x").write_bytes(b"no database at all, really" * 50)

    with pytest.raises(AuditUnavailable, match="cannot be read"):
        find(tmp_path / "x")


async def test_a_log_whose_bodies_are_no_json_any_more_counts_nothing(path: Path):
    """In plain words, not with a guess."""
    await written(path, numbered(1))
    tamper(path, "UPDATE entry SET body = 'nonsense'")

    with pytest.raises(AuditUnavailable), AuditFile(path).reading() as log:
        log.usage(0)


def test_a_place_that_cannot_be_written_is_found_before_anything_is_written(path: Path):
    """And nothing is made by looking."""
    AuditFile(path).check()
    assert not path.parent.exists()
    path.mkdir(parents=True)

    with pytest.raises(AuditUnavailable, match="may not be written"):
        AuditFile(path).check()


async def test_everybody_who_waits_behind_a_full_first_batch_is_refused(path: Path):
    """What was noted alone fills the next batches: nobody would ever come to those who wait behind it."""
    path.mkdir(parents=True)
    log = QueuedAudit(AuditFile(path), time.time_ns, settings=AuditSettings(linger_s=600, retry_s=600, batch_max=2))
    for entry in numbered(5):
        log.note(entry)
    waiting = [asyncio.ensure_future(log.commit(entry)) for entry in numbered(7)]

    answers = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 150)
    backlog = log.status().backlog
    path.rmdir()
    await log.commit(AuditEntry("call", tool="last"))
    await log.close()

    assert [(type(answer), answer.retryable) for answer in answers] == [(AuditUnavailable, True)] * 7
    assert backlog == 5
    assert tools(path) == [*(f"tool{number}" for number in range(1, 6)), "last"]


class Stuck:
    """A place whose writer waits until it is let go, as with a database that has stopped answering."""

    remedy = "Mend it."
    timeout_s = 0.001

    def __init__(self, behind: AuditFile) -> None:
        self._behind, self.let_go = behind, threading.Event()

    def open(self):
        self.let_go.wait()
        return self._behind.open()


async def test_nobody_waits_longer_than_the_place_may_take(path: Path):
    """However long the writer is stuck: what must be written first is refused in time, and is written late or never."""
    place = Stuck(AuditFile(path))
    log = QueuedAudit(place, time.time_ns)

    with pytest.raises(AuditUnavailable, match=r"it does not answer within 0\.001 s") as caught:
        await log.commit(AuditEntry("call.begun", tool="refused"))
    place.let_go.set()
    await log.close()

    assert caught.value.retryable
    assert walk(path).fault is None


class Doubtful:
    """A place whose first batch is in doubt: the connection was lost while it was committed."""

    remedy, timeout_s, is_in_place, head = "Wait.", None, True, Head()

    def __init__(self, counts: bool | Exception) -> None:
        self.counts, self.batches, self.closed = counts, list[int](), 0

    def open(self) -> "Doubtful":
        return self

    def append(self, bodies: Sequence[bytes]) -> None:
        self.batches.append(len(bodies))
        if len(self.batches) == 1:
            raise InDoubtError("connection lost", Head(2, bytes(32)))

    def has(self, end: Head) -> bool:
        assert end == Head(2, bytes(32))
        if isinstance(self.counts, Exception):
            raise self.counts
        return self.counts

    def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize(("counts", "batches", "written"), [(True, [2, 1], 3), (False, [2, 2], 2)])
async def test_a_batch_in_doubt_is_written_again_only_if_it_does_not_count(counts, batches, written):
    """What was noted is never lost, and never there twice; whoever waited was refused, and does not come back."""
    place, told = Doubtful(counts), list[str]()
    log = QueuedAudit(place, time.time_ns, told.append, AuditSettings(retry_s=1000.0))
    log.note(AuditEntry("start"))
    with pytest.raises(AuditUnavailable, match="connection lost"):
        await log.commit(AuditEntry("start"))
    in_doubt = log.status()
    await log.commit(AuditEntry("start"))
    await log.close()
    after = log.status()

    assert (in_doubt.backlog, in_doubt.written, after.backlog, after.written) == (1, 0, 0, written)
    assert (place.batches, place.closed) == (batches, 2)
    assert [bool(problem) for problem in told] == [True, False]


async def test_what_is_in_doubt_when_the_log_is_closed_is_lost_and_told():
    place, told = Doubtful(OSError("still away")), list[str]()
    log = QueuedAudit(place, time.time_ns, told.append, AuditSettings(retry_s=1000.0))
    log.note(AuditEntry("start"))
    with pytest.raises(AuditUnavailable):
        await log.commit(AuditEntry("start"))

    await log.close()

    assert (log.status().lost, log.status().written) == (1, 0)
    assert told[-1].endswith("1 entries were not written")


@pytest.mark.parametrize(("counts", "batches"), [(True, [3, 1]), (False, [3, 4])])
async def test_a_gap_in_a_batch_in_doubt_is_told_once(counts, batches):
    """With the batch if that counts, and with the next one if it does not."""
    place, troubled, loop = Doubtful(counts), asyncio.Event(), asyncio.get_running_loop()
    settings = AuditSettings(linger_s=0.001, retry_s=1000.0, backlog_max=2)
    log = QueuedAudit(place, time.time_ns, lambda _: loop.call_soon_threadsafe(troubled.set), settings)
    for entry in numbered(3):
        log.note(entry)
    await troubled.wait()
    in_doubt = log.status()
    await log.commit(AuditEntry("start"))
    await log.close()
    after = log.status()

    assert (in_doubt.backlog, in_doubt.lost, in_doubt.failures, in_doubt.opened) == (2, 1, 1, False)
    assert (place.batches, after.written, after.lost, after.opened) == (batches, 4, 1, True)


async def test_what_comes_to_a_closed_log_is_counted_as_lost(path: Path):
    log = QueuedAudit(AuditFile(path), time.time_ns)
    await log.close()

    log.note(AuditEntry("start"))

    assert (log.status().lost, log.status().backlog, path.exists()) == (1, 0, False)


def test_without_an_event_loop_what_is_noted_is_written_at_once(path: Path):
    log = QueuedAudit(AuditFile(path), time.time_ns, settings=AuditSettings(linger_s=600))

    log.note(AuditEntry("start"))

    until(lambda: log.status().written == 1, deadline_s=150, what="written")
    asyncio.run(log.close())


def test_how_the_log_is_written_unless_somebody_says_otherwise():
    assert AuditSettings() == AuditSettings(linger_s=0.05, retry_s=1.0, batch_max=1_000, backlog_max=10_000)


class Slow(Doubtful):
    """A place that takes one batch after the other when it is told to, and whose log is never lost."""

    def __init__(self) -> None:
        super().__init__(True)
        self.reached, self.let_go = threading.Event(), threading.Event()

    def append(self, bodies: Sequence[bytes]) -> None:
        self.reached.set()
        self.let_go.wait()
        self.batches.append(len(bodies))


async def test_what_is_being_written_counts_as_waiting_and_goes_out_in_batches():
    """Not more at once than a batch may have, and all that waits with one call."""
    place = Slow()
    log = QueuedAudit(place, time.time_ns, settings=AuditSettings(batch_max=2))
    waiting = [asyncio.ensure_future(log.commit(entry)) for entry in numbered(5)]
    await asyncio.to_thread(place.reached.wait)
    while_written = log.status().backlog
    place.let_go.set()
    await asyncio.gather(*waiting)
    await log.close()

    assert (while_written, log.status().backlog, place.batches) == (5, 0, [2, 2, 1])
