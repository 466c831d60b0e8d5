"""From configuration to where things are kept: in files of this machine, or shared by replicas.

The one place that chooses: each engine is a room of ``stores``, and is loaded only where it is configured.
"""

import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from toolcrib.config.lock import LockStore
from toolcrib.config.model import Config
from toolcrib.core.coordination import Coordination, EpochMemory
from toolcrib.stores.local import Backend
from toolcrib.stores.paths import Environment
from toolcrib.stores.shared import SharedBackend


def find_backend(config: Config, around: Environment) -> Backend:
    """Where everything is kept that a configuration says anything of; nothing is opened."""
    redis = partial(_coordinate_by_redis, config, around) if config.redis.url else None
    if config.store.url:
        from toolcrib.stores.postgres.backend import PostgresBackend
        from toolcrib.stores.postgres.database import find_store

        return PostgresBackend(config, around, find_store(config.store, around.variables), redis)
    return Backend(config, around) if redis is None else SharedBackend(config, around, redis)


async def _coordinate_by_redis(config: Config, around: Environment, memory: EpochMemory | None) -> Coordination:
    from toolcrib.stores.redis.engine import find_redis, open_redis_coordination

    return await open_redis_coordination(find_redis(config, around.variables), memory=memory)


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
