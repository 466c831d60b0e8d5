"""The connections of one process to the shared database, and how its trouble is told."""

import asyncio
import functools
import re
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolcrib.config.references import resolve
from toolcrib.config.sections import StoreConfig
from toolcrib.core.errors import ConfigError, StoreUnavailable, ToolcribError
from toolcrib.stores.shared import PERCENT

if TYPE_CHECKING:
    from psycopg import AsyncConnection, Connection
    from psycopg_pool import AsyncConnectionPool


Parameters = Sequence[Any] | Mapping[str, Any]
SCHEMA = "toolcrib"
WAIT_SHARE, CHECK_SHARE = 0.6, 0.2
"""Parts of the time for quick work: how long it waits for a connection, and how long one may take to show that it is
alive. What is left is for the work itself, so that all of it together keeps to the configured time."""
_SQL = Path(__file__).with_name("sql")
_OPTIONS: Mapping[str, Any] = {
    "application_name": "toolcrib",
    "options": f"-c search_path={SCHEMA},public -c timezone=UTC",
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
}


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Where the database is, and how it is used; the address holds no references any more."""

    url: str = field(repr=False)
    name: str = "main"
    """Replicas with the same name share everything."""
    pool: int = 8
    timeout_s: float = 5.0


def find_store(config: StoreConfig, env: Mapping[str, str]) -> StoreSettings:
    """The database of a configuration; nothing is opened."""
    if find_spec("psycopg") is None or find_spec("psycopg_pool") is None:
        raise ConfigError("[store] needs psycopg.", hint="Run `toolcrib extras add postgres`.")
    url = resolve(config.url, env, field="[store] url")
    if not url.startswith(("postgresql://", "postgres://")):
        hint = "It begins with postgresql://."
        raise ConfigError("[store] url does not lead to an address of PostgreSQL.", hint=hint)
    _check_ports(url)
    return StoreSettings(url, config.name, config.pool, config.timeout_s)


def _check_ports(url: str) -> None:
    """Refuse an address that would be taken apart at the wrong places."""
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    try:
        ports = str(conninfo_to_dict(url).get("port") or "")
    except ProgrammingError:
        ports = "?"
    if not all(port.isdigit() for port in ports.split(",") if port):
        raise ConfigError("[store] url cannot be read.", hint=PERCENT)


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
    async def transaction(self, within_s: float | None = None) -> "AsyncIterator[AsyncConnection[Any]]":
        """A connection whose statements count together; when it ends well, what was written survives a power cut.

        After ``within_s`` seconds, the wait for a connection included, it is cut off; without them its work may take as
        long as it takes.
        """
        import psycopg
        import psycopg_pool

        cancelled, began = cancellations(), time.monotonic()
        wait_s = self.settings.timeout_s if within_s is None else within_s * WAIT_SHARE
        try:
            pool = await self._opened()
            async with pool.connection(timeout=wait_s) as connection:
                raise_if_cancelled(cancelled)
                left_s = None if within_s is None else max(0.0, began + within_s - time.monotonic())
                with _cut_after(connection, left_s):
                    async with connection.transaction():
                        yield connection
        except (psycopg.Error, psycopg_pool.PoolTimeout, psycopg_pool.PoolClosed, OSError) as error:
            raise unavailable(error) from error

    async def rows(self, statement: str, parameters: Parameters = ()) -> list[tuple[Any, ...]]:
        """What one statement returns, however long it takes."""
        async with self.transaction() as connection:
            return await _rows_of(connection, statement, parameters)

    async def quick_rows(self, statement: str, parameters: Parameters = ()) -> list[tuple[Any, ...]]:
        """What a statement returns that takes no time: an engine that does not answer it in time is away."""
        async with self.transaction(self.settings.timeout_s) as connection:
            return await _rows_of(connection, statement, parameters)

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
            kwargs=_options(self.settings),
            min_size=0,
            max_size=self.settings.pool,
            timeout=self.settings.timeout_s,
            reconnect_timeout=1.0,  # pauses between attempts grow: whoever waits long misses that the database is back
            check=self._check,
            open=False,
        )
        await pool.open()
        return pool

    async def _check(self, connection: "AsyncConnection[Any]") -> None:
        from psycopg_pool import AsyncConnectionPool

        with _cut_after(connection, self.settings.timeout_s * CHECK_SHARE):
            await AsyncConnectionPool.check_connection(connection)

    async def close(self) -> None:
        """Let go of all connections."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()


async def _rows_of(connection: "AsyncConnection[Any]", statement: str, parameters: Parameters) -> list[tuple[Any, ...]]:
    cursor = await connection.execute(statement.encode(), parameters)
    return await cursor.fetchall() if cursor.description is not None else []


def rows_of(connection: "Connection[Any]", statement: str, parameters: Parameters) -> list[tuple[Any, ...]]:
    """What one statement returns, in a thread that may wait for it; nothing if it returns no rows at all."""
    cursor = connection.execute(statement.encode(), parameters)
    return cursor.fetchall() if cursor.description is not None else []


@contextmanager
def _cut_after(connection: "AsyncConnection[Any]", seconds: float | None) -> Iterator[None]:
    """Break a connection that is used for longer: whoever waits there hears of it at once.

    Cancelling would ask the server to stop and wait for it, and a server that hangs does not answer that either.
    """
    if seconds is None:
        yield
        return
    timer = asyncio.get_running_loop().call_later(seconds, cut, connection)
    try:
        yield
    finally:
        timer.cancel()


def cut(connection: "AsyncConnection[Any]") -> None:
    """Shut a connection down, so that its readers see its end; the file descriptor stays open until they close it."""
    import psycopg

    with (
        suppress(psycopg.Error, OSError),
        socket.fromfd(connection.fileno(), socket.AF_INET, socket.SOCK_STREAM) as end,
    ):
        end.shutdown(socket.SHUT_RDWR)


def _options(settings: StoreSettings) -> dict[str, Any]:
    """How connections are made; on one that is dead what was sent waits for no longer than everything else."""
    seconds = max(1, round(settings.timeout_s))
    return {**_OPTIONS, "connect_timeout": seconds, "tcp_user_timeout": seconds * 1000}


def connect(settings: StoreSettings) -> "Connection[Any]":
    """A connection of its own for a thread that writes, in no transaction of its own making."""
    import psycopg

    return psycopg.connect(settings.url, autocommit=True, **_options(settings))


async def connect_async(settings: StoreSettings) -> "AsyncConnection[Any]":
    """The same for a task: a connection outside the pool, for what lasts; the caller translates trouble."""
    import psycopg

    return await psycopg.AsyncConnection.connect(settings.url, autocommit=True, **_options(settings))


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


def cancellations() -> int:
    """How often this task was told to end so far."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def raise_if_cancelled(before: int) -> None:
    """End a task that was told to meanwhile: who hands out connections may keep that to itself."""
    if cancellations() > before:
        raise asyncio.CancelledError


LOOKS = 4
"""How often within its limit a use is looked at."""


class DeadlineGuard:
    """Breaks a connection that is used beyond the moment its work is due; whoever waits there hears of it at once."""

    def __init__(self, connection: "Connection[Any]", limit_s: float) -> None:
        # A handle of its own: the connection's number may already be another's when it is cut.
        self._line = socket.fromfd(connection.fileno(), socket.AF_INET, socket.SOCK_STREAM)
        self._limit_s = limit_s
        self._due: float | None = None
        self._is_over = threading.Event()
        threading.Thread(target=self._watch, name="toolcrib-guard", daemon=True).start()

    @contextmanager
    def watching(self, due: float) -> Iterator[None]:
        """One use of the connection; ``due`` is the moment, by the monotonic clock, at which it has to be over."""
        self._due = due
        try:
            yield
        finally:
            self._due = None

    def close(self) -> None:
        """Watch no more."""
        self._is_over.set()

    def _watch(self) -> None:
        with self._line:
            while not self._is_over.wait(self._limit_s / LOOKS):
                due = self._due
                if due is not None and time.monotonic() > due:
                    with suppress(OSError):
                        self._line.shutdown(socket.SHUT_RDWR)
                    return


_WRITTEN = re.compile(r"\\(.)", re.DOTALL)


def to_text(value: str) -> str:
    """As it is stored; the same for the same text, and for no other."""
    if "\\" not in value and "\0" not in value:
        return value
    return value.replace("\\", "\\\\").replace("\0", "\\0")


def from_text(stored: str) -> str:
    """As it was."""
    return _WRITTEN.sub(lambda found: "\0" if found[1] == "0" else found[1], stored) if "\\" in stored else stored
