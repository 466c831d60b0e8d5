"""What the built-in authorization server keeps, in the shared database, with a copy in memory of what was revoked.

Changes of all replicas happen one after the other. The copy is renewed as soon as a change is told, and looked after
every second; while the database is away it counts for a minute, after that no access token is accepted.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from toolcrib.core.errors import StoreUnavailable
from toolcrib.stores.connections import (
    FOREVER,
    AnyRecord,
    ConnectedClient,
    ConnectionIndex,
    R,
    RecordDesk,
    SigningKey,
    from_body,
    to_body,
)
from toolcrib.stores.postgres.database import StoreSettings, connect, connect_async, from_text, to_text, unavailable
from toolcrib.stores.postgres.lock import HOLD, STAMP, WAIT
from toolcrib.stores.postgres.tokens import COUNTS_S, LOOK_S

if TYPE_CHECKING:
    from psycopg import AsyncConnection, Connection

MARK = "oauth"
CHANNEL = "toolcrib_oauth"
_KNOWN = (SigningKey.kind, ConnectedClient.kind)

_ALL = "SELECT body FROM toolcrib.oauth WHERE fleet = %s AND kind = ANY(%s) ORDER BY place"
_ONE = "SELECT body FROM toolcrib.oauth WHERE fleet = %s AND kind = %s AND id = %s"
_PUT = """
INSERT INTO toolcrib.oauth (fleet, kind, id, until, body) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (fleet, kind, id) DO UPDATE SET until = excluded.until, body = excluded.body
"""
_DROP = "DELETE FROM toolcrib.oauth WHERE fleet = %s AND kind = %s AND id = %s"
_SWEEP = "DELETE FROM toolcrib.oauth WHERE fleet = %s AND until <= %s"
_TELL = "SELECT pg_notify(%s, %s)"


@dataclass(frozen=True, slots=True)
class PgDesk:
    """The records, inside a transaction in which nobody else changes them."""

    connection: "Connection[Any]"
    fleet: str

    def get(self, kind: type[R], record_id: str) -> R | None:
        """The record of that id."""
        row = self.connection.execute(_ONE, (self.fleet, kind.kind, to_text(record_id))).fetchone()
        found = None if row is None else _read(row[0])
        return found if isinstance(found, kind) else None

    def all(self, kind: type[R]) -> list[R]:
        """All of one kind."""
        rows = self.connection.execute(_ALL, (self.fleet, [kind.kind])).fetchall()
        return [each for each in map(_read, (row[0] for row in rows)) if isinstance(each, kind)]

    def put(self, record: AnyRecord) -> None:
        """Write a record."""
        until, body = min(record.until, FOREVER), to_text(to_body(record).decode())
        self.connection.execute(_PUT, (self.fleet, record.kind, to_text(record.id), until, body))

    def drop(self, kind: type[R], record_id: str) -> None:
        """Forget a record."""
        self.connection.execute(_DROP, (self.fleet, kind.kind, to_text(record_id)))


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """What the database held at some moment."""

    stamp: str
    known: ConnectionIndex
    at: float
    """When it was certainly so, by a clock that never goes back."""


class PgConnections:
    """The records of one fleet. Whoever serves runs ``follow``; without it, what was read counts for a minute."""

    def __init__(
        self, settings: StoreSettings, now: Callable[[], float], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings, self._now, self._clock = settings, now, clock
        self._copy: _Snapshot | None = None

    def read(self, kind: type[R]) -> list[R]:
        """All records of a kind, asked of the database itself."""
        with self._connected() as connection:
            self._take(connection)
            return PgDesk(connection, self._settings.name).all(kind)

    @contextmanager
    def changing(self) -> Iterator[RecordDesk]:
        """The records, while nobody else can change them; when the block ends well everybody is told."""
        fleet = self._settings.name
        with self._connected() as connection:
            with connection.transaction():
                connection.execute(WAIT)
                connection.execute(HOLD, (fleet, MARK))
                yield PgDesk(connection, fleet)
                connection.execute(_SWEEP, (fleet, self._now()))
                connection.execute(_TELL, (CHANNEL, fleet))
            self._take(connection)

    def look(self) -> ConnectionIndex:
        """What is known right now; raises once the copy is too old."""
        copy = self._copy
        if copy is None or self._clock() - copy.at > COUNTS_S:
            raise StoreUnavailable(
                "Which clients are connected is not known for certain, so none is let in.",
                hint="They are let in again as soon as the shared database answers.",
            )
        return copy.known

    async def follow(self) -> None:
        """Keep the copy fresh, until cancelled; a connection that is lost is made again."""
        import psycopg

        while True:
            try:
                async with asyncio.timeout(self._settings.timeout_s):
                    connection = await connect_async(self._settings)
                async with connection:
                    await self._follow(connection)
            except (psycopg.Error, OSError, StoreUnavailable):
                pass  # the copy tells by its age
            await asyncio.sleep(LOOK_S)

    async def _follow(self, connection: "AsyncConnection[Any]") -> None:
        await connection.execute(f"LISTEN {CHANNEL}")
        while True:
            async with asyncio.timeout(self._settings.timeout_s):
                await self._look(connection)
            async for _ in connection.notifies(timeout=LOOK_S, stop_after=1):
                pass

    async def _look(self, connection: "AsyncConnection[Any]") -> None:
        """Compare, and take everything anew if something is different."""
        asked, fleet = self._clock(), self._settings.name
        row = await (await connection.execute(STAMP, (fleet, MARK))).fetchone()
        stamp, copy = "" if row is None else str(row[0]), self._copy
        if copy is not None and copy.stamp == stamp:
            self._copy = _Snapshot(stamp, copy.known, asked)
            return
        rows = await (await connection.execute(_ALL, (fleet, list(_KNOWN)))).fetchall()
        self._copy = None  # what cannot be read lets nobody in
        self._copy = _Snapshot(stamp, _index(rows), asked)

    @contextmanager
    def _connected(self) -> "Iterator[Connection[Any]]":
        import psycopg

        try:
            with connect(self._settings) as connection:
                yield connection
        except (psycopg.Error, OSError) as error:
            raise unavailable(error) from error

    def _take(self, connection: "Connection[Any]") -> None:
        asked, fleet = self._clock(), self._settings.name
        row = connection.execute(STAMP, (fleet, MARK)).fetchone()  # before the rows: what changes between is seen later
        rows = connection.execute(_ALL, (fleet, list(_KNOWN))).fetchall()
        self._copy = _Snapshot("" if row is None else str(row[0]), _index(rows), asked)


def _index(rows: Sequence[tuple[Any, ...]]) -> ConnectionIndex:
    return ConnectionIndex.of([_read(row[0]) for row in rows])


def _read(body: str) -> AnyRecord:
    """A record; one that cannot be read means that none can be trusted, as with a damaged file."""
    try:
        return from_body(from_text(body))
    except (msgspec.MsgspecError, RecursionError) as error:
        raise StoreUnavailable(
            f"What the shared database holds of connected clients is damaged: {error}.",
            hint="Nobody is let in by it. Mend or delete the row in toolcrib.oauth.",
        ) from None
