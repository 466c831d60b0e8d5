"""The knowledge base behind threads that read and one that writes; and the one on disk."""

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from toolcrib.core.knowledge import (
    Collection,
    CollectionChange,
    CollectionCounts,
    DocumentInfo,
    DocumentText,
    Embedding,
    JobQueue,
    KnowledgeReader,
    Merging,
    Passage,
    RemoteIndex,
    SegmentRecord,
    SegmentRows,
    Stamp,
    Swap,
)
from toolcrib.stores.files import try_lock
from toolcrib.stores.knowledge.database import FORMAT, SqliteWriter
from toolcrib.stores.knowledge.reading import SqliteReader
from toolcrib.stores.sqlite_file import FileThread

Row = tuple[int, int]
"""A document's key and the ordinal of a passage."""


class _Reads(KnowledgeReader, Protocol):
    def collections(self) -> list[Collection]: ...
    def stamps(self, collection: str) -> dict[str, tuple[str, Stamp]]: ...
    def documents(self, collection: str) -> list[DocumentInfo]: ...
    def document(self, document: str) -> DocumentInfo | None: ...
    def text(self, document: str) -> DocumentText | None: ...
    def passages(self, document: str) -> list[Passage]: ...
    def segments(self, collections: Sequence[str] | None) -> list[SegmentRecord]: ...
    def segment_bytes(self, segment: int) -> bytes | None: ...
    def segment_rows(self, segment: int) -> SegmentRows: ...
    def incomplete(self) -> list[str]: ...
    def waiting(self, collection: str, limit: int, after: Row) -> list[Row]: ...
    def staged(self, rows: Iterable[Row]) -> dict[Row, bytes]: ...
    def counts(self, collection: str) -> CollectionCounts: ...
    def verify(self) -> list[str]: ...


class _Writes(Protocol):
    def put_collection(self, collection: Collection) -> None: ...
    def remove_collection(self, collection: str) -> bool: ...
    def apply(self, change: CollectionChange) -> int: ...
    def restamp(self, stamps: Mapping[str, Stamp]) -> None: ...
    def merge(self, merging: Merging) -> bool: ...
    def stage(self, collection: str, expected: Embedding | None, vectors: Mapping[Row, bytes]) -> bool: ...


T = TypeVar("T")
R = TypeVar("R", bound=_Reads)
W = TypeVar("W", bound=_Writes)


class ThreadedKnowledge(ABC, Generic[R, W]):
    """A ``KnowledgeStore`` whose statements an engine has: what it reads as ``R``, what it changes as ``W``."""

    remote: RemoteIndex | None = None
    jobs: JobQueue | None = None

    @abstractmethod
    async def _read(self, work: Callable[[R], T]) -> T:
        """Have something read beside the event loop, as it is at one moment."""

    @abstractmethod
    async def _write(self, work: Callable[[W], T]) -> T:
        """Have something changed beside the event loop."""

    async def generation(self) -> int:
        """The number of the last change, by whichever process."""
        return await self._read(lambda reader: reader.generation())

    async def consult(self, work: Callable[[KnowledgeReader], T]) -> T:
        """Read several things in one go."""
        return await self._read(work)

    async def collections(self) -> list[Collection]:
        """All collections, by id."""
        return await self._read(lambda reader: reader.collections())

    async def put_collection(self, collection: Collection) -> None:
        """Make it, or change what is said of it."""
        await self._write(lambda writer: writer.put_collection(collection))

    async def remove_collection(self, collection: str) -> bool:
        """Take it away with everything in it."""
        return await self._write(lambda writer: writer.remove_collection(collection))

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

    async def text(self, document: str) -> DocumentText | None:
        """A document's text."""
        return await self._read(lambda reader: reader.text(document))

    async def passages(self, document: str) -> list[Passage]:
        """A document's passages in order."""
        return await self._read(lambda reader: reader.passages(document))

    async def segments(self, collections: Sequence[str] | None = None) -> list[SegmentRecord]:
        """The segments of these collections, or of all."""
        return await self._read(lambda reader: reader.segments(collections))

    async def segment_bytes(self, segment: int) -> bytes | None:
        """A segment's index."""
        return await self._read(lambda reader: reader.segment_bytes(segment))

    async def segment_rows(self, segment: int) -> SegmentRows:
        """What is alive in a segment."""
        return await self._read(lambda reader: reader.segment_rows(segment))

    async def merge(self, merging: Merging) -> bool:
        """Put one segment in place of several."""
        return await self._write(lambda writer: writer.merge(merging))

    async def incomplete(self) -> list[str]:
        """Collections that lack vectors, or get others."""
        return await self._read(lambda reader: reader.incomplete())

    async def waiting(self, collection: str, limit: int, after: Row = (0, -1)) -> list[Row]:
        """Passages that need vectors and have none yet."""
        return await self._read(lambda reader: reader.waiting(collection, limit, after))

    async def stage(self, collection: str, expected: Embedding | None, vectors: Mapping[Row, bytes]) -> bool:
        """Put vectors aside."""
        return await self._write(lambda writer: writer.stage(collection, expected, vectors))

    async def staged(self, rows: Iterable[Row]) -> dict[Row, bytes]:
        """The vectors that were put aside."""
        return await self._read(lambda reader: reader.staged(rows))

    async def counts(self, collection: str) -> CollectionCounts:
        """How much a collection holds."""
        return await self._read(lambda reader: reader.counts(collection))

    async def verify(self) -> list[str]:
        """What is not as it should be."""
        return await self._read(lambda reader: reader.verify())


class SqliteKnowledge(ThreadedKnowledge[SqliteReader, SqliteWriter]):
    """A knowledge base in one file, with a thread that writes and one that reads; opened at the first use."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reader, self._writer = FileThread(path, FORMAT), FileThread(path, FORMAT)
        self._turn: int | None = None

    async def _read(self, work: Callable[[SqliteReader], T]) -> T:
        return await self._reader.do(lambda connection: work(SqliteReader(connection)))

    async def _write(self, work: Callable[[SqliteWriter], T]) -> T:
        return await self._writer.do(lambda connection: work(SqliteWriter(connection)))

    async def swap(self, swap: Swap) -> bool:
        """Bring staged vectors into the index."""
        return await self._write(lambda writer: writer.swap(swap))

    async def take_turn(self) -> bool:
        """Be the only one who makes vectors, by a lock that ends with the process."""
        if self._turn is None:
            await self.generation()  # makes the folder, if need be
            self._turn = await asyncio.to_thread(try_lock, self.path)
            return self._turn is not None
        return False

    async def end_turn(self) -> None:
        """Let the next one make vectors."""
        if self._turn is not None:
            os.close(self._turn)
            self._turn = None

    async def quick_check(self) -> list[str]:
        """Whether the file itself is sound, without looking at what is in it."""
        return await self._read(SqliteReader.quick_check)

    async def close(self) -> None:
        """Let go of the file."""
        await self.end_turn()
        await self._reader.close()
        await self._writer.close()
