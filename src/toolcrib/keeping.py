"""From configuration to where pins, answers and tokens are kept: in files of this machine, or where replicas share."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from toolcrib.config.ledger import Ledger
from toolcrib.config.model import Config
from toolcrib.shared import find_store
from toolcrib.stores.lockfile import LockFile
from toolcrib.stores.postgres.database import PgDatabase
from toolcrib.stores.postgres.migrate import need_current
from toolcrib.stores.records import FileLedger
from toolcrib.stores.token_file import token_file
from toolcrib.stores.tokens import TokenBook


def make_ledger(database: PgDatabase | None, lock: Path | None) -> Ledger | None:
    """Where the lock is kept; ``None``: nowhere, so that it is forgotten with the process."""
    if database is not None:
        from toolcrib.stores.postgres.ledger import PgLedger

        return PgLedger(database)
    return FileLedger(LockFile(lock)) if lock is not None else None


@asynccontextmanager
async def open_ledger(config: Config, lock: Path | None, env: Mapping[str, str]) -> AsyncIterator[Ledger | None]:
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
