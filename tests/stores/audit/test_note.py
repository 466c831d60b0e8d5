"""The head of an audit log, noted elsewhere: what was deleted, emptied or cut is noticed, in every engine."""

import errno
import stat
from pathlib import Path

import apsw
import psycopg
import pytest
from tests.stores.audit_logs import numbered, tamper, tamper_table, written

from toolcrib.core.audit import AuditEntry
from toolcrib.core.errors import AuditUnavailable
from toolcrib.stores.audit.file import AuditFile
from toolcrib.stores.audit.log import Head, body_of
from toolcrib.stores.audit.note import NOTE_EVERY_S, HeadNote, NotedLog, NotedPlace, fault_of
from toolcrib.stores.audit.verify import Fault
from toolcrib.stores.postgres.audit import AuditTable
from toolcrib.testing import ManualClock


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def in_file(tmp_path, told) -> NotedPlace:
    place = AuditFile(tmp_path / "state" / "audit.db")
    return NotedPlace(place, HeadNote.of(place, tmp_path / "witness"), told.append)


@pytest.fixture
def in_table(tmp_path, store_settings, told) -> NotedPlace:
    place = AuditTable(store_settings, "postgresql://here")
    return NotedPlace(place, HeadNote.of(place, tmp_path / "witness"), told.append)


def delete(noted: NotedPlace) -> None:
    for path in noted.place.path.parent.iterdir():
        path.unlink()


def empty(noted: NotedPlace) -> None:
    tamper(noted.place.path, "DELETE FROM entry", "UPDATE head SET seq = 0, hash = zeroblob(32)")


def cut(noted: NotedPlace) -> None:
    last = "(SELECT hash FROM entry WHERE seq = 2)"
    tamper(noted.place.path, "DELETE FROM entry WHERE seq > 2", f"UPDATE head SET seq = 2, hash = {last}")


def truncate(noted: NotedPlace) -> None:
    delete(noted)
    noted.place.path.write_bytes(b"")


def test_a_noted_place_is_what_its_place_is(in_file):
    place = in_file.place

    assert (in_file.remedy, in_file.timeout_s, str(in_file)) == (place.remedy, place.timeout_s, str(place))
    assert in_file.remedy


LOSSES = {"deleted": delete, "emptied": empty, "cut": cut, "truncated": truncate}


@pytest.mark.parametrize("loss", LOSSES)
async def test_a_log_that_lost_its_end_is_noticed_by_whoever_looks(in_file, loss):
    """Without going along the chain, which is whole as far as it goes."""
    await written(in_file, numbered(5))
    whole = in_file.problem(), in_file.verify().fault
    LOSSES[loss](in_file)

    assert whole == ("", None)
    assert in_file.problem()
    try:
        assert in_file.verify().fault is not None
    except AuditUnavailable:
        assert loss in ("deleted", "truncated")


@pytest.mark.parametrize("loss", sorted(LOSSES.keys() - {"truncated"}))
async def test_a_log_that_lost_its_end_is_noticed_by_the_next_who_writes(in_file, told, loss):
    """It is told at once, and stays noticed however much is written: until a person accepts it."""
    await written(in_file, numbered(5))
    LOSSES[loss](in_file)
    await written(in_file, numbered(9))
    again = in_file.problem(), in_file.verify().fault

    in_file.note.forget()
    await written(in_file, numbered(1))

    assert [("knows of 5 entries" in words, "--accept-loss" in words) for words in told] == [(True, True)]
    assert "record 5 is not the one whose hash was noted" in again[0]
    assert again[1].kind == "not the noted head"
    assert (in_file.problem(), in_file.verify().fault) == ("", None)


async def test_a_log_that_was_cut_to_nothing_is_not_begun_anew(in_file):
    """An empty file was not left so by us: nothing is written there until a person has moved it away."""
    await written(in_file, numbered(5))
    LOSSES["truncated"](in_file)

    with pytest.raises(AuditUnavailable, match=r"audit\.db is empty"):
        await written(in_file, numbered(1))


async def test_a_table_that_was_emptied_is_noticed(in_table, store_settings, told):
    """All rows and the head gone, or all but the first two."""
    await written(in_table, numbered(5))
    last = "(SELECT hash FROM entry WHERE seq = 2)"
    tamper_table(store_settings, f"UPDATE toolcrib.audit_head SET seq = 2, hash = {last}",
                 "DELETE FROM toolcrib.audit_entry WHERE seq > 2")  # fmt: skip
    short = in_table.verify().fault
    with psycopg.connect(store_settings.url, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute("DELETE FROM toolcrib.audit_entry")
        connection.execute("DELETE FROM toolcrib.audit_head")
    gone = in_table.problem()
    await written(in_table, numbered(1))

    assert (short.seq, short.kind) == (3, "tail cut")
    assert "is gone: the head noted elsewhere knows of 5 entries" in gone
    assert len(told) == 1
    assert in_table.verify().fault.kind == "tail cut"


def entry() -> list[bytes]:
    return [body_of(1, AuditEntry("call"))]


def test_the_note_follows_at_most_every_half_minute_and_at_the_end(in_file):
    """A batch does not wait for a second file each time; the note is never ahead of the log."""
    clock = ManualClock(100.0)
    log = NotedLog(in_file.place.open(), in_file, clock)
    seen = []
    for pause_s in (0.0, 1.0, NOTE_EVERY_S - 2, 1.0, 0.5):
        clock.advance(pause_s)
        log.append(entry())
        seen.append(in_file.note.read().seq)
    log.close()

    assert (seen, in_file.note.read().seq) == ([1, 1, 1, 4, 4], 5)


def test_a_log_that_is_whole_is_written_on_without_a_word(in_file, told):
    for _ in range(2):
        log = NotedLog(in_file.place.open(), in_file, ManualClock(100.0))
        log.append(entry())
        log.close()

    assert (told, in_file.note.read().seq) == ([], 2)


def test_a_log_that_is_cut_while_it_is_written_keeps_its_note(in_file, told):
    """What grows again over the place of the cut does not cover it."""
    clock = ManualClock(100.0)
    log = NotedLog(in_file.place.open(), in_file, clock)
    log.append(entry() * 4)
    cut(in_file)
    known = []
    for _ in range(4):
        clock.advance(NOTE_EVERY_S)
        log.append(entry())
        known.append(len(told))
    log.close()

    assert (in_file.note.read().seq, known) == (4, [1, 1, 1, 1])
    assert in_file.verify().fault.kind == "not the noted head"


def test_a_head_that_was_noted_is_not_noted_again(in_file):
    log = NotedLog(in_file.place.open(), in_file, ManualClock(100.0))
    log.append(entry())
    noted = in_file.note.path.stat()
    log.close()

    assert in_file.note.path.stat() == noted


def test_a_note_that_cannot_be_written_holds_up_nothing(in_file):
    """The entries are safe, and that is what was promised."""
    in_file.note.path.parent.write_text("a file where a directory should be")
    log = in_file.place.open()
    noted = NotedLog(log, NotedPlace(in_file.place, HeadNote(in_file.note.path.parent / "x" / "y")))

    noted.append(entry())

    assert log.head.seq == 1
    noted.close()


@pytest.mark.parametrize("text", ["", "5", "5:xyz", "-1:" + "0" * 64])
async def test_a_note_that_is_no_head_is_told(in_file, told, text):
    """Somebody changed it: nothing is noted over it, and whoever looks is told."""
    await written(in_file, numbered(1))
    in_file.note.path.write_text(text)
    await written(in_file, numbered(1))

    with pytest.raises(AuditUnavailable, match="noted head"):
        in_file.problem()
    assert (len(told), in_file.note.path.read_text()) == (1, text)


async def test_each_log_has_a_note_of_its_own(tmp_path):
    """In a directory that is not the log's; a log nobody wrote has none."""
    first, second = (AuditFile(tmp_path / name / "audit.db") for name in "ab")
    notes = [HeadNote.of(place, tmp_path / "witness") for place in (first, second)]
    await written(NotedPlace(first, notes[0]), numbered(2))

    assert [note.read() and note.read().seq for note in notes] == [2, None]
    assert NotedPlace(second, notes[1]).problem() == ""
    assert isinstance(notes[0].read(), Head)
    assert {path.parent for path in Path(tmp_path).rglob("audit-*")} == {tmp_path / "witness"}


def test_a_noted_log_tells_the_head_of_the_log(in_file):
    log = NotedLog(in_file.place.open(), in_file, ManualClock())
    log.append(entry())
    head = log.head
    log.close()

    assert (head, head.seq) == (in_file.note.read(), 1)


def test_a_noted_log_that_is_closed_lets_go_of_the_log(in_file):
    log = in_file.place.open()
    NotedLog(log, in_file, ManualClock()).close()

    with pytest.raises(apsw.ConnectionClosedError):
        log.append(entry())


async def test_a_log_whose_head_nobody_noted_is_as_whole_as_its_chain(in_file):
    await written(in_file.place, numbered(3))

    assert (in_file.note.read(), in_file.verify().fault) == (None, None)


async def test_the_first_fault_of_a_chain_is_told_whatever_was_noted(in_file):
    """Where it is, not only that the end is another."""
    await written(in_file, numbered(5))
    tamper(in_file.place.path, "UPDATE entry SET body = '{}' WHERE seq = 2", "DELETE FROM entry WHERE seq = 5")

    assert in_file.verify().fault == Fault(2, "edited", "record 2 was edited")


def test_a_note_makes_the_directories_it_stands_in(tmp_path):
    note = HeadNote(tmp_path / "not" / "there" / "note")
    note.write(Head(1, bytes(32)))

    assert note.read() == Head(1, bytes(32))


def test_a_note_is_the_users_own(in_file):
    in_file.note.write(Head(1, bytes(32)))

    assert stat.S_IMODE(in_file.note.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(in_file.note.path.parent.stat().st_mode) == 0o700


def test_a_note_that_is_no_head_is_told_once_and_not_written_over(in_file, told):
    in_file.note.path.parent.mkdir(parents=True)
    in_file.note.path.write_text("nonsense")
    log = in_file.open()
    for number in range(2):
        log.append([body_of(number, AuditEntry("start"))])
    log.close()

    assert (len(told), in_file.note.path.read_text()) == (1, "nonsense")


async def test_a_log_that_was_emptied_is_missing_everything_from_its_first_entry_on(in_file):
    """Also where not even an end of it is left."""
    await written(in_file, numbered(2))
    tamper(in_file.place.path, "DELETE FROM entry", "DELETE FROM head")

    with in_file.place.reading() as log:
        assert fault_of(log, Head(2, bytes(32))).seq == 1


def test_what_was_noted_is_forgotten_once_and_for_all(in_file):
    """Nothing is wrong where there is nothing to forget."""
    in_file.note.write(Head(2, bytes(32)))
    in_file.note.forget()
    in_file.note.forget()

    assert in_file.note.read() is None


class FullOnce(HeadNote):
    """A note on a disk that has no room for the fifth entry's head."""

    def write(self, head: Head) -> None:
        if head.seq == 5:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().write(head)


async def test_a_cut_is_noticed_by_what_was_noted_before_even_if_nothing_could_be_noted_since(in_file, told):
    await written(in_file, numbered(4))
    clock = ManualClock(100.0)
    log = NotedLog(in_file.place.open(), NotedPlace(in_file.place, FullOnce(in_file.note.path), told.append), clock)
    log.append(entry())
    cut(in_file)
    for _ in range(5):
        clock.advance(NOTE_EVERY_S)
        log.append(entry())
    log.close()

    assert (in_file.note.read().seq, len(told)) == (4, 1)


async def test_a_noted_entry_that_is_missing_among_others_is_told_as_missing(in_file):
    """Not as one that was changed: the next entry is another one."""
    await written(in_file.place, numbered(4))
    with in_file.place.reading() as log:
        noted = Head(2, next(log.rows(2, 1))[1])
    tamper(in_file.place.path, "DELETE FROM entry WHERE seq = 2")

    with in_file.place.reading() as log:
        assert fault_of(log, noted).kind == "tail cut"
