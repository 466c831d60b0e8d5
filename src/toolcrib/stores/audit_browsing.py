"""Looking around in the audit log: page by page, one entry beside its neighbours, and how busy the last hours were."""

from dataclasses import dataclass

from toolcrib.stores.audit_database import GENESIS, link
from toolcrib.stores.audit_log import AuditLog
from toolcrib.stores.audit_reading import Stored, stored

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
