"""From configuration to where things are kept: in files of this machine, or shared by replicas."""

import os
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from toolcrib.config.lock import LockStore
from toolcrib.config.model import Config
from toolcrib.config.references import resolve
from toolcrib.config.sections import RedisConfig, StoreConfig
from toolcrib.core.errors import ConfigError
from toolcrib.stores.local import Backend
from toolcrib.stores.paths import Environment

if TYPE_CHECKING:
    from toolcrib.stores.postgres.database import StoreSettings
    from toolcrib.stores.redis.engine import RedisSettings


def find_backend(config: Config, around: Environment) -> Backend:
    """Where everything is kept that a configuration says anything of; nothing is opened. The one place that chooses."""
    settings = find_store(config.store, around.env)
    redis = partial(find_redis, config.redis, config.store.name, around.env)
    if settings is None:
        return Backend(config, around, redis)
    from toolcrib.stores.postgres.backend import PostgresBackend

    return PostgresBackend(config, around, settings, redis)


@asynccontextmanager
async def open_lock(config: Config, path: Path | None, around: Environment) -> AsyncIterator[LockStore | None]:
    """The lock of a configuration for whoever runs no Crib."""
    backend = find_backend(config, around)
    try:
        await backend.reach_store()
        yield backend.lock(path)
    finally:
        await backend.close()


def replica_name(config: Config) -> str:
    """What this process is called among the others; the end of a host's name is what tells pods apart."""
    return config.replica or f"{socket.gethostname().partition('.')[0][-24:]}-{os.getpid()}"


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
