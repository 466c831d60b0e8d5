"""Reading the audit log: what was written, newest first or in order, while others write."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from toolcrib.core.audit import CALL, CALL_BEGUN, AuditEntry
from toolcrib.core.errors import AuditUnavailable
from toolcrib.stores.sqlite_file import BUSY_MS, read_sql

if TYPE_CHECKING:
    import apsw


class Stored(AuditEntry, frozen=True, kw_only=True, gc=False):
    """An entry as it was written: with its time in microseconds since 1970, its number and its hash."""

    time: int = 0
    seq: int = 0
    hash: str = ""


@dataclass(frozen=True, slots=True)
class Query:
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


_decode = msgspec.json.Decoder(Stored).decode
_END = "SELECT 1 FROM entry WHERE seq > ? AND body ->> 'event' = ? AND body ->> 'execution_id' = ? LIMIT 1"
_OUTCOMES = "SELECT seq, hash, body FROM entry WHERE seq > ? ORDER BY seq"


@contextmanager
def reading(path: Path) -> Iterator["apsw.Connection"]:
    """The log, for reading only; trouble with the file is told in plain words."""
    import apsw

    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            connection.set_busy_timeout(BUSY_MS)
            yield connection
        finally:
            connection.close()
    except apsw.Error as error:
        raise AuditUnavailable(f"The audit log {path} cannot be read: {error}.") from error


def latest(connection: "apsw.Connection", query: Query, count: int | None = None) -> list[Stored]:
    """The newest entries that fit, oldest of them first; a beginning is left out once its end is there."""
    is_cut = query.before is not None or query.until_us is not None
    found: list[Stored] = []
    ended: set[str] = set()
    for entry in _rows(connection, query):
        if entry.event != CALL_BEGUN:
            ended.add(entry.execution_id)
        elif entry.execution_id in ended or (is_cut and _has_ended(connection, entry)):
            continue
        found.append(entry)
        if len(found) == count:
            break
    return found[::-1]


def _has_ended(connection: "apsw.Connection", begun: Stored) -> bool:
    """Whether the end of a call stands further on than was looked for; most often it is near."""
    return connection.execute(_END, (begun.seq, CALL, begun.execution_id)).fetchone() is not None


def _rows(connection: "apsw.Connection", query: Query) -> Iterator[Stored]:
    wanted = {
        "after": query.after,
        "since": query.since_us,
        "until": query.until_us,
        "before": query.before,
        "tool": query.tool,
        "caller": query.caller,
        "outcome": query.outcome,
        "denied": query.denied,
    }
    for seq, digest, body in connection.execute(read_sql("audit_search"), wanted):
        yield stored(seq, digest, body)


def in_order(connection: "apsw.Connection", since_us: int | None = None) -> Iterator[Stored]:
    """Every entry, from the first on."""
    for seq, digest, body in connection.execute(_OUTCOMES, (0,)):
        entry = stored(seq, digest, body)
        if since_us is None or entry.time >= since_us:
            yield entry


def stored(seq: int, digest: bytes, body: str) -> Stored:
    """One row; a body that is no entry any more is shown as one that says so."""
    try:
        entry = _decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        entry = Stored("unreadable")
    return msgspec.structs.replace(entry, seq=seq, hash=digest.hex())
