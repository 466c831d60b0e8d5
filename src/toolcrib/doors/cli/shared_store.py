"""The shared database, as the commands of ``db`` open it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from toolcrib.config.masks import shown_url
from toolcrib.core.errors import ConfigError
from toolcrib.doors.cli.invoke import Options
from toolcrib.doors.cli.opening import load_here
from toolcrib.shared import find_store
from toolcrib.stores.postgres.database import PgDatabase
from toolcrib.surroundings import Surroundings


@asynccontextmanager
async def open_database(options: Options) -> AsyncIterator[PgDatabase]:
    """The database of the configuration; it is an error if there is none."""
    settings = find_store(load_here(options).config.store, Surroundings().env)
    if settings is None:
        raise ConfigError(
            "No shared database is configured: everything is in files of this machine.",
            hint='Write [store] url = "postgresql://…" to share it between replicas.',
        )
    database = PgDatabase(settings)
    try:
        yield database
    finally:
        await database.close()


def shown(database: PgDatabase) -> str:
    """Where it is, without passwords."""
    return shown_url(database.settings.url)
