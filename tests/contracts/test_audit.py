"""What every audit log promises of writing and of its chain, held against each engine there is."""

import asyncio

import pytest
from tests.stores.audit_logs import Kept, in_file, in_table, numbered

from toolcrib.core.audit import AuditEntry
from toolcrib.stores.audit.log import AuditQuery, Head, NoAuditLog, link
from toolcrib.stores.audit.verify import Fault
from toolcrib.stores.audit.writer import QueuedAudit


@pytest.fixture(scope="module")
def database(postgres):
    return postgres.fresh_database()


@pytest.fixture(params=["sqlite", "postgres"])
def kept(request, tmp_path) -> Kept:
    if request.param == "sqlite":
        return in_file(tmp_path / "state" / "audit.db")
    return in_table(request.getfixturevalue("database"))


@pytest.fixture
async def nine(kept):
    return await kept.write(numbered(9))


async def test_what_is_committed_is_there_for_everybody_at_once(kept):
    """Another connection sees it as soon as ``commit`` returns, with its time, number and hash."""
    log = QueuedAudit(kept.place, lambda: 1_700_000_000_123_456_789)

    await log.commit(AuditEntry("call", tool="a", outcome="success", details={"n": 1}))

    [entry] = kept.find()
    assert (entry.seq, entry.time, entry.event, entry.tool) == (1, 1_700_000_000_123_456, "call", "a")
    assert (entry.outcome, entry.details, len(entry.hash)) == ("success", {"n": 1}, 64)
    await log.close()


async def test_what_is_noted_is_there_after_closing(kept):
    """Nobody has to wait, nothing is forgotten."""
    log = kept.writer()

    for entry in numbered(5):
        log.note(entry)
    await log.close()

    assert kept.tools() == ["tool1", "tool2", "tool3", "tool4", "tool5"]


async def test_many_at_once_keep_their_order_and_share_writes(kept):
    """A hundred callers, one chain; each caller's own entries stand in the order it made them."""
    log = kept.writer()

    async def caller(name: str) -> None:
        for number in range(10):
            await log.commit(AuditEntry("call.begun", caller=name, execution_id=f"{name}-{number}"))
            log.note(AuditEntry("call", caller=name, execution_id=f"{name}-{number}"))

    await asyncio.gather(*(caller(f"c{number}") for number in range(100)))
    await log.close()

    finding = kept.walk()
    assert (finding.fault, finding.entries, finding.unfinished) == (None, 2000, [])
    for name in ("c0", "c50", "c99"):
        ends = [entry.execution_id for entry in kept.find(AuditQuery(caller=name)) if entry.event == "call"]
        assert ends == [f"{name}-{number}" for number in range(10)]


async def test_several_writers_keep_one_chain(kept):
    """All begin with nothing, and none loses an entry."""
    logs = [kept.writer() for _ in range(4)]

    async def write(name: str, log: QueuedAudit) -> None:
        for number in range(25):
            await log.commit(AuditEntry("call", caller=name, tool=f"{name}-{number}"))
            log.note(AuditEntry("call", caller=name, tool=f"{name}-{number}-noted"))

    await asyncio.gather(*(write(f"w{number}", log) for number, log in enumerate(logs)))
    for log in logs:
        await log.close()

    finding = kept.walk()
    assert (finding.fault, finding.entries) == (None, 200)
    assert [len(kept.find(AuditQuery(caller=f"w{number}"))) for number in range(4)] == [50] * 4
    assert len(set(kept.tools())) == 200


async def test_what_no_json_can_hold_is_written_without_it(kept):
    """An entry is never the reason why the log stands still."""
    bad = AuditEntry("call", tool="bad \ud800", details={"x": "\udfff"})
    await kept.write([bad, AuditEntry("call", tool="b")])

    entries = kept.find()

    assert [entry.tool for entry in entries] == ["bad \\ud800", "b"]
    assert entries[0].details == {"withheld": "cannot be written as JSON"}


async def test_any_text_comes_back_as_it_was(kept):
    """Control characters, separators, other scripts, nothing at all."""
    texts = ["a\0b", "a\x1eb", "\n\t\\ \"'", "日本 🌍", "", "\\u0000"]
    entries = [AuditEntry("call", tool=text, caller=text, details={"text": text}) for text in texts]
    log = kept.writer()
    for entry in entries:
        log.note(entry)
    await log.close()

    found = kept.find()

    assert [(entry.tool, entry.caller, entry.details["text"]) for entry in found] == [(text,) * 3 for text in texts]
    assert kept.walk().fault is None


async def test_a_tail_that_is_cut_while_it_runs_leaves_a_trace(kept):
    """The one who wrote it remembers where the log ended."""
    log = kept.writer()
    for entry in numbered(3):
        await log.commit(entry)
    head = kept.walk().head
    kept.tamper("DELETE FROM entry WHERE seq > 1", "UPDATE head SET seq = 1, hash = (SELECT hash FROM entry)")

    await log.commit(AuditEntry("call", tool="next"))
    await log.close()

    assert kept.tools() == ["tool1", "audit.cut", "next"]
    assert kept.find()[1].details == {"head": str(head), "last": 1}


def test_where_nothing_was_written_there_is_no_log(kept):
    """Which is said, and nothing is made by looking."""
    kept.place.check()
    with pytest.raises(NoAuditLog):
        kept.find()


async def test_a_log_without_a_head_is_not_written_on(nine):
    """It would begin a second chain in the first one's place."""
    nine.tamper("DELETE FROM head")
    log = nine.writer()

    with pytest.raises(Exception, match="It has lost its head"):
        await log.commit(AuditEntry("start"))
    await log.close()


async def test_an_untouched_log_is_whole(nine):
    """Every entry is counted, and the head stands for all of them."""
    finding = nine.walk()

    assert (finding.fault, finding.entries, finding.head.seq) == (None, 9, 9)
    assert Head.parse(str(finding.head)) == finding.head


MOVED = (
    "UPDATE entry SET seq = 104 WHERE seq = 4",
    "UPDATE entry SET seq = 4 WHERE seq = 5",
    "UPDATE entry SET seq = 5 WHERE seq = 104",
)
SHIFTED = (
    "DELETE FROM entry WHERE seq = 3",
    "UPDATE entry SET seq = seq + 100 WHERE seq > 3",
    "UPDATE entry SET seq = seq - 101 WHERE seq > 100",
)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        (
            ["UPDATE entry SET body = replace(body, 'tool4', 'tool7') WHERE seq = 4"],
            Fault(4, "edited", "record 4 was edited"),
        ),
        (
            ["UPDATE entry SET hash = (SELECT hash FROM head) WHERE seq = 8"],
            Fault(8, "edited", "record 8 was edited"),
        ),
        (["UPDATE entry SET body = body || ' ' WHERE seq = 1"], Fault(1, "edited", "record 1 was edited")),
        (["DELETE FROM entry WHERE seq = 1"], Fault(1, "missing", "record 1 is missing")),
        (["DELETE FROM entry WHERE seq = 5"], Fault(5, "missing", "record 5 is missing")),
        (["DELETE FROM entry WHERE seq IN (5, 6)"], Fault(5, "missing", "records 5 to 6 are missing")),
        (
            ["DELETE FROM entry WHERE seq = 9"],
            Fault(9, "tail cut", "the tail was cut: record 9 is missing, the head knows of 9"),
        ),
        (
            ["DELETE FROM entry"],
            Fault(1, "tail cut", "the tail was cut: records 1 to 9 are missing, the head knows of 9"),
        ),
        (MOVED, Fault(4, "out of order", "record 4 is out of order: what belongs there stands at 5")),
        (SHIFTED, Fault(3, "edited", "record 3 was edited")),
        (
            ["UPDATE head SET seq = 8, hash = (SELECT hash FROM entry WHERE seq = 8)"],
            Fault(9, "head changed", "the head says 8, but the log ends with 9"),
        ),
        (["DELETE FROM head"], Fault(9, "head changed", "the head of the log is missing")),
    ],
)
async def test_what_was_done_to_the_log_is_found(nine, changes, fault):
    """The first record that is not right, and what is wrong with it."""
    nine.tamper(*changes)

    finding = nine.walk()

    assert finding.fault == fault
    assert finding.entries == min(fault.seq - (fault.kind != "head changed"), 9)


async def test_a_rebuilt_chain_is_found_by_a_head_that_was_noted(nine):
    """Who can write the log can make a new chain; what somebody wrote down elsewhere does not fit it."""
    noted = nine.walk().head
    with nine.place.reading() as log:
        rows = list(log.rows(first=5))
        [(_, previous, _)] = log.rows(first=4, count=1)
    changes = []
    for seq, _, body in rows:
        changed = body.replace('"outcome":"success"', '"outcome":"success","level":"admin"')
        previous = link(previous, seq, changed.encode())
        digest = f"x'{previous.hex()}'" if "File" in type(nine.place).__name__ else f"'\\x{previous.hex()}'"
        changes.append(f"UPDATE entry SET hash = {digest}, body = '{changed}' WHERE seq = {seq}")
    nine.tamper(*changes, f"UPDATE head SET hash = {digest}")

    assert nine.walk().fault is None
    assert nine.walk(noted).fault == Fault(9, "not the noted head", "record 9 is not the one whose hash was noted")


async def test_a_tail_cut_with_its_head_is_found_by_a_head_that_was_noted(nine):
    """The log looks whole by itself."""
    noted = nine.walk().head
    nine.tamper(
        "DELETE FROM entry WHERE seq > 6", "UPDATE head SET seq = 6, hash = (SELECT hash FROM entry WHERE seq = 6)"
    )

    assert nine.walk().fault is None
    assert nine.walk(noted).fault == Fault(
        7, "tail cut", "the tail was cut: records 7 to 9 are missing, the noted head knows of 9"
    )


async def test_an_earlier_head_is_still_part_of_the_chain(nine):
    """What is added later does not disturb it."""
    noted = nine.walk().head
    await nine.write(numbered(3))

    assert nine.walk(noted).fault is None


async def test_calls_without_an_end_are_told(kept):
    """Begun, and then nothing: the process ended first, or it still runs."""
    await kept.write(
        [
            AuditEntry("call.begun", tool="a", execution_id="1"),
            AuditEntry("call.begun", tool="b", execution_id="2"),
            AuditEntry("call", tool="a", execution_id="1", outcome="success"),
        ]
    )

    assert [entry.tool for entry in kept.walk().unfinished] == ["b"]
