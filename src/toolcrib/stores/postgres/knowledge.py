"""The knowledge base in the shared database: a few threads read, one writes."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from toolcrib.core.knowledge import (
    Collection,
    CollectionChange,
    CollectionCounts,
    DocumentFilter,
    DocumentInfo,
    DocumentText,
    Embedding,
    KnowledgeReader,
    Merging,
    Passage,
    SegmentRecord,
    SegmentRows,
    Stamp,
    Swap,
)
from toolcrib.search.hybrid import Segment
from toolcrib.stores.postgres.database import StoreSettings, connect
from toolcrib.stores.postgres.kb_desk import QueryThreads, unusable
from toolcrib.stores.postgres.kb_index import PgIndex
from toolcrib.stores.postgres.kb_reading import PgReader
from toolcrib.stores.postgres.kb_rows import PostingRow, whole_postings
from toolcrib.stores.postgres.kb_writing import PgJobs, PgWriter

if TYPE_CHECKING:
    from psycopg import Connection

T = TypeVar("T")
Row = tuple[int, int]

READERS = 4
ATTEMPTS = 5
"""To bring in a document that another worker brings in at the same moment."""
_TURN = "hashtextextended('toolcrib kb vectors ' || %s, 0)"


class PgKnowledge:
    """A knowledge base that replicas share; nothing is opened before the first use."""

    def __init__(self, settings: StoreSettings) -> None:
        self.settings, self.fleet = settings, settings.name
        readers = max(1, min(READERS, settings.pool))
        self._reader = QueryThreads(settings, readers, is_reader=True)
        self._writer = QueryThreads(settings, 1, is_reader=False)
        self.remote = PgIndex(self._reader, self._writer, self.fleet)
        self.jobs = PgJobs(QueryThreads(settings, 1, is_reader=False), self.fleet)
        self._turn: Connection[Any] | None = None

    async def _read(self, work: Callable[[PgReader], T]) -> T:
        return await self._reader.do(lambda connection: work(PgReader(connection, self.fleet)))

    async def _write(self, work: Callable[[PgWriter], T]) -> T:
        return await self._writer.do(lambda connection: _persist(work, PgWriter(connection, self.fleet)))

    async def generation(self) -> int:
        """The number of the last change, by whichever process."""
        return await self._reader.do(lambda connection: PgReader(connection, self.fleet).generation(), is_single=True)

    async def consult(self, work: Callable[[KnowledgeReader], T]) -> T:
        """Read several things as they are at one moment; a few may do so at once."""
        return await self._read(work)

    async def collections(self) -> list[Collection]:
        """All collections, by id."""
        return await self._read(PgReader.collections)

    async def put_collection(self, collection: Collection) -> None:
        """Make it, or change what is said of it."""
        await self._write(lambda writer: writer.put_collection(collection))

    async def remove_collection(self, collection: str) -> bool:
        """Take it away with everything in it."""
        is_gone = await self._write(lambda writer: writer.remove_collection(collection))
        await self.remote.tidy(collection)
        return is_gone

    async def apply(self, change: CollectionChange) -> int:
        """Carry out a change as a whole."""
        return await self._write(lambda writer: writer.apply(change))

    async def restamp(self, stamps: Mapping[str, Stamp]) -> None:
        """Remember newer cheap signs."""
        await self._write(lambda writer: writer.restamp(stamps))

    async def stamps(self, collection: str) -> dict[str, tuple[str, Stamp]]:
        """Source → document id and stamp."""
        return await self._read(lambda reader: reader.stamps(collection))

    async def documents(self, collection: str) -> list[DocumentInfo]:
        """All documents of a collection."""
        return await self._read(lambda reader: reader.documents(collection))

    async def document(self, document: str) -> DocumentInfo | None:
        """One document by its id."""
        return await self._read(lambda reader: reader.document(document))

    async def documents_of(self, keys: Iterable[int]) -> dict[int, DocumentInfo]:
        """Documents by key."""
        return await self._read(lambda reader: reader.documents_of(keys))

    async def text(self, document: str) -> DocumentText | None:
        """A document's text."""
        return await self._read(lambda reader: reader.text(document))

    async def texts_of(self, keys: Iterable[int]) -> dict[int, str]:
        """Texts of documents by key."""
        return await self._read(lambda reader: reader.texts_of(keys))

    async def passages(self, document: str) -> list[Passage]:
        """A document's passages in order."""
        return await self._read(lambda reader: reader.passages(document))

    async def passages_at(self, rows: Iterable[Row]) -> dict[Row, Passage]:
        """Passages by document key and ordinal."""
        return await self._read(lambda reader: reader.passages_at(rows))

    async def keys(self, collections: Sequence[str], wanted: DocumentFilter) -> set[int]:
        """The documents a filter lets pass."""
        return await self._read(lambda reader: reader.keys(collections, wanted))

    async def segments(self, collections: Sequence[str] | None = None) -> list[SegmentRecord]:
        """The blocks of these collections, or of all."""
        return await self._read(lambda reader: reader.segments(collections))

    async def segment_bytes(self, segment: int) -> bytes | None:
        """The words of a block, as they were indexed; its vectors stay where they are."""
        return await self._read(lambda reader: _whole(reader, segment))

    async def segment_rows(self, segment: int) -> SegmentRows:
        """What is alive in a block."""
        return await self._read(lambda reader: _alive(reader, segment))

    async def merge(self, merging: Merging) -> bool:
        """Put one block in place of several."""
        return await self._write(lambda writer: writer.merge(merging))

    async def incomplete(self) -> list[str]:
        """Collections that lack vectors, or get others."""
        return await self._read(PgReader.incomplete)

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
            await asyncio.to_thread(turn.close)

    async def waiting(self, collection: str, limit: int, after: Row = (0, -1)) -> list[Row]:
        """Passages that need vectors and have none yet."""
        return await self._read(lambda reader: reader.waiting(collection, limit, after))

    async def stage(self, collection: str, expected: Embedding | None, vectors: Mapping[Row, bytes]) -> bool:
        """Put vectors aside."""
        return await self._write(lambda writer: writer.stage(collection, expected, vectors))

    async def staged(self, rows: Iterable[Row]) -> dict[Row, bytes]:
        """The vectors that were put aside."""
        return await self._read(lambda reader: reader.staged(rows))

    async def swap(self, swap: Swap) -> bool:
        """What was put aside counts from now on; blocks have no part in it."""
        return await self.remote.settle(swap.collection, swap.expected, swap.embedding)

    async def counts(self, collection: str) -> CollectionCounts:
        """How much a collection holds."""
        return await self._read(lambda reader: reader.counts(collection))

    async def verify(self) -> list[str]:
        """What is not as it should be."""
        return await self._read(PgReader.verify)

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


def _whole(reader: PgReader, number: int) -> bytes | None:
    block = reader.block(number)
    if block is None:
        return None
    statement = "SELECT terms, ends, held FROM toolcrib.kb_posting WHERE fleet = %s AND block = %s ORDER BY first"
    rows = [PostingRow(*row) for row in reader.rows(statement, (reader.fleet, number))]
    return Segment(whole_postings(block, rows), None).to_bytes()


def _alive(reader: PgReader, number: int) -> SegmentRows:
    block = reader.block(number)
    return SegmentRows() if block is None else block.rows(reader.dead(block.collection))


def _take_turn(settings: StoreSettings) -> "Connection[Any] | None":
    import psycopg

    try:
        connection = connect(settings)
        found = connection.execute(f"SELECT pg_try_advisory_lock({_TURN})".encode(), (settings.name,)).fetchone()
    except (psycopg.Error, OSError) as error:
        raise unusable(error) from error
    if found is not None and found[0]:
        return connection
    connection.close()
    return None
