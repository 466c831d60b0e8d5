"""Everything that is kept, in the shared database; replicas agree through it, too, unless another engine is given."""

from collections.abc import Callable
from pathlib import Path

from toolcrib.config.lock import LockStore
from toolcrib.config.model import Config
from toolcrib.config.secrets import shown_url
from toolcrib.core.coordination import Coordination, EpochMemory, SessionBook
from toolcrib.core.knowledge import KnowledgeStore
from toolcrib.core.worklist import WorkList
from toolcrib.stores.access_tokens import TokenBook
from toolcrib.stores.audit.log import AuditPlace
from toolcrib.stores.connections import ConnectionBook
from toolcrib.stores.credentials import CredentialStore
from toolcrib.stores.local import utc_now
from toolcrib.stores.paths import Environment
from toolcrib.stores.postgres.audit import AuditTable
from toolcrib.stores.postgres.connections import PgConnections
from toolcrib.stores.postgres.coordination import (
    PgEpochMemory,
    PgSessionBook,
    open_postgres_coordination,
    read_secret,
)
from toolcrib.stores.postgres.credentials import PgCredentials
from toolcrib.stores.postgres.database import PgDatabase, StoreSettings
from toolcrib.stores.postgres.lock import PgLedger
from toolcrib.stores.postgres.migrate import need_current
from toolcrib.stores.postgres.tokens import PgTokens
from toolcrib.stores.postgres.worklist import PgWorkList
from toolcrib.stores.shared import SEAL, Coordinate, SharedBackend


class PostgresBackend(SharedBackend):
    """What replicas share is in PostgreSQL; large results stay here, and are read by others through coordination."""

    def __init__(
        self, config: Config, around: Environment, settings: StoreSettings, coordinate: Coordinate | None = None
    ) -> None:
        self.settings, self.database = settings, PgDatabase(settings)
        super().__init__(config, around, coordinate or self._agree)
        self.place, self.look = shown_url(settings.url), self._look

    async def _look(self) -> None:
        await self.database.quick_rows("SELECT 1")

    async def reach_store(self) -> None:
        """A database that is not up to date is an error."""
        await need_current(self.database)

    async def _agree(self, memory: EpochMemory | None) -> Coordination:
        """Only where no other engine is configured. While that is away the database does not count in its place: two
        who count are two limits."""
        del memory  # the database remembers its own
        return await open_postgres_coordination(self.database)

    def epoch_memory(self) -> EpochMemory | None:
        """In a table, under the one name there is for another engine."""
        return PgEpochMemory(self.database, "redis")

    def lock(self, path: Path | None) -> LockStore | None:
        """The same lock for every replica, whatever file a project has."""
        del path
        return PgLedger(self.database)

    def tokens(self, now: Callable[[], float]) -> TokenBook:
        """The tokens that were given to others."""
        return PgTokens(self.settings, now)

    def connections(self, now: Callable[[], float]) -> ConnectionBook:
        """What the built-in authorization server keeps."""
        return PgConnections(self.settings, now)

    def credentials(self) -> CredentialStore:
        """The same accounts for every replica."""
        return PgCredentials(self.database)

    def audit(self) -> AuditPlace:
        """One log for all replicas."""
        return AuditTable(self.settings, self.place)

    def knowledge(self) -> KnowledgeStore:
        """In the file that is named, if one is."""
        if self.config.kb.path:
            return super().knowledge()
        from toolcrib.stores.postgres.knowledge import PgKnowledge  # numpy comes with it

        return PgKnowledge(self.settings)

    def knowledge_file(self) -> Path | None:
        """Only if one is named."""
        return super().knowledge_file() if self.config.kb.path else None

    def tasks(self, root: str) -> WorkList:
        """The tasks of a workspace."""
        return PgWorkList(self.database, root, utc_now)

    def sessions(self) -> SessionBook | None:
        """Where the sessions of all replicas are written down."""
        return PgSessionBook(self.database)

    async def secret(self) -> bytes:
        """What only the replicas know, made by the first of them."""
        return await read_secret(self.database, SEAL)

    async def close(self) -> None:
        """Let go of everything."""
        try:
            await super().close()
        finally:
            await self.database.close()
