"""Reading the audit log: what was written, newest first or in order, while others write."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from toolcrib.core.audit import CALL, CALL_BEGUN, AuditEntry
from toolcrib.core.kinds import Ruling
from toolcrib.stores.audit.database import GENESIS, link
from toolcrib.stores.audit.log import AuditLog, AuditPlace
from toolcrib.stores.sqlite_file import read_sql

if TYPE_CHECKING:
    import apsw


class Stored(AuditEntry, frozen=True, kw_only=True, gc=False):
    """An entry as it was written: with its time in microseconds since 1970, its number and its hash."""

    time: int = 0
    seq: int = 0
    hash: str = ""


@dataclass(frozen=True, slots=True)
class AuditQuery:
    """Which entries are wanted; names are patterns with ``*`` and ``?``."""

    tool: str | None = None
    caller: str | None = None
    outcome: str | None = None
    since_us: int | None = None
    denied: bool = False
    after: int = 0
    until_us: int | None = None
    before: int | None = None
    """Only entries of a smaller number, to read on where an answer ended."""


T = TypeVar("T")
_decode = msgspec.json.Decoder(Stored).decode


def ask(place: AuditPlace, question: Callable[[AuditLog], T]) -> T:
    """The answer of a log that is opened for this one question."""
    with place.reading() as log:
        return question(log)


def latest(log: AuditLog, query: AuditQuery, count: int | None = None) -> list[Stored]:
    """The newest entries that fit, oldest of them first; a beginning is left out once its end is there."""
    is_cut = query.before is not None or query.until_us is not None
    found: list[Stored] = []
    ended: set[str] = set()
    for row in log.search(query):
        entry = stored(*row)
        if entry.event != CALL_BEGUN:
            ended.add(entry.execution_id)
        elif entry.execution_id in ended or (is_cut and log.has_end(entry)):
            continue
        found.append(entry)
        if len(found) == count:
            break
    return found[::-1]


def in_order(log: AuditLog, since_us: int | None = None) -> Iterator[Stored]:
    """Every entry, from the first on."""
    for row in log.rows():
        entry = stored(*row)
        if since_us is None or entry.time >= since_us:
            yield entry


def stored(seq: int, digest: bytes, body: str) -> Stored:
    """One row; a body that is no entry any more is shown as one that says so."""
    try:
        entry = _decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        entry = Stored("unreadable")
    return msgspec.structs.replace(entry, seq=seq, hash=digest.hex())


NEWEST = 5_000
"""How many of the newest entries are counted by the hour."""


@dataclass(frozen=True, slots=True)
class Browse:
    """Which entries are wanted; the names of tools and callers are patterns with ``*`` and ``?``."""

    tool: str | None = None
    caller: str | None = None
    outcome: str | None = None
    """A pattern, or ``failed`` for everything that did not go well."""
    event: str | None = None
    execution: str | None = None
    since_us: int | None = None
    until_us: int | None = None
    before: int | None = None
    """Only entries of a smaller number, to read on where a page ended."""


def browse(log: AuditLog, wanted: Browse, count: int) -> list[Stored]:
    """The newest entries that fit, newest first."""
    return [stored(*row) for row in log.browse(wanted, count)]


@dataclass(frozen=True, slots=True)
class Linked:
    """An entry, and whether its hash follows from the one before it."""

    entry: Stored
    is_whole: bool


def around(log: AuditLog, seq: int) -> list[Linked]:
    """An entry and those beside it, in order."""
    rows = [row for row in log.rows(seq - 2, 4) if row[0] <= seq + 1]
    hashes = {number: digest for number, digest, _ in rows} | {0: GENESIS}
    return [
        Linked(stored(number, digest, body), link(hashes.get(number - 1, b""), number, body.encode()) == digest)
        for number, digest, body in rows
        if number >= seq - 1
    ]


def following(log: AuditLog, after: int, count: int) -> list[Stored]:
    """The next entries after a number, in order."""
    return [stored(*row) for row in log.rows(after + 1, count)]


def per_hour(log: AuditLog, wanted: Browse) -> dict[int, tuple[int, int]]:
    """How many calls went well and how many did not, by hours since 1970; of the newest entries that fit."""
    return {hour: (good, bad) for hour, good, bad in log.per_hour(wanted, NEWEST)}


REFUSED = frozenset(ruling.value for ruling in Ruling if ruling.is_refusal)
_TIME = "SELECT body ->> 'time' FROM entry WHERE seq = ?"
_ENDS = "SELECT min(seq), max(seq) FROM entry"


@dataclass(frozen=True, slots=True)
class Use:
    """How often a tool was called, and when last."""

    calls: int
    last_us: int


@dataclass(frozen=True, slots=True)
class ToolUsage:
    """The calls of a span of time, by exposed name."""

    since_us: int
    """From when on there is a record: later than was asked for, if the log begins later."""
    tools: Mapping[str, Use] = field(default_factory=dict)


def sqlite_usage(log: "apsw.Connection", since_us: int) -> ToolUsage | None:
    """The calls since a moment, whatever came of them. What was refused to its caller is no use of a tool."""
    ends: Any = log.execute(_ENDS).fetchone()
    if ends is None or ends[0] is None:
        return None
    rows: Any = log.execute(read_sql("audit_usage"), {"first": _first_since(log, since_us, ends)})
    used: dict[str, Use] = {}
    for what, calls, last in rows:
        event, decision, tool = msgspec.json.decode(what)
        if event == CALL and tool and (decision or "").partition(" by ")[0] not in REFUSED:
            known = used.get(tool, Use(0, 0))
            used[tool] = Use(known.calls + calls, max(known.last_us, _time(log, last)))
    return ToolUsage(max(since_us, _time(log, ends[0])), used)


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
