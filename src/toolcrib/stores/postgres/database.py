"""The connections of one process to the shared database, and how its trouble is told."""

import asyncio
import functools
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolcrib.core.errors import StoreUnavailable, ToolcribError

if TYPE_CHECKING:
    from psycopg import AsyncConnection, Connection
    from psycopg_pool import AsyncConnectionPool

SCHEMA = "toolcrib"
_SQL = Path(__file__).with_name("sql")
_OPTIONS: Mapping[str, Any] = {
    "application_name": "toolcrib",
    "options": f"-c search_path={SCHEMA},public -c timezone=UTC",
}


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Where the database is, and how it is used; the address holds no references any more."""

    url: str = field(repr=False)
    name: str = "main"
    """Replicas with the same name share everything."""
    pool: int = 8
    timeout_s: float = 5.0


@functools.cache
def read_sql(name: str) -> str:
    """One of the statements that are kept as files."""
    return (_SQL / f"{name}.sql").read_text()


class PgDatabase:
    """A pool of connections, opened at the first use; a failure of the engine is ``StoreUnavailable``."""

    def __init__(self, settings: StoreSettings) -> None:
        self.settings = settings
        self._pool: AsyncConnectionPool[AsyncConnection[Any]] | None = None
        self._turn = asyncio.Lock()

    @property
    def name(self) -> str:
        """Whose rows are ours."""
        return self.settings.name

    @asynccontextmanager
    async def transaction(self) -> "AsyncIterator[AsyncConnection[Any]]":
        """A connection whose statements count together; when it ends well, what was written survives a power cut."""
        import psycopg
        import psycopg_pool

        try:
            pool = await self._opened()
            async with pool.connection(timeout=self.settings.timeout_s) as connection, connection.transaction():
                yield connection
        except (psycopg.Error, psycopg_pool.PoolTimeout, psycopg_pool.PoolClosed, OSError) as error:
            raise unavailable(error) from error

    async def rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """What one statement returns."""
        async with self.transaction() as connection:
            cursor = await connection.execute(statement.encode(), parameters)
            return await cursor.fetchall() if cursor.description is not None else []

    async def _opened(self) -> "AsyncConnectionPool[AsyncConnection[Any]]":
        if self._pool is None:
            async with self._turn:
                if self._pool is None:
                    self._pool = await self._open()
        return self._pool

    async def _open(self) -> "AsyncConnectionPool[AsyncConnection[Any]]":
        from psycopg_pool import AsyncConnectionPool

        pool: AsyncConnectionPool[AsyncConnection[Any]] = AsyncConnectionPool(
            self.settings.url,
            kwargs={**_OPTIONS, "connect_timeout": max(2, round(self.settings.timeout_s))},
            min_size=0,
            max_size=self.settings.pool,
            timeout=self.settings.timeout_s,
            reconnect_timeout=1.0,  # whoever waits longer between attempts misses that the database is back
            check=AsyncConnectionPool.check_connection,
            open=False,
        )
        await pool.open()
        return pool

    async def close(self) -> None:
        """Let go of all connections."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()


def connect(settings: StoreSettings) -> "Connection[Any]":
    """A connection of its own for a thread that writes, in no transaction of its own making."""
    import psycopg

    return psycopg.connect(settings.url, autocommit=True, connect_timeout=max(1, round(settings.timeout_s)), **_OPTIONS)


async def connect_async(settings: StoreSettings) -> "AsyncConnection[Any]":
    """The same for a task: a connection outside the pool, for what lasts; the caller translates trouble."""
    import psycopg

    seconds = max(1, round(settings.timeout_s))
    return await psycopg.AsyncConnection.connect(settings.url, autocommit=True, connect_timeout=seconds, **_OPTIONS)


def unavailable(error: Exception) -> StoreUnavailable:
    """The trouble in plain words, without the address: it may hold a password."""
    return StoreUnavailable(
        f"The shared database cannot be used: {reason_of(error)}.",
        hint="Check [store] url and that PostgreSQL runs; `toolcrib db status` tells more.",
        details={"reason": reason_of(error)},
    )


def reason_of(error: Exception) -> str:
    """The trouble in plain words."""
    if isinstance(error, ToolcribError):
        return error.message.rstrip(".")
    state = getattr(error, "sqlstate", None)
    if state is None:
        return "it does not answer"
    return _REASONS.get(state) or _REASONS.get(state[:2]) or f"{type(error).__name__} ({state})"


_REASONS = {
    "28": "it does not let us in",
    "3D": "there is no such database",
    "42P01": "its tables are missing; run `toolcrib db upgrade`",
    "3F": "its tables are missing; run `toolcrib db upgrade`",
    "42501": "we may not do this there",
    "53100": "its disk is full",
    "53300": "it has too many connections",
    "57P01": "it is shutting down",
    "57P03": "it is starting",
    "25006": "it may only be read",
    "40": "another replica was in the way",
    "55P03": "another replica was in the way",
}
