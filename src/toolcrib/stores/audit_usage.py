"""What the audit log knows of how often each tool is used: only its last part is read, and counted where it is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from toolcrib.core.audit import CALL
from toolcrib.stores.sqlite_file import read_sql

if TYPE_CHECKING:
    import apsw

REFUSED = frozenset({"denied", "hidden", "held", "unknown", "refused"})
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


def sqlite_usage(log: "apsw.Connection", since_us: int) -> Usage | None:
    """The calls since a moment, whatever came of them. What was refused to its caller is no use of a tool."""
    ends: Any = log.execute(_ENDS).fetchone()
    if ends is None or ends[0] is None:
        return None
    rows: Any = log.execute(read_sql("audit_usage"), {"first": _first_since(log, since_us, ends)})
    used: dict[str, Use] = {}
    for what, calls, last in rows:
        event, decision, tool = msgspec.json.decode(what)
        if event == CALL and tool and decision not in REFUSED:
            known = used.get(tool, Use(0, 0))
            used[tool] = Use(known.calls + calls, max(known.last_us, _time(log, last)))
    return Usage(max(since_us, _time(log, ends[0])), used)


def _first_since(log: "apsw.Connection", moment_us: int, ends: tuple[int, int]) -> int:
    """The number of the first entry since a moment, found by halving: entries are numbered as time goes by."""
    low, high = ends[0], ends[1] + 1
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if _time(log, middle) < moment_us else (low, middle)
    return low


def _time(log: "apsw.Connection", seq: int) -> int:
    row: Any = log.execute(_TIME, (seq,)).fetchone()
    return row[0] if row and isinstance(row[0], int) else 0
