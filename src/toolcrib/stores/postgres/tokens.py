"""Tokens in the shared database, with a copy in memory that follows it: recognising one asks nobody.

The copy is renewed as soon as a change is told, and looked after every second in case the telling got lost. While the
database is away it counts for a minute; after that nobody is let in, and whoever is in may stay.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from toolcrib.core.access import Caller
from toolcrib.core.errors import StoreUnavailable
from toolcrib.stores.access_tokens import AccessToken, NewToken, TokenIndex, find_named, make_token, refuse_namesake
from toolcrib.stores.postgres.database import StoreSettings, connect, connect_async, unavailable
from toolcrib.stores.postgres.lock import HOLD, STAMP, WAIT

if TYPE_CHECKING:
    from psycopg import AsyncConnection, Connection

MARK = "tokens"
CHANNEL = "toolcrib_tokens"
LOOK_S = 0.9
"""How often the copy is compared when nothing is told; with the comparison itself less than a second."""
COUNTS_S = 60.0
"""How long the copy counts while the database is away."""

READ = "SELECT id, body FROM toolcrib.token WHERE fleet = %s ORDER BY place"
_ADD = "INSERT INTO toolcrib.token (fleet, id, body) VALUES (%s, %s, %s)"
_CHANGE = "UPDATE toolcrib.token SET body = %s WHERE fleet = %s AND id = %s"
_TELL = "SELECT pg_notify(%s, %s)"


@dataclass(frozen=True, slots=True)
class _Copy:
    """What the database held at some moment."""

    stamp: str
    known: TokenIndex
    at: float
    """When it was certainly so, by a clock that never goes back."""


class PgTokens:
    """The tokens of one fleet. Whoever serves runs ``follow``; without it, what was read counts for a minute."""

    def __init__(
        self, settings: StoreSettings, now: Callable[[], float], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings, self._now, self._clock = settings, now, clock
        self._copy: _Copy | None = None
        self._problem: Exception | None = None

    def read(self) -> tuple[AccessToken, ...]:
        """Every token there is or was, asked of the database itself."""
        with self._connected() as connection:
            return tuple(self._take(connection).known.by_id.values())

    def create(self, wish: NewToken) -> tuple[AccessToken, str]:
        """A new token, and the text its holder sends: it cannot be had again."""
        now = self._now()
        token, text = make_token(wish, now)
        with self._changing() as (connection, kept):
            refuse_namesake(kept, token.name, now)
            connection.execute(_ADD, (self._settings.name, token.id, _to_body(token)))
        return token, text

    def revoke(self, name_or_id: str) -> AccessToken:
        """End a token for good, on every replica within a second."""
        with self._changing() as (connection, kept):
            revoked = msgspec.structs.replace(find_named(kept, name_or_id), revoked=self._now())
            connection.execute(_CHANGE, (_to_body(revoked), self._settings.name, revoked.id))
        return revoked

    def identify(self, presented: bytes) -> Caller | None:
        """Who holds this token, if it is one of ours and works; raises once the copy is too old."""
        return self._current().identify(presented, self._now())

    def is_active(self, token_id: str) -> bool:
        """Whether a token still works; not once the copy is too old."""
        with suppress(StoreUnavailable):
            return self._current().is_active(token_id, self._now())
        return False

    def has_ended(self, token_id: str) -> bool:
        """Whether a token works no more by the last copy, however old that is."""
        return self._copy is None or not self._copy.known.is_active(token_id, self._now())

    def names(self) -> dict[str, str]:
        """The name of every token there is or was, by its id; the last that were known while the database is away."""
        return {} if self._copy is None else self._copy.known.names()

    async def follow(self) -> None:
        """Keep the copy fresh, until cancelled; a connection that is lost is made again."""
        import psycopg

        while True:
            try:
                async with asyncio.timeout(self._settings.timeout_s):
                    connection = await connect_async(self._settings)
                async with connection:
                    await self._follow(connection)
            except (psycopg.Error, OSError, StoreUnavailable) as error:
                self._problem = error
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
        stamp = "" if row is None else str(row[0])
        if self._copy is None or self._copy.stamp != stamp:
            rows = await (await connection.execute(READ, (fleet,))).fetchall()
            self._copy = None  # what cannot be read lets nobody in
            self._copy = _Copy(stamp, to_known(rows), asked)
        else:
            self._copy = _Copy(stamp, self._copy.known, asked)
        self._problem = None

    def _current(self) -> TokenIndex:
        copy = self._copy
        if copy is None or self._clock() - copy.at > COUNTS_S:
            raise self._too_old()
        return copy.known

    def _too_old(self) -> StoreUnavailable:
        trouble = unavailable(self._problem) if self._problem is not None else None
        reason = f" {trouble.message}" if trouble is not None else ""
        return StoreUnavailable(
            f"The tokens in the shared database are not known for certain, so none is accepted.{reason}",
            hint="They are accepted again as soon as the database answers.",
        )

    @contextmanager
    def _connected(self) -> "Iterator[Connection[Any]]":
        import psycopg

        try:
            with connect(self._settings) as connection:
                yield connection
        except (psycopg.Error, OSError) as error:
            raise unavailable(error) from error

    @contextmanager
    def _changing(self) -> "Iterator[tuple[Connection[Any], tuple[AccessToken, ...]]]":
        """What is kept, while nobody else can change it; when the block ends well everybody is told."""
        fleet = self._settings.name
        with self._connected() as connection:
            with connection.transaction():
                connection.execute(WAIT)
                connection.execute(HOLD, (fleet, MARK))
                yield connection, tuple(to_known(connection.execute(READ, (fleet,)).fetchall()).by_id.values())
                connection.execute(_TELL, (CHANNEL, fleet))
            self._take(connection)

    def _take(self, connection: "Connection[Any]") -> _Copy:
        asked, fleet = self._clock(), self._settings.name
        row = connection.execute(STAMP, (fleet, MARK)).fetchone()  # before the rows: what changes between is seen later
        known = to_known(connection.execute(READ, (fleet,)).fetchall())
        self._copy = _Copy("" if row is None else str(row[0]), known, asked)
        return self._copy


def _to_body(token: AccessToken) -> str:
    return msgspec.json.encode(token).decode()


def to_known(rows: Sequence[tuple[Any, ...]]) -> TokenIndex:
    """The tokens; one that cannot be read means that none can be trusted, as with a damaged file."""
    found = []
    for token_id, body in rows:
        try:
            token = msgspec.json.decode(body, type=AccessToken)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise _damaged(token_id, str(error)) from None
        if token.id != token_id:
            raise _damaged(token_id, f"it says it is {token.id!r}")
        found.append(token)
    return TokenIndex.of(found)


def _damaged(token_id: str, reason: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"Token {token_id!r} in the shared database is damaged: {reason}.",
        hint="Nobody is let in by it. Mend its row in toolcrib.token, or delete it.",
    )
