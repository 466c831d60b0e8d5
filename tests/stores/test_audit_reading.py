"""Reading the log: by tool, caller, outcome and time, and what is left out."""

from pathlib import Path

import pytest
from tests.stores.audit_logs import find, tamper, written

from toolcrib.core.audit import AuditEntry
from toolcrib.core.errors import AuditUnavailable
from toolcrib.stores.audit_reading import Query, in_order, reading

ENTRIES = [
    AuditEntry("start"),
    AuditEntry("call.begun", tool="files__write", caller="ada", execution_id="1"),
    AuditEntry("call", tool="files__write", caller="ada", execution_id="1", decision="allowed", outcome="success"),
    AuditEntry("call", tool="files__read", caller="bob", decision="denied", outcome="TOOL_PERMISSION_DENIED"),
    AuditEntry("call.begun", tool="git__push", caller="ada", execution_id="2"),
    AuditEntry("call", tool="nothing", caller="ada", decision="unknown", outcome="TOOL_NOT_FOUND"),
]


@pytest.fixture
async def log(tmp_path: Path) -> Path:
    return await written(tmp_path / "audit.db", ENTRIES)


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        (Query(), [1, 3, 4, 5, 6]),
        (Query(tool="files__*"), [3, 4]),
        (Query(caller="ada"), [3, 5, 6]),
        (Query(outcome="TOOL_*"), [4, 6]),
        (Query(outcome="success"), [3]),
        (Query(denied=True), [4, 6]),
        (Query(after=4), [5, 6]),
        (Query(since_us=2**60), []),
        (Query(until_us=1), []),
        (Query(until_us=2**60), [1, 3, 4, 5, 6]),
        (Query(before=5), [1, 3, 4]),
        (Query(before=3), [1]),
        (Query(before=6), [1, 3, 4, 5]),
        (Query(tool="'; DROP TABLE entry; --"), []),
    ],
)
async def test_entries_are_found_by_what_they_say(log: Path, query: Query, numbers: list[int]):
    """A beginning is shown only while there is no end."""
    assert [entry.seq for entry in find(log, query)] == numbers


async def test_the_newest_come_last(log: Path):
    """A few are the last few."""
    assert [entry.seq for entry in find(log, count=2)] == [5, 6]


async def test_everything_is_read_in_order_for_export(log: Path):
    """Beginnings, too."""
    with reading(log) as connection:
        assert [entry.seq for entry in in_order(connection)] == [1, 2, 3, 4, 5, 6]


async def test_a_body_that_is_no_entry_any_more_is_shown_as_such(log: Path):
    """Looking at a log that was changed must not fail."""
    tamper(log, "UPDATE entry SET body = 'not json' WHERE seq = 1", "UPDATE entry SET body = '[]' WHERE seq = 3")

    with reading(log) as connection:
        assert [entry.event for entry in in_order(connection)][:3] == ["unreadable", "call.begun", "unreadable"]


def test_what_is_no_log_is_told(tmp_path: Path):
    """In words, not with a traceback."""
    (tmp_path / "x").write_bytes(b"no database at all, really" * 50)

    with pytest.raises(AuditUnavailable, match="cannot be read"), reading(tmp_path / "x") as connection:
        list(in_order(connection))
