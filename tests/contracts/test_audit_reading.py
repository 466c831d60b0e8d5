"""What every audit log promises its readers, held against each engine there is."""

import time

import pytest
from tests.stores.audit_logs import Kept, in_file, in_table

from toolcrib.core.audit import AuditEntry
from toolcrib.server.views.costs import usage_of
from toolcrib.stores.audit.log import AuditQuery, around, browse, following, in_order, per_hour

DAY_NS = 86_400 * 10**9
ENTRIES = [
    AuditEntry("start"),
    AuditEntry("call.begun", tool="files__write", caller="ada", execution_id="1"),
    AuditEntry("call", tool="files__write", caller="ada", execution_id="1", decision="allowed", outcome="success"),
    AuditEntry("call", tool="files__read", caller="bob", decision="denied", outcome="TOOL_PERMISSION_DENIED"),
    AuditEntry("call.begun", tool="git__push", caller="ada", execution_id="2"),
    AuditEntry("call", tool="nothing", caller="ada", decision="unknown", outcome="TOOL_NOT_FOUND"),
    AuditEntry("policy", tool="files__*", caller="ada", decision="ask"),
]


@pytest.fixture(scope="module")
def database(postgres):
    return postgres.fresh_database()


@pytest.fixture(params=["sqlite", "postgres"])
def kept(request, tmp_path) -> Kept:
    if request.param == "sqlite":
        return in_file(tmp_path / "audit.db")
    return in_table(request.getfixturevalue("database"))


@pytest.fixture
async def seven(kept):
    return await kept.write(ENTRIES)


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        (AuditQuery(), [1, 3, 4, 5, 6, 7]),
        (AuditQuery(tool="files__*"), [3, 4, 7]),
        (AuditQuery(tool="files__[*]"), [7]),
        (AuditQuery(tool="files__????"), [4]),
        (AuditQuery(tool="*[_]_[pr]*"), [4, 5]),
        (AuditQuery(tool="FILES__*"), []),
        (AuditQuery(tool="f.*"), []),
        (AuditQuery(tool="nothing"), [6]),
        (AuditQuery(tool=""), [1]),
        (AuditQuery(tool="no\0such"), []),
        (AuditQuery(caller="ada"), [3, 5, 6, 7]),
        (AuditQuery(outcome="TOOL_*"), [4, 6]),
        (AuditQuery(outcome="failed"), [4, 6]),
        (AuditQuery(outcome="success"), [3]),
        (AuditQuery(denied=True), [4, 6]),
        (AuditQuery(after=4), [5, 6, 7]),
        (AuditQuery(since_us=2**60), []),
        (AuditQuery(until_us=1), []),
        (AuditQuery(until_us=2**60), [1, 3, 4, 5, 6, 7]),
        (AuditQuery(before=5), [1, 3, 4]),
        (AuditQuery(before=3), [1]),
        (AuditQuery(before=6), [1, 3, 4, 5]),
        (AuditQuery(tool="'; DROP TABLE entry; --"), []),
        (AuditQuery(tool="*'; DROP TABLE entry; --"), []),
    ],
)
async def test_entries_are_found_by_what_they_say(seven, query, numbers):
    """A beginning is shown only while there is no end."""
    assert [entry.seq for entry in seven.find(query)] == numbers


async def test_a_long_log_is_searched_to_its_beginning(kept):
    """However many fit, each is found once, in order."""
    log = kept.writer()
    for number in range(2500):
        log.note(AuditEntry("call", tool=f"t{number % 5}", execution_id=str(number), outcome="success"))
    await log.close()

    found = kept.find(AuditQuery(tool="t[0-3]"))

    assert [entry.seq for entry in found] == [number + 1 for number in range(2500) if number % 5 != 4]
    assert [entry.seq for entry in kept.find(AuditQuery(tool="t4"), 2)] == [2495, 2500]


async def test_the_newest_come_last(seven):
    """A few are the last few."""
    assert [entry.seq for entry in seven.find(count=2)] == [6, 7]


async def test_everything_is_read_in_order_for_export(seven):
    """Beginnings, too."""
    with seven.place.reading() as log:
        assert [entry.seq for entry in in_order(log)] == [1, 2, 3, 4, 5, 6, 7]
        assert list(in_order(log, 2**60)) == []


async def test_a_body_that_is_no_entry_any_more_is_shown_as_such(seven):
    """Looking at a log that was changed must not fail."""
    seven.tamper("UPDATE entry SET body = 'not json' WHERE seq = 1", "UPDATE entry SET body = '[]' WHERE seq = 3")

    with seven.place.reading() as log:
        assert [entry.event for entry in in_order(log)][:3] == ["unreadable", "call.begun", "unreadable"]


async def test_whoever_reads_on_sees_what_was_added_meanwhile(seven):
    """Over the same connection, for whoever follows the log."""
    with seven.place.reading() as log:
        before = len(list(log.search(AuditQuery(after=6))))
        await seven.write(ENTRIES[:2])
        after = len(list(log.search(AuditQuery(after=6))))

    assert (before, after) == (1, 3)


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        (AuditQuery(), [7, 6, 5, 4, 3, 2, 1]),
        (AuditQuery(event="call"), [6, 4, 3]),
        (AuditQuery(execution="1"), [3, 2]),
        (AuditQuery(execution="no such"), []),
        (AuditQuery(outcome="failed"), [6, 4]),
        (AuditQuery(outcome="TOOL_*"), [6, 4]),
        (AuditQuery(tool="*read", caller="b*"), [4]),
        (AuditQuery(before=3), [2, 1]),
        (AuditQuery(since_us=2**60), []),
        (AuditQuery(until_us=0), []),
        (AuditQuery(tool="'; DROP TABLE entry; --"), []),
    ],
)
async def test_entries_are_browsed_newest_first(seven, wanted, numbers):
    """Every wish narrows them down."""
    with seven.place.reading() as log:
        assert [entry.seq for entry in browse(log, wanted, 100)] == numbers


async def test_a_page_is_as_long_as_asked(seven):
    """The next one begins where it ended."""
    with seven.place.reading() as log:
        first = browse(log, AuditQuery(), 2)
        second = browse(log, AuditQuery(before=first[-1].seq), 2)

    assert [entry.seq for entry in (*first, *second)] == [7, 6, 5, 4]


async def test_an_entry_is_shown_between_its_neighbours(seven):
    """Each with whether its hash follows from the one before; the first from nothing."""
    with seven.place.reading() as log:
        middle = [(linked.entry.seq, linked.is_whole) for linked in around(log, 3)]
        first = [(linked.entry.seq, linked.is_whole) for linked in around(log, 1)]
        last = [(linked.entry.seq, linked.is_whole) for linked in around(log, 7)]

    assert middle == [(2, True), (3, True), (4, True)]
    assert first == [(1, True), (2, True)]
    assert last == [(6, True), (7, True)]


async def test_an_edited_entry_does_not_fit(seven):
    """Its neighbours do."""
    seven.tamper("UPDATE entry SET body = replace(body, 'ada', 'eve') WHERE seq = 3")

    with seven.place.reading() as log:
        assert [linked.is_whole for linked in around(log, 3)] == [True, False, True]


async def test_entries_follow_in_order(seven):
    """A piece at a time, for an export."""
    with seven.place.reading() as log:
        assert [entry.seq for entry in following(log, 2, 2)] == [3, 4]
        assert following(log, 7, 2) == []


async def test_calls_are_counted_by_the_hour(seven):
    """What went well and what did not; other entries do not count."""
    with seven.place.reading() as log:
        [counts] = per_hour(log, AuditQuery()).values()
        narrowed = list(per_hour(log, AuditQuery(tool="files__read")).values())

    assert counts == (1, 2)
    assert narrowed == [(0, 1)]


def call(tool: str, decision: str = "allowed") -> AuditEntry:
    return AuditEntry("call", tool=tool, decision=decision, outcome="success")


async def written_over_days(kept: Kept, days: list[tuple[int, AuditEntry]]) -> None:
    """A log whose entries are so many days old."""
    moments = iter([time.time_ns() - age * DAY_NS for age, _ in days])
    await kept.write([entry for _, entry in days], lambda: next(moments))


def ago_us(days: float) -> int:
    return int((time.time_ns() - days * DAY_NS) // 1000)


def usage(kept: Kept, since_us: int):
    with kept.place.reading() as log:
        return log.usage(since_us)


async def test_calls_are_counted_from_a_moment_on(kept):
    """Older ones do not count; of each tool the last call is known."""
    days = [
        (40, call("old")),
        (20, call("read")),
        (10, call("read")),
        (10, call("write", "approved once")),
        (1, call("read")),
    ]
    await written_over_days(kept, days)

    found = usage(kept, ago_us(30))

    assert {name: use.calls for name, use in found.tools.items()} == {"read": 3, "write": 1}
    assert found.tools["read"].last_us == pytest.approx(ago_us(1), abs=60e6)
    assert found.since_us == pytest.approx(ago_us(30), abs=60e6)


async def test_a_young_log_says_how_far_it_goes_back(kept):
    """Not further than its first entry."""
    await written_over_days(kept, [(2, AuditEntry("start")), (1, call("read"))])

    assert usage(kept, ago_us(30)).since_us == pytest.approx(ago_us(2), abs=60e6)


@pytest.mark.parametrize(
    "decision",
    ["denied", "hidden", "held", "unknown", "refused: nobody to ask", "refused: no answer", "declined by inbox"],
)
async def test_what_was_refused_is_no_use(kept, decision):
    """Nor is the beginning of a call, or any other entry."""
    begun = AuditEntry("call.begun", tool="write", decision="allowed")
    await kept.write([call("read", decision), begun, AuditEntry("pin", tool="pinned"), call("")])

    assert usage(kept, 0).tools == {}


async def test_one_tool_with_several_decisions_is_counted_once(kept):
    """All its calls together."""
    await kept.write([call("read"), call("read", "approved once"), call("read")])

    assert [use.calls for use in usage(kept, 0).tools.values()] == [3]


def test_without_a_log_nothing_is_known(kept):
    """Which is not the same as no use."""
    assert usage_of(kept.place, 30) is None
