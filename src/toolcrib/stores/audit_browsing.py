"""Looking around in the audit log: page by page, one entry beside its neighbours, and how busy the last hours were."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolcrib.core.audit import CALL
from toolcrib.stores.audit_database import GENESIS, link
from toolcrib.stores.audit_reading import Stored, stored
from toolcrib.stores.sqlite_file import read_sql

if TYPE_CHECKING:
    import apsw

HOUR_US = 3_600_000_000
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

    def _bound(self, count: int) -> dict[str, Any]:
        return {
            "tool": self.tool,
            "caller": self.caller,
            "outcome": self.outcome,
            "event": self.event,
            "execution": self.execution,
            "since": self.since_us,
            "until": self.until_us,
            "before": self.before,
            "count": count,
        }


def browse(connection: "apsw.Connection", wanted: Browse, count: int) -> list[Stored]:
    """The newest entries that fit, newest first."""
    rows = connection.execute(read_sql("audit_browse"), wanted._bound(count))
    return [stored(seq, digest, body) for seq, digest, body in rows]


@dataclass(frozen=True, slots=True)
class Linked:
    """An entry, and whether its hash follows from the one before it."""

    entry: Stored
    is_whole: bool


def around(connection: "apsw.Connection", seq: int) -> list[Linked]:
    """An entry and those beside it, in order."""
    chosen = "SELECT seq, hash, body FROM entry WHERE seq BETWEEN ? AND ? ORDER BY seq"
    rows: list[Any] = list(connection.execute(chosen, (seq - 2, seq + 1)))
    hashes = {number: digest for number, digest, _ in rows} | {0: GENESIS}
    return [
        Linked(stored(number, digest, body), link(hashes.get(number - 1, b""), number, body.encode()) == digest)
        for number, digest, body in rows
        if number >= seq - 1
    ]


def following(connection: "apsw.Connection", after: int, count: int) -> list[Stored]:
    """The next entries after a number, in order."""
    chosen = "SELECT seq, hash, body FROM entry WHERE seq > ? ORDER BY seq LIMIT ?"
    return [stored(seq, digest, body) for seq, digest, body in connection.execute(chosen, (after, count))]


def per_hour(connection: "apsw.Connection", wanted: Browse) -> dict[int, tuple[int, int]]:
    """How many calls went well and how many did not, by hours since 1970; of the newest entries that fit."""
    narrowed = read_sql("audit_browse").rstrip().removesuffix(";")
    counted = (
        "SELECT (body ->> 'time') / 3600000000 AS hour,"  # noqa: S608 - nothing of it comes from outside
        " sum(body ->> 'outcome' = 'success'), sum(body ->> 'outcome' <> 'success')"
        f" FROM ({narrowed}) WHERE body ->> 'event' = '{CALL}' GROUP BY hour"
    )
    rows: list[Any] = list(connection.execute(counted, wanted._bound(NEWEST)))
    return {int(hour): (int(good or 0), int(bad or 0)) for hour, good, bad in rows if hour is not None}
