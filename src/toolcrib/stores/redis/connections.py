"""Connections to Redis or Valkey, and how their trouble is told."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from toolcrib.core.errors import ConfigError, CoordinationUnavailable

if TYPE_CHECKING:
    from redis.asyncio import Redis
    from redis.asyncio.connection import AbstractConnection

CONNECTIONS_MAX = 32
PERCENT = "Percent-encode what is special in the password: / is %2F, % is %25, @ is %40."


@dataclass(frozen=True, slots=True)
class RedisSettings:
    """Where the engine is, and how it is used; the address holds no references any more."""

    url: str = field(repr=False)
    name: str = "main"
    """Replicas with the same name share everything."""
    timeout_s: float = 2.0


def make_client(settings: RedisSettings) -> "Redis":
    """A client whose connections fail at once instead of trying again; nothing is opened yet."""
    from redis.asyncio import BlockingConnectionPool, Redis
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff

    try:
        pool = BlockingConnectionPool.from_url(
            settings.url,
            max_connections=CONNECTIONS_MAX,
            timeout=settings.timeout_s,
            protocol=2,
            client_name="toolcrib",
            socket_timeout=None,
            socket_connect_timeout=settings.timeout_s,
            retry=Retry(NoBackoff(), 0),
        )
    except ValueError:
        raise ConfigError("[redis] url cannot be read.", hint=PERCENT) from None
    return Redis.from_pool(pool)


async def make_connection(client: "Redis", timeout_s: float) -> "AbstractConnection":
    """A connection of one's own."""
    connection: AbstractConnection = client.connection_pool.make_connection()  # type: ignore[no-untyped-call]
    async with trouble(timeout_s):
        await connection.connect()  # type: ignore[no-untyped-call]
    return connection


async def ask(connection: "AbstractConnection", *command: Any) -> Any:
    """One command and its answer; the caller translates trouble."""
    await connection.send_command(*command, check_health=False)
    return await connection.read_response()


@asynccontextmanager
async def trouble(timeout_s: float) -> AsyncIterator[None]:
    """Whatever goes wrong inside is ``CoordinationUnavailable``, at the latest after that time."""
    import redis.exceptions as foreign

    try:
        async with asyncio.timeout(timeout_s):
            yield
    except (foreign.RedisError, OSError, TimeoutError) as error:
        raise unavailable(error) from error


def unavailable(error: Exception) -> CoordinationUnavailable:
    """The trouble in plain words, without the address: it may hold a password."""
    reason = reason_of(error)
    return CoordinationUnavailable(
        f"Redis cannot be used: {reason}.",
        hint="Try again shortly. If it lasts, check [redis] url and that Redis runs.",
        details={"reason": reason, "was_cut": type(error).__name__ == "ConnectionError"},
    )


def reason_of(error: Exception) -> str:
    """The trouble in plain words."""
    kind, said = type(error).__name__, str(error)
    return next((words for mark, words in _REASONS.items() if mark == kind or said.startswith(mark)), _DUMB)


_DUMB = "it does not answer"
_REASONS = {
    "AuthenticationError": "it does not let us in",
    "AuthenticationWrongNumberOfArgsError": "it does not let us in",
    "NOAUTH": "it does not let us in",
    "WRONGPASS": "it does not let us in",
    "NoPermissionError": "we may not do this there",
    "NOPERM": "we may not do this there",
    "OutOfMemoryError": "its memory is full",
    "OOM": "its memory is full",
    "ReadOnlyError": "it may only be read",
    "READONLY": "it may only be read",
    "BusyLoadingError": "it is starting",
    "LOADING": "it is starting",
    "MovedError": "it is part of a cluster; toolcrib needs a single Redis",
    "MOVED": "it is part of a cluster; toolcrib needs a single Redis",
    "MISCONF": "it cannot write to its disk",
    "BUSY": "it is busy with a script",
    "ResponseError": "it does not understand us; Redis 6.2 or newer is needed",
}
