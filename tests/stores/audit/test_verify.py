"""Verify: what is done to a file behind toolcrib's back is found, and what a head looks like."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import apsw
import pytest
from tests.stores.audit_logs import numbered, tamper, walk, written

from toolcrib.core.audit import AuditEntry
from toolcrib.stores.audit.log import GENESIS, Head, body_of, link
from toolcrib.stores.audit.verify import Fault, verify


@pytest.fixture
async def log(tmp_path: Path) -> Path:
    return await written(tmp_path / "audit.db", numbered(9))


async def test_an_empty_log_is_whole(log: Path):
    """Nothing written, nothing missing."""
    tamper(log, "DELETE FROM entry", "UPDATE head SET seq = 0, hash = zeroblob(32)")

    assert walk(log).fault is None


async def test_an_entry_put_in_behind_the_log_is_found(log: Path):
    """Even one that looks like the others."""
    tamper(log, "INSERT INTO entry SELECT 10, hash, body FROM entry WHERE seq = 9")

    assert walk(log).fault == Fault(10, "edited", "record 10 was edited")


async def test_entries_cannot_be_changed_by_accident(log: Path):
    """The file itself refuses what is no append."""
    connection = apsw.Connection(str(log))

    for statement in ("UPDATE entry SET body = ''", "DELETE FROM entry", "DELETE FROM entry WHERE seq = 9"):
        with pytest.raises(apsw.ConstraintError, match="audit entries are never"):
            connection.execute(statement)


@pytest.mark.parametrize("text", ["", "7", "x:00", "7:00", f"-1:{'0' * 64}", f"7:{'z' * 64}"])
def test_a_head_is_a_number_and_a_hash(text: str):
    """Anything else was not copied right."""
    with pytest.raises(ValueError):
        Head.parse(text)


@pytest.mark.parametrize("seq", [1, 5, 9])
async def test_a_noted_head_is_looked_for_at_its_own_place(log: Path, seq: int):
    """The right one is found in the middle as at the end; a wrong hash is told with its number."""
    (digest,) = apsw.Connection(str(log)).execute("SELECT hash FROM entry WHERE seq = ?", (seq,)).fetchone()

    assert walk(log, Head(seq, digest)).fault is None
    assert walk(log, Head(seq, bytes(32))).fault == Fault(
        seq, "not the noted head", f"record {seq} is not the one whose hash was noted"
    )


async def test_what_is_missing_is_told_from_the_first_to_the_last(log: Path):
    tamper(log, "DELETE FROM entry WHERE seq IN (1, 2)")

    assert walk(log).fault == Fault(1, "missing", "records 1 to 2 are missing")


def chain(*bodies: str) -> list[tuple[int, bytes, str]]:
    """Entries as they are stored, each with its number and its hash."""
    rows, previous = list[tuple[int, bytes, str]](), GENESIS
    for seq, body in enumerate(bodies, 1):
        previous = link(previous, seq, body.encode())
        rows.append((seq, previous, body))
    return rows


class Rows:
    """A log in memory, with a head of its own."""

    def __init__(self, rows: list[tuple[int, bytes, str]], head: Head | None) -> None:
        self.rows, self._head = rows, head

    def snapshot(self) -> AbstractContextManager[None]:
        return nullcontext()

    def checked(self, first: int = 1) -> Iterator[tuple[int, bytes, str]]:
        return iter([row for row in self.rows if row[0] >= first])

    def head(self) -> Head | None:
        return self._head


def body(event: str, execution_id: str = "") -> str:
    return body_of(1000, AuditEntry(event, execution_id=execution_id)).decode()


WHOLE = chain(*(body("start", str(number)) for number in range(4)))
END = Head(4, WHOLE[3][1])


def swapped(first: int, second: int) -> list[tuple[int, bytes, str]]:
    """Two entries in each other's place, under each other's number."""
    rows = list(WHOLE)
    rows[first - 1], rows[second - 1] = (first, *WHOLE[second - 1][1:]), (second, *WHOLE[first - 1][1:])
    return rows


@pytest.mark.parametrize(
    ("rows", "head", "noted", "fault"),
    [
        (WHOLE, END, None, None),
        (WHOLE, END, END, None),
        (WHOLE, END, Head(2, WHOLE[1][1]), None),
        ([], Head(), None, None),
        (WHOLE, None, None, Fault(4, "head changed", "the head of the log is missing")),
        (
            WHOLE[:3],
            END,
            None,
            Fault(4, "tail cut", "the tail was cut: record 4 is missing, the head knows of 4"),
        ),
        (
            WHOLE[:1],
            END,
            None,
            Fault(2, "tail cut", "the tail was cut: records 2 to 4 are missing, the head knows of 4"),
        ),
        (
            WHOLE[:2],
            Head(2, WHOLE[1][1]),
            END,
            Fault(3, "tail cut", "the tail was cut: records 3 to 4 are missing, the noted head knows of 4"),
        ),
        (
            WHOLE,
            Head(3, WHOLE[2][1]),
            None,
            Fault(4, "head changed", "the head says 3, but the log ends with 4"),
        ),
        (WHOLE, Head(4, bytes(32)), None, Fault(4, "head changed", "the head says 4, but the log ends with 4")),
        (WHOLE[:1] + WHOLE[2:], END, None, Fault(2, "missing", "record 2 is missing")),
        ([*WHOLE[:2], (3, WHOLE[2][1], "{}"), WHOLE[3]], END, None, Fault(3, "edited", "record 3 was edited")),
        (
            swapped(2, 3),
            END,
            None,
            Fault(2, "out of order", "record 2 is out of order: what belongs there stands at 3"),
        ),
    ],
)
def test_each_damage_is_told_with_its_place(rows, head, noted, fault):
    assert verify(Rows(rows, head), noted).fault == fault


def test_calls_that_began_and_did_not_end_are_found():
    """An end that comes after its beginning closes it; other entries do not."""
    rows = chain(body("call.begun", "a"), body("call.begun", "b"), body("approval", "b"), body("call", "a"))

    finding = verify(Rows(rows, Head(4, rows[3][1])))

    assert (finding.fault, finding.entries, finding.head) == (None, 4, Head(4, rows[3][1]))
    assert [(entry.event, entry.execution_id, entry.seq) for entry in finding.unfinished] == [("call.begun", "b", 2)]


def test_a_head_is_read_as_it_is_written():
    """That of an empty chain as well."""
    assert [Head.parse(str(head)) for head in (Head(), END)] == [Head(), END]
