"""What was used: counted from the last part of the log, refusals left out."""

import time
from pathlib import Path

import pytest
from tests.stores.audit_logs import tamper, written

from toolcrib.core.audit import AuditEntry
from toolcrib.core.errors import AuditUnavailable
from toolcrib.stores.audit import SqliteAudit
from toolcrib.stores.audit_usage import read_usage

DAY_NS = 86_400 * 10**9


def call(tool: str, decision: str = "allowed") -> AuditEntry:
    return AuditEntry("call", tool=tool, decision=decision, outcome="success")


async def written_over_days(path: Path, days: list[tuple[int, AuditEntry]]) -> Path:
    """A log whose entries are so many days old."""
    moments = iter([time.time_ns() - age * DAY_NS for age, _ in days])
    log = SqliteAudit(path, lambda: next(moments))
    for _, entry in days:
        await log.commit(entry)
    await log.close()
    return path


def ago_us(days: float) -> int:
    return int((time.time_ns() - days * DAY_NS) // 1000)


async def test_calls_are_counted_from_a_moment_on(tmp_path: Path):
    """Older ones do not count; of each tool the last call is known."""
    days = [
        (40, call("old")),
        (20, call("read")),
        (10, call("read")),
        (10, call("write", "approved once")),
        (1, call("read")),
    ]
    log = await written_over_days(tmp_path / "audit.db", days)

    usage = read_usage(log, ago_us(30))

    assert usage is not None
    assert {name: use.calls for name, use in usage.tools.items()} == {"read": 3, "write": 1}
    assert usage.tools["read"].last_us == pytest.approx(ago_us(1), abs=60e6)
    assert usage.since_us == pytest.approx(ago_us(30), abs=60e6)


async def test_a_young_log_says_how_far_it_goes_back(tmp_path: Path):
    """Not further than its first entry."""
    log = await written_over_days(tmp_path / "audit.db", [(2, AuditEntry("start")), (1, call("read"))])

    usage = read_usage(log, ago_us(30))

    assert usage is not None
    assert usage.since_us == pytest.approx(ago_us(2), abs=60e6)


@pytest.mark.parametrize("decision", ["denied", "hidden", "held", "unknown", "refused"])
async def test_what_was_refused_is_no_use(tmp_path: Path, decision: str):
    """Nor is the beginning of a call, or any other entry."""
    begun = AuditEntry("call.begun", tool="write", decision="allowed")
    log = await written(tmp_path / "audit.db", [call("read", decision), begun, AuditEntry("pin", tool="pinned")])

    usage = read_usage(log, 0)

    assert usage is not None
    assert usage.tools == {}


async def test_one_tool_with_several_decisions_is_counted_once(tmp_path: Path):
    """All its calls together."""
    log = await written(tmp_path / "audit.db", [call("read"), call("read", "approved once"), call("read")])

    usage = read_usage(log, 0)

    assert usage is not None
    assert [use.calls for use in usage.tools.values()] == [3]


def test_without_a_log_nothing_is_known(tmp_path: Path):
    """Which is not the same as no use."""
    assert read_usage(tmp_path / "audit.db", 0) is None


async def test_a_log_that_is_no_more_what_it_was_says_so(tmp_path: Path):
    """In plain words, not with a guess."""
    log = await written(tmp_path / "audit.db", [call("read")])
    tamper(log, "UPDATE entry SET body = 'nonsense'")

    with pytest.raises(AuditUnavailable):
        read_usage(log, 0)
