"""Every kind of ledger, twice over the same place: two processes, or two replicas."""

from pathlib import Path

from toolcrib.config.lock import LockStore
from toolcrib.stores.lockfile import FileLedger, LockFile
from toolcrib.stores.postgres.database import PgDatabase, StoreSettings
from toolcrib.stores.postgres.lock import PgLedger


class Ledgers:
    """Opens ledgers over one place, and closes what is behind them."""

    def __init__(self, path: Path, settings: StoreSettings | None) -> None:
        self._path, self._settings = path, settings
        self._databases: list[PgDatabase] = []

    def open(self) -> LockStore:
        if self._settings is None:
            return FileLedger(LockFile(self._path))
        self._databases.append(PgDatabase(self._settings))
        return PgLedger(self._databases[-1])

    async def close(self) -> None:
        for database in self._databases:
            await database.close()
