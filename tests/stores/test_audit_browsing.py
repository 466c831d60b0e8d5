"""Looking around in the log: page by page, entry by entry, hour by hour."""

from pathlib import Path

import pytest
from tests.stores.audit_logs import tamper, written

from toolcrib.core.audit import AuditEntry
from toolcrib.stores.audit_browsing import Browse, around, browse, following, per_hour
from toolcrib.stores.audit_reading import reading

ENTRIES = [
    AuditEntry("start"),
    AuditEntry("call.begun", tool="files__write", caller="ada", execution_id="1"),
    AuditEntry("call", tool="files__write", caller="ada", execution_id="1", decision="allowed", outcome="success"),
    AuditEntry("call", tool="files__read", caller="bob", execution_id="2", outcome="TOOL_PERMISSION_DENIED"),
    AuditEntry("policy", tool="files__*", caller="ada", decision="ask"),
]


@pytest.fixture
async def log(tmp_path: Path) -> Path:
    return await written(tmp_path / "audit.db", ENTRIES)


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        (Browse(), [5, 4, 3, 2, 1]),
        (Browse(event="call"), [4, 3]),
        (Browse(execution="1"), [3, 2]),
        (Browse(outcome="failed"), [4]),
        (Browse(outcome="TOOL_*"), [4]),
        (Browse(tool="*read", caller="b*"), [4]),
        (Browse(before=3), [2, 1]),
        (Browse(since_us=2**60), []),
        (Browse(until_us=0), []),
        (Browse(tool="'; DROP TABLE entry; --"), []),
    ],
)
def test_entries_come_newest_first(log: Path, wanted: Browse, numbers: list[int]):
    """Every wish narrows them down."""
    with reading(log) as connection:
        assert [entry.seq for entry in browse(connection, wanted, 100)] == numbers


def test_a_page_is_as_long_as_asked(log: Path):
    """The next one begins where it ended."""
    with reading(log) as connection:
        first = browse(connection, Browse(), 2)
        second = browse(connection, Browse(before=first[-1].seq), 2)

    assert [entry.seq for entry in (*first, *second)] == [5, 4, 3, 2]


def test_an_entry_is_shown_between_its_neighbours(log: Path):
    """Each with whether its hash follows from the one before; the first from nothing."""
    with reading(log) as connection:
        middle = [(linked.entry.seq, linked.is_whole) for linked in around(connection, 3)]
        first = [(linked.entry.seq, linked.is_whole) for linked in around(connection, 1)]

    assert middle == [(2, True), (3, True), (4, True)]
    assert first == [(1, True), (2, True)]


def test_an_edited_entry_does_not_fit(log: Path):
    """Its neighbours do."""
    tamper(log, """UPDATE entry SET body = replace(body, 'ada', 'eve') WHERE seq = 3""")

    with reading(log) as connection:
        assert [linked.is_whole for linked in around(connection, 3)] == [True, False, True]


def test_entries_follow_in_order(log: Path):
    """A piece at a time, for an export."""
    with reading(log) as connection:
        assert [entry.seq for entry in following(connection, 2, 2)] == [3, 4]
        assert following(connection, 5, 2) == []


def test_calls_are_counted_by_the_hour(log: Path):
    """What went well and what did not; other entries do not count."""
    with reading(log) as connection:
        [counts] = per_hour(connection, Browse()).values()
        narrowed = list(per_hour(connection, Browse(tool="files__read")).values())

    assert counts == (1, 1)
    assert narrowed == [(0, 1)]
