"""Reading the audit log: what was written, newest first or in order, while others write."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from toolcrib.core.audit import CALL_BEGUN, AuditEntry
from toolcrib.stores.audit_log import AuditLog, AuditPlace


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


T = TypeVar("T")
_decode = msgspec.json.Decoder(Stored).decode


def ask(place: AuditPlace, question: Callable[[AuditLog], T]) -> T:
    """The answer of a log that is opened for this one question."""
    with place.reading() as log:
        return question(log)


def latest(log: AuditLog, query: Query, count: int | None = None) -> list[Stored]:
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
