"""From configuration to what replicas share; without [store] and [redis] there is nothing of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec

from toolcrib.config.model import Config
from toolcrib.config.references import resolve
from toolcrib.config.scaling import StoreConfig
from toolcrib.core.coordination import Coordination
from toolcrib.core.errors import ConfigError
from toolcrib.stores.postgres.database import PgDatabase, StoreSettings
from toolcrib.stores.postgres.migrate import need_current


@dataclass(slots=True)
class Shared:
    """What this process has in common with other replicas."""

    database: PgDatabase | None = None
    coordination: Coordination | None = None

    @property
    def settings(self) -> StoreSettings | None:
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
    settings = find_store(config.store, env)
    shared = Shared(PgDatabase(settings) if settings is not None else None)
    try:
        if shared.database is not None:
            await need_current(shared.database)
    except BaseException:
        await shared.close()
        raise
    return shared


def find_store(config: StoreConfig, env: Mapping[str, str]) -> StoreSettings | None:
    """The shared database, if one is configured; nothing is opened."""
    if not config.url:
        return None
    if find_spec("psycopg") is None or find_spec("psycopg_pool") is None:
        raise ConfigError("[store] needs psycopg.", hint="pip install 'toolcrib[postgres]'")
    url = resolve(config.url, env, field="[store] url")
    if not url.startswith(("postgresql://", "postgres://")):
        hint = "It begins with postgresql://."
        raise ConfigError("[store] url does not lead to an address of PostgreSQL.", hint=hint)
    return StoreSettings(url, config.name, config.pool, config.timeout_s)
