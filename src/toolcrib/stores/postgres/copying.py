"""Bringing what one machine has in its own files into the shared database, part by part.

A part goes over in batches. Each batch and the count of what has come so far are one transaction, so whoever is
stopped, however rudely, goes on where the last batch ended. A part is done when both sides were read and are equal.
"""

import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from toolcrib.core.errors import ConfigError
from toolcrib.stores.postgres.database import PgDatabase
from toolcrib.stores.postgres.lock import WAIT, changing

if TYPE_CHECKING:
    from psycopg import AsyncConnection

BATCH = 500
Row = tuple[Any, ...]

_BEGUN = "SELECT source, copied, is_done FROM toolcrib.copying WHERE fleet = %s AND part = %s FOR UPDATE"
_BEGIN = "INSERT INTO toolcrib.copying (fleet, part, source) VALUES (%s, %s, %s)"
_COUNT = "UPDATE toolcrib.copying SET copied = %s, at = now() WHERE fleet = %s AND part = %s AND copied = %s"
_DONE = "UPDATE toolcrib.copying SET is_done = true, copied = %s, at = now() WHERE fleet = %s AND part = %s"
_FORGET = "DELETE FROM toolcrib.copying WHERE fleet = %s AND part = %s"


class Compared(Protocol):
    """One kind of rows; both sides give them in the same order and as the same values."""

    @property
    def name(self) -> str:
        """What it is called in the database, and to people."""

    @property
    def source(self) -> str:
        """Where the rows are; another place is another source."""

    def rows(self, skip: int) -> Iterator[Row]:
        """What the source holds, without the first so many."""

    def arrived(self, connection: "AsyncConnection[Any]", fleet: str) -> AsyncGenerator[Row, None]:
        """What the database holds."""


class CopyPart(Compared, Protocol):
    """Rows that go over as they are."""

    async def write(self, connection: "AsyncConnection[Any]", fleet: str, skip: int, rows: Sequence[Row]) -> None:
        """Put a batch behind the first so many; raises if that is not where the database is."""

    async def remove(self, connection: "AsyncConnection[Any]", fleet: str) -> int | None:
        """Take away all there is, for a new beginning, and say how much; nothing if what is written once stays."""


@dataclass(frozen=True, slots=True)
class Copied:
    """How far a part is."""

    part: str
    rows: int
    is_done: bool = False
    digest: str = ""
    """Of the rows on both sides, if they were compared just now."""


Report = Callable[[Copied], None]


async def copy_part(database: PgDatabase, part: CopyPart, report: Report, batch: int = BATCH) -> Copied:
    """Bring one part over, from wherever an earlier run left off."""
    begun = await _begin(database, part)
    if begun.is_done:
        return begun
    copied, rows = begun.rows, part.rows(begun.rows)
    while waiting := list(islice(rows, batch)):
        await _write(database, part, copied, waiting)
        copied += len(waiting)
        report(Copied(part.name, copied))
    return await _finish(database, part)


async def copy_by(database: PgDatabase, part: Compared, bring: Callable[[], Awaitable[None]]) -> Copied:
    """Bring over what is not copied row by row; ``bring`` passes over what is there already."""
    begun = await _begin(database, part)
    if begun.is_done:
        return begun
    await bring()
    return await _finish(database, part)


async def begin_anew(database: PgDatabase, part: CopyPart) -> None:
    """Take away what an unfinished run brought; what is done stays, and so does all if others brought something."""
    async with database.transaction() as connection:
        row = await (await connection.execute(_BEGUN, (database.name, part.name))).fetchone()
        if row is not None and not row[2]:
            _check_source(part, row[0])
            removed = await part.remove(connection, database.name)
            if removed is not None and removed > row[1]:
                raise _foreign(part, f"of which {removed - row[1]} came from elsewhere")
            if removed is not None:
                await connection.execute(_FORGET, (database.name, part.name))


async def _begin(database: PgDatabase, part: Compared) -> Copied:
    key = database.name, part.name
    async with changing(database, "copying") as connection:
        row = await (await connection.execute(_BEGUN, key)).fetchone()
        if row is not None:
            _check_source(part, row[0])
            return Copied(part.name, row[1], row[2])
        if await _holds_any(connection, database.name, part):
            raise _foreign(part, "that came from elsewhere")
        await connection.execute(_BEGIN, (*key, part.source))
    return Copied(part.name, 0)


async def _holds_any(connection: "AsyncConnection[Any]", fleet: str, part: Compared) -> bool:
    async with aclosing(part.arrived(connection, fleet)) as rows:
        async for _ in rows:
            return True
    return False


async def _write(database: PgDatabase, part: CopyPart, copied: int, rows: Sequence[Row]) -> None:
    async with database.transaction() as connection:
        await connection.execute(WAIT)
        counted = (copied + len(rows), database.name, part.name, copied)
        if (await connection.execute(_COUNT, counted)).rowcount != 1:
            raise ConfigError(f"Another `toolcrib db copy` brings the {part.name} over.", hint="Let it finish.")
        await part.write(connection, database.name, copied, rows)


async def _finish(database: PgDatabase, part: Compared) -> Copied:
    """Read both sides, and call it done only if they are equal."""
    here = _Digest()
    for row in part.rows(0):
        here.add(row)
    async with database.transaction() as connection:
        there = _Digest()
        async for row in part.arrived(connection, database.name):
            there.add(row)
        if (here.count, here.hex) != (there.count, there.hex):
            raise _unequal(part, here.count, there.count)
        await connection.execute(_DONE, (here.count, database.name, part.name))
    return Copied(part.name, here.count, is_done=True, digest=here.hex)


class _Digest:
    """Of rows, in order."""

    def __init__(self) -> None:
        self.count, self._sha = 0, hashlib.sha256()

    def add(self, row: Row) -> None:
        self.count += 1
        self._sha.update(msgspec.json.encode(row) + b"\n")

    @property
    def hex(self) -> str:
        return self._sha.hexdigest()[:16]


def _check_source(part: Compared, source: str) -> None:
    if source != part.source:
        raise _foreign(part, f"that were copied from {source}")


def _foreign(part: Compared, origin: str) -> ConfigError:
    return ConfigError(
        f"The shared database holds {part.name} already {origin}; nothing is put on top of them, nor taken away.",
        hint="Copy to an empty database, or under another [store] name.",
    )


def _unequal(part: Compared, here: int, there: int) -> ConfigError:
    return ConfigError(
        f"The {part.name} changed while they were copied: {here} here, {there} in the shared database.",
        hint="Stop toolcrib on this machine and the replicas, then run this again; with --anew if that does not help.",
    )
