"""The knowledge base in the shared database: a few threads read, one writes."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from toolcrib.core.knowledge import Swap
from toolcrib.stores.knowledge.store import ThreadedKnowledge
from toolcrib.stores.postgres.database import StoreSettings, connect
from toolcrib.stores.postgres.kb_desk import QueryThreads, unusable
from toolcrib.stores.postgres.kb_index import PgIndex, try_lock, unlock
from toolcrib.stores.postgres.kb_reading import PgReader
from toolcrib.stores.postgres.kb_writing import PgJobs, PgWriter

if TYPE_CHECKING:
    from psycopg import Connection

T = TypeVar("T")

READERS = 4
ATTEMPTS = 5
"""To bring in a document that another worker brings in at the same moment."""


class PgKnowledge(ThreadedKnowledge[PgReader, PgWriter]):
    """A knowledge base that replicas share; nothing is opened before the first use."""

    def __init__(self, settings: StoreSettings) -> None:
        self.settings, self.fleet = settings, settings.name
        readers = max(1, min(READERS, settings.pool))
        self._reader = QueryThreads(settings, readers, is_reader=True)
        self._writer = QueryThreads(settings, 1, is_reader=False)
        self.remote: PgIndex = PgIndex(self._reader, self._writer, self.fleet)
        self.jobs: PgJobs = PgJobs(QueryThreads(settings, 1, is_reader=False), self.fleet)
        self._turn: Connection[Any] | None = None

    async def _read(self, work: Callable[[PgReader], T]) -> T:
        return await self._reader.do(lambda connection: work(PgReader(connection, self.fleet)))

    async def _write(self, work: Callable[[PgWriter], T]) -> T:
        return await self._writer.do(lambda connection: _persist(work, PgWriter(connection, self.fleet)))

    async def generation(self) -> int:
        """One statement is of one moment without a transaction, which would be two more round trips."""
        return await self._reader.do(lambda connection: PgReader(connection, self.fleet).generation(), is_single=True)

    async def remove_collection(self, collection: str) -> bool:
        """Take it away with everything in it, vectors last."""
        is_gone = await super().remove_collection(collection)
        await self.remote.tidy(collection)
        return is_gone

    async def swap(self, swap: Swap) -> bool:
        """What was put aside counts from now on; blocks have no part in it."""
        return await self.remote.settle(swap.collection, swap.expected, swap.embedding)

    async def take_turn(self) -> bool:
        """Be the only one who makes vectors, by a lock that ends with the connection."""
        if self._turn is not None:
            return False
        self._turn = await asyncio.to_thread(_take_turn, self.settings)
        return self._turn is not None

    async def end_turn(self) -> None:
        """Let the next one make vectors."""
        turn, self._turn = self._turn, None
        if turn is not None:
            await asyncio.to_thread(_end_turn, turn, self.settings)

    async def close(self) -> None:
        """Let go of all connections."""
        await self.end_turn()
        await self._reader.close()
        await self._writer.close()
        await self.jobs.close()


def _persist(work: Callable[[PgWriter], T], writer: PgWriter) -> T:
    """Again, if another worker was in the way: what it did is there by then."""
    from psycopg import errors

    for _ in range(ATTEMPTS - 1):
        try:
            return work(writer)
        except (errors.UniqueViolation, errors.DeadlockDetected, errors.SerializationFailure):
            writer.is_alone = True
    return work(writer)


def _turn_of(settings: StoreSettings) -> str:
    return f"toolcrib kb vectors {settings.name}"


def _end_turn(connection: "Connection[Any]", settings: StoreSettings) -> None:
    """Unlocked by word: the engine notices only some time later that a connection was closed."""
    import psycopg

    try:
        unlock(connection, _turn_of(settings))
    except (psycopg.Error, OSError):
        pass  # the connection is gone, and the lock with it
    finally:
        connection.close()


def _take_turn(settings: StoreSettings) -> "Connection[Any] | None":
    import psycopg

    try:
        connection = connect(settings)
        if try_lock(connection, _turn_of(settings)):
            return connection
    except (psycopg.Error, OSError) as error:
        raise unusable(error) from error
    connection.close()
    return None
