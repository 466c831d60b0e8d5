"""Everything that is kept, in the shared database; with Redis, replicas agree through that instead."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from toolcrib.config.lock import LockStore
from toolcrib.config.model import Config
from toolcrib.config.secrets import shown_url
from toolcrib.core.coordination import Coordination, SessionBook
from toolcrib.core.knowledge import KnowledgeStore
from toolcrib.core.worklist import WorkList
from toolcrib.stores.access_tokens import TokenBook
from toolcrib.stores.audit.log import AuditPlace
from toolcrib.stores.local import SEAL, Backend, utc_now
from toolcrib.stores.paths import Environment
from toolcrib.stores.postgres.audit import AuditTable
from toolcrib.stores.postgres.coordination import (
    PgEpochMemory,
    PgSessionBook,
    open_postgres_coordination,
    read_secret,
)
from toolcrib.stores.postgres.database import PgDatabase, StoreSettings
from toolcrib.stores.postgres.knowledge import PgKnowledge
from toolcrib.stores.postgres.lock import PgLedger
from toolcrib.stores.postgres.migrate import need_current
from toolcrib.stores.postgres.tokens import PgTokens
from toolcrib.stores.postgres.worklist import PgWorkList
from toolcrib.stores.redis.engine import open_redis_coordination

if TYPE_CHECKING:
    from toolcrib.stores.local import FindRedis


class PostgresBackend(Backend):
    """What replicas share is in PostgreSQL; large results stay here, and are read by others through coordination."""

    def __init__(
        self, config: Config, around: Environment, settings: StoreSettings, find_redis: "FindRedis" = lambda: None
    ) -> None:
        super().__init__(config, around, find_redis)
        self.settings, self.database = settings, PgDatabase(settings)
        self.place, self.look = shown_url(settings.url), self._look

    async def _look(self) -> None:
        await self.database.quick_rows("SELECT 1")

    async def reach_store(self) -> None:
        """A database that is not up to date is an error."""
        await need_current(self.database)

    async def _coordinate(self) -> Coordination | None:
        """While Redis is away nobody else counts in its place: two who count are two limits."""
        if (redis := self._find_redis()) is not None:
            return await open_redis_coordination(redis, memory=PgEpochMemory(self.database, "redis"))
        return await open_postgres_coordination(self.database)

    def lock(self, path: Path | None) -> LockStore | None:
        """The same lock for every replica, whatever file a project has."""
        del path
        return PgLedger(self.database)

    def tokens(self, now: Callable[[], float]) -> TokenBook:
        """The tokens that were given to others."""
        return PgTokens(self.settings, now)

    def audit(self) -> AuditPlace:
        """One log for all replicas."""
        return AuditTable(self.settings, self.place)

    def knowledge(self) -> KnowledgeStore:
        """In the file that is named, if one is."""
        return super().knowledge() if self.config.kb.path else PgKnowledge(self.settings)

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
