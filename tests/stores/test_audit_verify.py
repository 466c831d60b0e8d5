"""Verify: whatever is done to the file behind toolcrib's back is found, and named."""

from pathlib import Path

import apsw
import pytest
from tests.stores.audit_logs import numbered, tamper, walk, written

from toolcrib.core.audit import AuditEntry
from toolcrib.stores.audit_database import link
from toolcrib.stores.audit_verify import Fault, Head

SWAP = """
CREATE TEMP TABLE kept AS SELECT * FROM entry WHERE seq IN (4, 5);
UPDATE entry SET (hash, body) = (SELECT hash, body FROM kept WHERE kept.seq = 9 - entry.seq) WHERE seq IN (4, 5);
"""


@pytest.fixture
async def log(tmp_path: Path) -> Path:
    return await written(tmp_path / "audit.db", numbered(9))


async def test_an_untouched_log_is_whole(log: Path):
    """Every entry is counted, and the head stands for all of them."""
    finding = walk(log)

    assert (finding.fault, finding.entries, finding.head.seq) == (None, 9, 9)
    assert Head.parse(str(finding.head)) == finding.head


async def test_an_empty_log_is_whole(tmp_path: Path):
    """Nothing written, nothing missing."""
    path = await written(tmp_path / "audit.db", numbered(1))
    tamper(path, "DELETE FROM entry", "UPDATE head SET seq = 0, hash = zeroblob(32)")

    assert walk(path).fault is None


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (
            "UPDATE entry SET body = replace(body, 'tool4', 'tool7') WHERE seq = 4",
            Fault(4, "edited", "record 4 was edited"),
        ),
        ("UPDATE entry SET hash = zeroblob(32) WHERE seq = 9", Fault(9, "edited", "record 9 was edited")),
        ("UPDATE entry SET body = body || ' ' WHERE seq = 1", Fault(1, "edited", "record 1 was edited")),
        ("DELETE FROM entry WHERE seq = 1", Fault(1, "missing", "record 1 is missing")),
        ("DELETE FROM entry WHERE seq = 5", Fault(5, "missing", "record 5 is missing")),
        ("DELETE FROM entry WHERE seq IN (5, 6)", Fault(5, "missing", "records 5 to 6 are missing")),
        (
            "DELETE FROM entry WHERE seq = 9",
            Fault(9, "tail cut", "the tail was cut: record 9 is missing, the head knows of 9"),
        ),
        (
            "DELETE FROM entry",
            Fault(1, "tail cut", "the tail was cut: records 1 to 9 are missing, the head knows of 9"),
        ),
        (SWAP, Fault(4, "out of order", "record 4 is out of order: what belongs there stands at 5")),
        (
            "DELETE FROM entry WHERE seq = 3; UPDATE entry SET seq = seq - 1 WHERE seq > 3",
            Fault(3, "edited", "record 3 was edited"),
        ),
        (
            "INSERT INTO entry VALUES (10, zeroblob(32), '{}')",
            Fault(10, "edited", "record 10 was edited"),
        ),
        (
            "UPDATE head SET seq = 8, hash = (SELECT hash FROM entry WHERE seq = 8)",
            Fault(9, "head changed", "the head says 8, but the log ends with 9"),
        ),
        ("DELETE FROM head", Fault(9, "head changed", "the head of the log is missing")),
    ],
)
async def test_what_was_done_to_the_log_is_found(log: Path, change: str, fault: Fault):
    """The first record that is not right, and what is wrong with it."""
    tamper(log, change)

    finding = walk(log)

    assert finding.fault == fault
    assert finding.entries == min(fault.seq - (fault.kind != "head changed"), 9)


async def test_a_rebuilt_chain_is_found_by_a_head_that_was_noted(log: Path):
    """Who can write the file can make a new chain; what somebody wrote down elsewhere does not fit it."""
    noted = walk(log).head
    connection = apsw.Connection(str(log))
    rows = connection.execute("SELECT seq, body FROM entry ORDER BY seq").fetchall()
    previous, changes = bytes(32), []
    for seq, body in rows:
        changed = body.replace("tool4", "tool7")
        previous = link(previous, seq, changed.encode())
        changes.append(f"UPDATE entry SET hash = x'{previous.hex()}', body = '{changed}' WHERE seq = {seq}")
    tamper(log, *changes, f"UPDATE head SET hash = x'{previous.hex()}'")

    assert walk(log).fault is None
    assert walk(log, noted).fault == Fault(9, "not the noted head", "record 9 is not the one whose hash was noted")


async def test_a_tail_cut_with_its_head_is_found_by_a_head_that_was_noted(log: Path):
    """The log looks whole by itself."""
    noted = walk(log).head
    tamper(
        log, "DELETE FROM entry WHERE seq > 6", "UPDATE head SET seq = 6, hash = (SELECT hash FROM entry WHERE seq = 6)"
    )

    assert walk(log).fault is None
    assert walk(log, noted).fault == Fault(
        7, "tail cut", "the tail was cut: records 7 to 9 are missing, the noted head knows of 9"
    )


async def test_an_earlier_head_is_still_part_of_the_chain(log: Path):
    """What is added later does not disturb it."""
    noted = walk(log).head
    await written(log, numbered(3))

    assert walk(log, noted).fault is None


async def test_calls_without_an_end_are_told(tmp_path: Path):
    """Begun, and then nothing: the process ended first, or it still runs."""
    path = await written(
        tmp_path / "audit.db",
        [
            AuditEntry("call.begun", tool="a", execution_id="1"),
            AuditEntry("call.begun", tool="b", execution_id="2"),
            AuditEntry("call", tool="a", execution_id="1", outcome="success"),
        ],
    )

    assert [entry.tool for entry in walk(path).unfinished] == ["b"]


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
