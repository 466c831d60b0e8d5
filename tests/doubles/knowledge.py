"""A knowledge base in memory: the reference that every other engine is held to."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TypeVar

from msgspec.structs import replace

from toolcrib.core.errors import UnknownCollection
from toolcrib.core.knowledge import (
    Arrival,
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
    passages_of,
    text_check,
)
from toolcrib.stores.knowledge.reading import has_metadata

T = TypeVar("T")
Row = tuple[int, int]
"""A document's key and the ordinal of a passage."""


@dataclass(slots=True)
class _Segment:
    record: SegmentRecord
    encoded: bytes
    rows: list[Row]


class MemoryKnowledge:
    """Everything in dictionaries, gone with the process."""

    remote = None
    jobs = None

    def __init__(self) -> None:
        self._generation = 1
        self._collections: dict[str, Collection] = {}
        self._arrivals: dict[int, Arrival] = {}
        self._keys: dict[str, int] = {}
        self._segments: dict[int, _Segment] = {}
        self._numbers = count(1)
        self._staged: dict[Row, bytes] = {}
        self._lacking: set[int] = set()
        self._is_turn_taken = False

    async def generation(self) -> int:
        """The number of the last change."""
        return self._generation

    async def consult(self, work: Callable[[KnowledgeReader], T]) -> T:
        """Nothing here waits, so there is no other thread to go to."""
        return work(_Reader(self._generation, self._arrivals))

    async def collections(self) -> list[Collection]:
        """All collections, by id."""
        return [self._collections[name] for name in sorted(self._collections)]

    async def put_collection(self, collection: Collection) -> None:
        """Make it, or change what is said of it."""
        self._generation += 1
        known = self._collections.get(collection.id)
        if known is not None and known.coming != collection.coming:
            self._staged = {row: kept for row, kept in self._staged.items() if not self._is_in(row, collection.id)}
        named = replace(collection, name=collection.name or collection.id)
        self._collections[collection.id] = replace(named, created=known.created) if known else named

    async def remove_collection(self, collection: str) -> bool:
        """Take it away with everything in it."""
        self._generation += 1
        for document in [each for each in self._documents() if each.collection == collection]:
            self._remove(document.id)
        self._segments = {
            number: segment for number, segment in self._segments.items() if segment.record.collection != collection
        }
        return self._collections.pop(collection, None) is not None

    async def apply(self, change: CollectionChange) -> int:
        """Carry out a change as a whole."""
        if change.collection not in self._collections:
            raise UnknownCollection(change.collection, known=list(self._collections))
        self._generation += 1
        for document in (*change.removals, *(arrival.document.id for arrival in change.arrivals)):
            self._remove(document)
        rows = [row for arrival in change.arrivals for row in self._add(arrival)]
        if change.segment:
            self._lacking |= {key for key, _ in rows} if change.is_lacking else set()
            self._add_segment(change.collection, 0, rows, change.segment)
        return self._generation

    def _remove(self, document: str) -> None:
        key = self._keys.pop(document, None)
        if key is None:
            return
        del self._arrivals[key]
        self._lacking.discard(key)
        self._staged = {row: vector for row, vector in self._staged.items() if row[0] != key}
        for segment in self._segments.values():
            if any(row[0] == key for row in segment.rows):
                segment.record = replace(segment.record, changed=self._generation)

    def _add(self, arrival: Arrival) -> list[Row]:
        key = next(self._numbers)
        self._arrivals[key] = replace(arrival, document=replace(arrival.document, key=key))
        self._keys[arrival.document.id] = key
        return [(key, ordinal) for ordinal in range(len(arrival.places))]

    def _add_segment(self, collection: str, level: int, rows: Sequence[Row], encoded: bytes) -> None:
        record = SegmentRecord(next(self._numbers), collection, level, len(rows), self._generation)
        self._segments[record.id] = _Segment(record, encoded, list(rows))

    async def restamp(self, stamps: Mapping[str, Stamp]) -> None:
        """Remember newer cheap signs."""
        for document, stamp in stamps.items():
            arrival = self._arrivals.get(self._keys.get(document, 0))
            if arrival is not None and arrival.document.stamp.hash == stamp.hash:
                kept = replace(arrival.document, stamp=stamp)
                self._arrivals[kept.key] = replace(arrival, document=kept)

    def _documents(self) -> Iterable[DocumentInfo]:
        return [arrival.document for arrival in self._arrivals.values()]

    async def stamps(self, collection: str) -> dict[str, tuple[str, Stamp]]:
        """Source → document id and stamp."""
        return {each.source: (each.id, each.stamp) for each in await self.documents(collection)}

    async def documents(self, collection: str) -> list[DocumentInfo]:
        """All documents of a collection."""
        found = [each for each in self._documents() if each.collection == collection]
        return sorted(found, key=lambda each: each.source)

    async def document(self, document: str) -> DocumentInfo | None:
        """One document by its id."""
        key = self._keys.get(document)
        return None if key is None else self._arrivals[key].document

    async def text(self, document: str) -> DocumentText | None:
        """A document's text."""
        key = self._keys.get(document)
        return None if key is None else DocumentText(self._arrivals[key].text, self._arrivals[key].outline)

    async def passages(self, document: str) -> list[Passage]:
        """A document's passages in order."""
        key = self._keys.get(document)
        return [] if key is None else passages_of(self._arrivals[key])

    async def segments(self, collections: Sequence[str] | None = None) -> list[SegmentRecord]:
        """The segments of these collections, or of all."""
        records = [segment.record for segment in self._segments.values()]
        return [record for record in records if collections is None or record.collection in collections]

    async def segment_bytes(self, segment: int) -> bytes | None:
        """A segment's index."""
        found = self._segments.get(segment)
        return None if found is None else found.encoded

    async def segment_rows(self, segment: int) -> SegmentRows:
        """What is alive in a segment."""
        found = self._segments.get(segment)
        alive = [
            (at, key, ordinal, place.start, place.end)
            for at, (key, ordinal) in enumerate(found.rows if found else ())
            if key in self._arrivals
            for place in [self._arrivals[key].places[ordinal]]
        ]
        return SegmentRows(*zip(*alive, strict=True)) if alive else SegmentRows()

    async def merge(self, merging: Merging) -> bool:
        """Put one segment in place of several."""
        for record in merging.replaced:
            if record.id not in self._segments or self._segments[record.id].record.changed != record.changed:
                return False
        self._generation += 1
        self._merge(merging)
        return True

    def _merge(self, merging: Merging) -> None:
        for record in merging.replaced:
            del self._segments[record.id]
        if merging.rows:
            self._add_segment(merging.collection, merging.level, merging.rows, merging.segment)

    def _is_in(self, row: Row, collection: str) -> bool:
        return row[0] in self._arrivals and self._arrivals[row[0]].document.collection == collection

    def _waiting(self, collection: str) -> list[Row]:
        known = self._collections.get(collection)
        rows = ((key, ordinal) for key, held in self._arrivals.items() for ordinal in range(len(held.places)))
        return [
            row
            for row in sorted(rows)
            if known is not None
            and self._is_in(row, collection)
            and (known.coming is not None or row[0] in self._lacking)
            and row not in self._staged
        ]

    async def incomplete(self) -> list[str]:
        """Collections that lack vectors, or get others."""
        lacking = {self._arrivals[key].document.collection for key in self._lacking}
        return [each.id for each in await self.collections() if each.coming is not None or each.id in lacking]

    async def take_turn(self) -> bool:
        """Be the only one who makes vectors."""
        is_free, self._is_turn_taken = not self._is_turn_taken, True
        return is_free

    async def end_turn(self) -> None:
        """Let the next one make vectors."""
        self._is_turn_taken = False

    async def waiting(self, collection: str, limit: int, after: Row = (0, -1)) -> list[Row]:
        """Passages that need vectors and have none staged."""
        return [row for row in self._waiting(collection) if row > after][:limit]

    async def stage(self, collection: str, expected: Embedding | None, vectors: Mapping[Row, bytes]) -> bool:
        """Put vectors aside."""
        if self._collections[collection].coming != expected:
            return False
        self._staged |= {
            row: vector
            for row, vector in vectors.items()
            if row[0] in self._arrivals and row[1] < len(self._arrivals[row[0]].places)
        }
        return True

    async def staged(self, rows: Iterable[Row]) -> dict[Row, bytes]:
        """The vectors that were put aside."""
        return {row: self._staged[row] for row in rows if row in self._staged}

    async def swap(self, swap: Swap) -> bool:
        """Bring staged vectors into the index."""
        replaced = {record.id: record for merging in swap.mergings for record in merging.replaced}
        known = {number: each.record for number, each in self._segments.items()}
        ours = {number for number, record in known.items() if record.collection == swap.collection}
        is_coming = self._collections[swap.collection].coming == swap.expected
        is_same = all(number in known and known[number] == record for number, record in replaced.items())
        if not is_coming or not is_same or (swap.expected is not None and ours != set(replaced)):
            return False
        self._generation += 1
        for merging in swap.mergings:
            self._merge(merging)
        self._settle(swap)
        return True

    def _settle(self, swap: Swap) -> None:
        now, filled = swap.embedding, set(swap.filled)
        self._staged = {row: vector for row, vector in self._staged.items() if row[0] not in filled}
        self._lacking -= filled
        self._collections[swap.collection] = replace(
            self._collections[swap.collection],
            embedder=now.model,
            dimensions=now.dimensions,
            embedder_name=now.name,
            coming=None,
        )

    async def counts(self, collection: str) -> CollectionCounts:
        """How much a collection holds."""
        held = [each for each in self._arrivals.values() if each.document.collection == collection]
        parts = [segment for segment in self._segments.values() if segment.record.collection == collection]
        passages = sum(row[0] in self._arrivals for segment in parts for row in segment.rows)
        return CollectionCounts(
            documents=len(held),
            passages=passages,
            characters=sum(len(each.text) for each in held),
            segments=len(parts),
            index_bytes=sum(len(segment.encoded) for segment in parts),
            dead_passages=sum(segment.record.size for segment in parts) - passages,
            types=dict(sorted(Counter(each.document.type for each in held).items())),
            newest=max((each.document.added for each in held), default=""),
            waiting=len(self._waiting(collection)),
            lacking=sum(len(each.places) for each in held if each.document.key in self._lacking),
        )

    async def verify(self) -> list[str]:
        """What is not as it should be."""
        return [
            f"{arrival.document.source}: the text is not the one that was indexed."
            for arrival in self._arrivals.values()
            if any(text_check(arrival.text[p.place.start : p.place.end]) != p.check for p in passages_of(arrival))
        ]

    async def close(self) -> None:
        """There is nothing to let go of."""


class _Reader:
    """A ``KnowledgeReader`` over the dictionaries."""

    def __init__(self, generation: int, arrivals: Mapping[int, Arrival]) -> None:
        self._generation, self._arrivals = generation, arrivals

    def generation(self) -> int:
        return self._generation

    def documents_of(self, keys: Iterable[int]) -> dict[int, DocumentInfo]:
        return {key: self._arrivals[key].document for key in sorted(keys) if key in self._arrivals}

    def texts_of(self, keys: Iterable[int]) -> dict[int, str]:
        return {key: self._arrivals[key].text for key in sorted(keys) if key in self._arrivals}

    def passages_at(self, rows: Iterable[Row]) -> dict[Row, Passage]:
        return {row: passages_of(self._arrivals[row[0]])[row[1]] for row in rows if row[0] in self._arrivals}

    def keys(self, collections: Sequence[str], wanted: DocumentFilter) -> set[int]:
        documents = [arrival.document for arrival in self._arrivals.values()]
        return {each.key for each in documents if each.collection in collections and _passes(each, wanted)}


def _passes(document: DocumentInfo, wanted: DocumentFilter) -> bool:
    if wanted.types and document.type not in wanted.types:
        return False
    if wanted.since and document.date < wanted.since:
        return False
    if wanted.until and (not document.date or document.date > wanted.until):
        return False
    return has_metadata(dict(document.metadata), wanted)
