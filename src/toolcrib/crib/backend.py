"""From configuration to where things are kept: in files of this machine, or shared by replicas."""

import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from toolcrib.config.lock import LockStore
from toolcrib.config.model import Config
from toolcrib.config.references import resolve
from toolcrib.config.sections import RedisConfig, StoreConfig
from toolcrib.core.coordination import Coordination, SessionBook
from toolcrib.core.errors import ConfigError, CoordinationUnavailable
from toolcrib.stores.access_tokens import TokenBook, token_file
from toolcrib.stores.lockfile import LockFile
from toolcrib.stores.postgres.database import PgDatabase
from toolcrib.stores.postgres.migrate import need_current
from toolcrib.stores.records import FileLedger

if TYPE_CHECKING:
    from toolcrib.stores.postgres.database import StoreSettings
    from toolcrib.stores.redis.engine import RedisSettings


SEAL = "seal"


@dataclass(slots=True)
class Shared:
    """What this process has in common with other replicas."""

    database: "PgDatabase | None" = None
    coordination: Coordination | None = None
    replica: str = ""
    """What this process is called."""

    def book(self) -> SessionBook | None:
        """Where the sessions of all replicas are written down."""
        if self.database is not None:
            from toolcrib.stores.postgres.coordination import PgSessionBook

            return PgSessionBook(self.database)
        if self.coordination is None:
            return None
        from toolcrib.stores.shared import SharedSessionBook

        return SharedSessionBook(self.coordination)

    async def secret(self) -> bytes:
        """What only the replicas know, made by the first of them."""
        if self.database is not None:
            from toolcrib.stores.postgres.coordination import read_secret

            return await read_secret(self.database, SEAL)
        if self.coordination is None:
            return b""
        from toolcrib.stores.shared import agree_on_secret

        try:
            return await agree_on_secret(self.coordination, SEAL)
        except CoordinationUnavailable:  # then nothing that another replica sealed is taken here
            return b""

    @property
    def settings(self) -> "StoreSettings | None":
        """Where the database is, for who makes connections of another kind."""
        return None if self.database is None else self.database.settings

    async def close(self) -> None:
        """Let go of everything."""
        try:
            if self.coordination is not None:
                await self.coordination.close()
        finally:
            if self.database is not None:
                await self.database.close()


async def open_shared(config: Config, env: Mapping[str, str]) -> Shared:
    """What the configuration says is shared; a database that is not up to date is an error."""
    settings, shared = find_store(config.store, env), Shared(replica=replica_name(config))
    try:
        if settings is not None:
            from toolcrib.stores.postgres.database import PgDatabase
            from toolcrib.stores.postgres.migrate import need_current

            shared.database = PgDatabase(settings)
            await need_current(shared.database)
        shared.coordination = await open_coordination(find_redis(config.redis, config.store.name, env), shared.database)
    except BaseException:
        await shared.close()
        raise
    return shared


def replica_name(config: Config) -> str:
    """What this process is called among the others; the end of a host's name is what tells pods apart."""
    return config.replica or f"{socket.gethostname().partition('.')[0][-24:]}-{os.getpid()}"


async def open_coordination(redis: "RedisSettings | None", database: "PgDatabase | None") -> Coordination | None:
    """What replicas agree through: Redis if there is one, else the database, else nothing.

    While Redis is away nobody else counts in its place: two who count are two limits.
    """
    if redis is None and database is None:
        return None
    from toolcrib.stores.postgres.coordination import PgEpochMemory, open_postgres_coordination
    from toolcrib.stores.redis.engine import open_redis_coordination

    if redis is not None:
        memory = PgEpochMemory(database, "redis") if database is not None else None
        return await open_redis_coordination(redis, memory=memory)
    return await open_postgres_coordination(database) if database is not None else None


def find_redis(config: RedisConfig, name: str, env: Mapping[str, str]) -> "RedisSettings | None":
    """The shared Redis, if one is configured; nothing is opened."""
    if not config.url:
        return None
    if find_spec("redis") is None:
        raise ConfigError("[redis] needs redis-py.", hint="pip install 'toolcrib[redis]'")
    url = resolve(config.url, env, field="[redis] url")
    if not url.startswith(("redis://", "rediss://", "unix://")):
        hint = "It begins with redis://, rediss:// or unix://."
        raise ConfigError("[redis] url does not lead to an address of Redis.", hint=hint)
    _check_port(url, "[redis]")
    from toolcrib.stores.redis.engine import RedisSettings

    return RedisSettings(url, name, config.timeout_s)


def find_store(config: StoreConfig, env: Mapping[str, str]) -> "StoreSettings | None":
    """The shared database, if one is configured; nothing is opened."""
    if not config.url:
        return None
    if find_spec("psycopg") is None or find_spec("psycopg_pool") is None:
        raise ConfigError("[store] needs psycopg.", hint="pip install 'toolcrib[postgres]'")
    url = resolve(config.url, env, field="[store] url")
    if not url.startswith(("postgresql://", "postgres://")):
        hint = "It begins with postgresql://."
        raise ConfigError("[store] url does not lead to an address of PostgreSQL.", hint=hint)
    _check_postgres(url)
    from toolcrib.stores.postgres.database import StoreSettings

    return StoreSettings(url, config.name, config.pool, config.timeout_s)


def _check_postgres(url: str) -> None:
    """Refuse an address that would be taken apart at the wrong places: what is left over may be a password."""
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    from toolcrib.stores.redis.engine import PERCENT

    try:
        ports = str(conninfo_to_dict(url).get("port") or "")
    except ProgrammingError:
        ports = "?"
    if not all(port.isdigit() for port in ports.split(",") if port):
        raise ConfigError("[store] url cannot be read.", hint=PERCENT)


def _check_port(url: str, section: str) -> None:
    from toolcrib.stores.redis.engine import PERCENT

    try:
        urlsplit(url).port  # noqa: B018 - asking is what finds out
    except ValueError:
        raise ConfigError(f"{section} url cannot be read.", hint=PERCENT) from None


def make_ledger(database: PgDatabase | None, lock: Path | None) -> LockStore | None:
    """Where the lock is kept; ``None``: nowhere, so that it is forgotten with the process."""
    if database is not None:
        from toolcrib.stores.postgres.lock import PgLedger

        return PgLedger(database)
    return FileLedger(LockFile(lock)) if lock is not None else None


@asynccontextmanager
async def open_ledger(config: Config, lock: Path | None, env: Mapping[str, str]) -> AsyncIterator[LockStore | None]:
    """The lock of a configuration for whoever runs no Crib."""
    settings = find_store(config.store, env)
    if settings is None:
        yield make_ledger(None, lock)
        return
    database = PgDatabase(settings)
    try:
        await need_current(database)
        yield make_ledger(database, lock)
    finally:
        await database.close()


def find_tokens(config: Config, env: Mapping[str, str], now: Callable[[], float]) -> TokenBook:
    """The tokens that were given to others; nothing is opened yet."""
    settings = find_store(config.store, env)
    if settings is None:
        return token_file(env, now)
    from toolcrib.stores.postgres.tokens import PgTokens

    return PgTokens(settings, now)
