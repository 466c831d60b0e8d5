"""Verify: what is done to a file behind toolcrib's back is found, and what a head looks like."""

from pathlib import Path

import apsw
import pytest
from tests.stores.audit_logs import numbered, tamper, walk, written

from toolcrib.stores.audit_verify import Fault, Head


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
