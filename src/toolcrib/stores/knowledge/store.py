"""The knowledge base on disk: one thread writes, one reads, each with a connection of its own."""

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from toolcrib.core.errors import ToolcribError
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
from toolcrib.stores.files import try_lock
from toolcrib.stores.knowledge import reading
from toolcrib.stores.knowledge.database import FORMAT, KnowledgeDatabase
from toolcrib.stores.sqlite_file import unusable

if TYPE_CHECKING:
    from apsw import Connection

P = ParamSpec("P")
T = TypeVar("T")


class SqliteKnowledge:
    """A knowledge base in one file; nothing is opened before the first use."""

    remote = None
    jobs = None

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reader, self._writer = _Desk(path), _Desk(path)
        self._turn: int | None = None

    async def _read(self, work: "Callable[Concatenate[Connection, P], T]", *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._reader.do(lambda database: work(database.connection, *args, **kwargs))

    async def generation(self) -> int:
        """The number of the last change, by whichever process."""
        return await self._read(reading.generation)

    async def consult(self, work: Callable[[KnowledgeReader], T]) -> T:
        """Read several things in one go, in the thread that reads."""
        return await self._read(lambda connection: work(reading.SqliteReader(connection)))

    async def collections(self) -> list[Collection]:
        """All collections, by id."""
        return await self._read(reading.collections)

    async def put_collection(self, collection: Collection) -> None:
        """Make it, or change what is said of it."""
        await self._writer.do(lambda database: database.put_collection(collection))

    async def remove_collection(self, collection: str) -> bool:
        """Take it away with everything in it."""
        return await self._writer.do(lambda database: database.remove_collection(collection))

    async def apply(self, change: CollectionChange) -> int:
        """Carry out a change as a whole."""
        return await self._writer.do(lambda database: database.apply(change))

    async def restamp(self, stamps: Mapping[str, Stamp]) -> None:
        """Remember newer cheap signs."""
        await self._writer.do(lambda database: database.restamp(stamps))

    async def stamps(self, collection: str) -> dict[str, tuple[str, Stamp]]:
        """Source → document id and stamp."""
        return await self._read(reading.stamps, collection)

    async def documents(self, collection: str) -> list[DocumentInfo]:
        """All documents of a collection."""
        return await self._read(reading.documents, collection)

    async def document(self, document: str) -> DocumentInfo | None:
        """One document by its id."""
        return await self._read(reading.document, document)

    async def documents_of(self, keys: Iterable[int]) -> dict[int, DocumentInfo]:
        """Documents by key."""
        return await self._read(reading.documents_of, keys)

    async def text(self, document: str) -> DocumentText | None:
        """A document's text."""
        return await self._read(reading.text, document)

    async def texts_of(self, keys: Iterable[int]) -> dict[int, str]:
        """Texts of documents by key."""
        return await self._read(reading.texts_of, keys)

    async def passages(self, document: str) -> list[Passage]:
        """A document's passages in order."""
        return await self._read(reading.passages, document)

    async def passages_at(self, rows: Iterable[tuple[int, int]]) -> dict[tuple[int, int], Passage]:
        """Passages by document key and ordinal."""
        return await self._read(reading.passages_at, rows)

    async def keys(self, collections: Sequence[str], wanted: DocumentFilter) -> set[int]:
        """The documents a filter lets pass."""
        return await self._read(reading.keys, collections, wanted)

    async def segments(self, collections: Sequence[str] | None = None) -> list[SegmentRecord]:
        """The segments of these collections, or of all."""
        return await self._read(reading.segments, collections)

    async def segment_bytes(self, segment: int) -> bytes | None:
        """A segment's index."""
        return await self._read(reading.segment_bytes, segment)

    async def segment_rows(self, segment: int) -> SegmentRows:
        """What is alive in a segment."""
        return await self._read(reading.segment_rows, segment)

    async def merge(self, merging: Merging) -> bool:
        """Put one segment in place of several."""
        return await self._writer.do(lambda database: database.merge(merging))

    async def incomplete(self) -> list[str]:
        """Collections that lack vectors, or get others."""
        return await self._read(reading.incomplete)

    async def take_turn(self) -> bool:
        """Be the only one who makes vectors, by a lock that ends with the process."""
        if self._turn is None:
            await self._read(reading.generation)  # makes the folder, if need be
            self._turn = await asyncio.to_thread(try_lock, self.path)
            return self._turn is not None
        return False

    async def end_turn(self) -> None:
        """Let the next one make vectors."""
        if self._turn is not None:
            os.close(self._turn)
            self._turn = None

    async def waiting(self, collection: str, limit: int, after: tuple[int, int] = (0, -1)) -> list[tuple[int, int]]:
        """Passages that need vectors and have none staged."""
        return await self._read(reading.waiting, collection, limit, after)

    async def stage(
        self, collection: str, expected: Embedding | None, vectors: Mapping[tuple[int, int], bytes]
    ) -> bool:
        """Put vectors aside."""
        return await self._writer.do(lambda database: database.stage(collection, expected, vectors))

    async def staged(self, rows: Iterable[tuple[int, int]]) -> dict[tuple[int, int], bytes]:
        """The vectors that were put aside."""
        return await self._read(reading.staged, rows)

    async def swap(self, swap: Swap) -> bool:
        """Bring staged vectors into the index."""
        return await self._writer.do(lambda database: database.swap(swap))

    async def counts(self, collection: str) -> CollectionCounts:
        """How much a collection holds."""
        return await self._read(reading.counts, collection)

    async def verify(self) -> list[str]:
        """What is not as it should be."""
        return await self._read(reading.verify)

    async def quick_check(self) -> list[str]:
        """Whether the file itself is sound, without looking at what is in it."""
        return await self._read(reading.quick_check)

    async def close(self) -> None:
        """Let go of the file."""
        await self.end_turn()
        await self._reader.close()
        await self._writer.close()


class _Desk:
    """One thread with one connection, opened when it is first needed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread: ThreadPoolExecutor | None = None
        self._database: KnowledgeDatabase | None = None

    async def do(self, work: Callable[[KnowledgeDatabase], T]) -> T:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "toolcrib-kb")
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._do, work)

    def _do(self, work: Callable[[KnowledgeDatabase], T]) -> T:
        try:
            if self._database is None:
                self._database = KnowledgeDatabase(self._path)
            return work(self._database)
        except ToolcribError:
            raise
        except Exception as error:  # the edge of the disk: whatever goes wrong there is told in our words
            self._let_go()
            raise unusable(error, self._path, FORMAT) from error

    async def close(self) -> None:
        if self._thread is None:
            return
        thread, self._thread = self._thread, None
        await asyncio.get_running_loop().run_in_executor(thread, self._let_go)
        thread.shutdown()

    def _let_go(self) -> None:
        if self._database is not None:
            with contextlib.suppress(Exception):  # closing: what was acknowledged is on disk already
                self._database.close()
            self._database = None
