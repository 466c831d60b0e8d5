"""What the audit log knows of how often each tool is used: only the last part of it is read, counted inside SQLite."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolcrib.stores.audit_reading import reading
from toolcrib.stores.sqlite_file import read_sql

if TYPE_CHECKING:
    import apsw

DISORDER_US = 3_600_000_000
"""Processes that share a log may write a little out of turn, or by clocks that differ."""

_TIME = "SELECT body ->> 'time' FROM entry WHERE seq = ?"
_ENDS = "SELECT min(seq), max(seq) FROM entry"


@dataclass(frozen=True, slots=True)
class Use:
    """How often a tool was called, and when last."""

    calls: int
    last_us: int


@dataclass(frozen=True, slots=True)
class Usage:
    """The calls of a span of time, by exposed name."""

    since_us: int
    """From when on there is a record: later than was asked for, if the log begins later."""
    tools: Mapping[str, Use] = field(default_factory=dict)


def read_usage(path: Path, since_us: int) -> Usage | None:
    """The calls since a moment, whatever came of them; ``None`` if there is no log that goes back at all."""
    if not path.is_file():
        return None
    with reading(path) as log:
        return usage(log, since_us)


def usage(log: "apsw.Connection", since_us: int) -> Usage | None:
    """The same, of a log that is open. What was refused to its caller does not count as use."""
    ends: Any = log.execute(_ENDS).fetchone()
    if ends is None or ends[0] is None:
        return None
    first = first_since(log, since_us - DISORDER_US, *ends)
    rows: Any = log.execute(read_sql("audit_usage"), {"first": first, "since": since_us})
    used = {str(tool): Use(int(calls), int(last)) for tool, calls, last in rows if tool}
    return Usage(max(since_us, _time(log, ends[0])), used)


def first_since(log: "apsw.Connection", moment_us: int, low: int, high: int) -> int:
    """The number of the first entry since a moment, found by halving: entries are numbered as time goes by."""
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if _time(log, middle) < moment_us else (low, middle)
    return low


def _time(log: "apsw.Connection", seq: int) -> int:
    row: Any = log.execute(_TIME, (seq,)).fetchone()
    return int(row[0] or 0) if row else 0
