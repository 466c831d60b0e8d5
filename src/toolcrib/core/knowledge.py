"""Documents, the passages they are found by, and where both are kept."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar

import msgspec


class RemoteIndex(Protocol):
    """What a store offers that has one; what comes from ``segment`` goes back into ``elsewhere``."""

    async def segment(self, record: "SegmentRecord") -> Any:
        """What is held here of a segment: how long its passages are; ``None`` if it was merged away meanwhile."""

    async def vectors(self, collections: Sequence[str]) -> Mapping[str, int]:
        """Which set of vectors each collection is searched by."""

    def elsewhere(self, segments: Sequence[Any], alive: Sequence[Any], vectors: Mapping[str, int], size: int) -> Any:
        """How a searcher of these segments looks up words, and meaning if vectors have a size."""

    async def sizes(self, collection: str) -> set[int]:
        """How long the vectors are that were put aside for a collection."""

    async def settle(self, collection: str, expected: "Embedding | None", now: "Embedding") -> bool:
        """Have what was put aside count from now on; not done, and false, if something changed or is missing."""

    async def take_merging(self, collection: str) -> bool:
        """Be the only one who merges segments of a collection; false if another, in whichever process, is at it."""

    async def end_merging(self, collection: str) -> None:
        """Let the next one merge."""

    async def tidy(self, collection: str) -> None:
        """After much was added: have the engine's own indexes follow."""


OWN_COLLECTION = "toolcrib"
"""The collection of toolcrib's own documentation."""


class Job(msgspec.Struct, frozen=True):
    """One source that somebody has taken, and how often that was done."""

    source: str
    what: str
    """How it is read, as whoever put it there wrote it."""
    attempts: int = 1
    worker: str = ""
    """Who has taken it."""
    asked: datetime | None = None
    """When it was put there; who puts it there again asks for more than this."""


class JobBatch(msgspec.Struct, frozen=True):
    """Jobs that are done alike: sources for one collection, with the same said of them."""

    collection: str
    adding: str


class JobQueue(Protocol):
    """Jobs by source; one that was taken comes back when its lease ends without a word."""

    async def put(self, errand: JobBatch, jobs: Mapping[str, str]) -> None:
        """Have sources worked on; one that waits is worked on once, one that was taken is worked on again."""

    async def next(self, collection: str | None, without: Sequence[str]) -> JobBatch | None:
        """What could be taken now, without these sources."""

    async def take(self, worker: str, errand: JobBatch, most: int, without: Sequence[str]) -> list[Job]:
        """Take some that nobody has, oldest first."""

    async def share(self, errand: JobBatch) -> int | None:
        """How many one should work on at a time, so that all finish together; nothing if that does not matter yet."""

    async def keep(self, worker: str) -> None:
        """Go on having what one has."""

    async def give_back(self, worker: str, sources: Sequence[str] | None = None) -> None:
        """Leave these to others, or everything."""

    async def finish(self, collection: str, jobs: Sequence[Job]) -> None:
        """These are done, unless they were asked for again or are with others by now.

        Those that became documents were finished in the same step as they came in.
        """

    async def left(self, errand: JobBatch, worker: str, without: Sequence[str]) -> int:
        """How many wait, or are with others."""


T = TypeVar("T")
MetadataValue = str | int | float | bool | None


class Embedding(msgspec.Struct, frozen=True):
    """Which vectors a collection has: the embedder's name in the configuration, its model, and how long they are."""

    name: str = ""
    model: str = ""
    """Vectors of one model may be compared; empty if there are none."""
    dimensions: int = 0
    """Zero: not known before the first of them is made."""


class Collection(msgspec.Struct, frozen=True):
    """A set of documents that are searched together."""

    id: str
    name: str = ""
    description: str = ""
    metadata: Mapping[str, Any] = {}
    embedder: str = ""
    """Which model its vectors were made with; empty if it has none."""
    dimensions: int = 0
    created: str = ""
    embedder_name: str = ""
    """What the configuration called that model; empty in what an older toolcrib wrote."""
    coming: Embedding | None = None
    """The vectors that are being made to replace these; none if nothing is under way."""

    @property
    def embedding(self) -> Embedding:
        """The vectors it is searched with."""
        return Embedding(self.embedder_name, self.embedder, self.dimensions)


class Stamp(msgspec.Struct, frozen=True):
    """What tells whether a source has changed: first the cheap signs, then the hash of its bytes."""

    hash: str
    size: int = 0
    mtime_ns: int = 0
    """Zero: never take the cheap signs' word."""


class Heading(msgspec.Struct, frozen=True):
    """A title inside a document, and where its part begins."""

    start: int
    level: int
    title: str


class Outline(msgspec.Struct, frozen=True):
    """How a document is built: where its pages begin, and its headings in order."""

    pages: tuple[int, ...] = ()
    headings: tuple[Heading, ...] = ()


PLAIN = Outline()
"""A text without structure."""


class DocumentInfo(msgspec.Struct, frozen=True):
    """What is known of one document besides its text."""

    id: str
    collection: str
    source: str
    """A path, or an address."""
    title: str
    type: str
    stamp: Stamp
    date: str = ""
    """UTC, as ``2026-01-31T12:00:00Z``, so that dates compare as strings."""
    licence: str | None = None
    version: str | None = None
    metadata: Mapping[str, Any] = {}
    added: str = ""
    key: int = 0
    """The store's own number for it; changes when the document does."""


class PassageSpan(msgspec.Struct, frozen=True):
    """Where in a document a passage stands: ``text[start:end]``, in characters."""

    start: int
    end: int
    page: int | None = None
    headings: tuple[str, ...] = ()


class Passage(msgspec.Struct, frozen=True):
    """One piece of a document, of a size to be found and read."""

    document: str
    ordinal: int
    place: PassageSpan
    check: str
    """A short hash of its text, so that a citation notices when the text is another one."""

    @property
    def id(self) -> str:
        """How it is cited."""
        return f"{self.document}-{self.ordinal}-{self.check}"


class DocumentText(msgspec.Struct, frozen=True):
    """A document's text and how it is built."""

    text: str
    outline: Outline = PLAIN


class Arrival(msgspec.Struct, frozen=True):
    """A document as it comes in, cut into passages."""

    document: DocumentInfo
    text: str
    places: tuple[PassageSpan, ...]
    outline: Outline = PLAIN


class CollectionChange(msgspec.Struct, frozen=True):
    """What happens to a collection in one step: all of it, or nothing."""

    collection: str
    arrivals: tuple[Arrival, ...] = ()
    """A document of the same id is replaced."""
    removals: tuple[str, ...] = ()
    """Ids of documents that leave."""
    segment: bytes = b""
    """The index of the arrivals' passages, in their order; empty if there are none."""
    is_lacking: bool = False
    """Whether the arrivals still need vectors."""
    jobs: tuple[Job, ...] = ()
    """Those that are done with it."""


class SegmentRecord(msgspec.Struct, frozen=True):
    """One part of a collection's index, without its bytes."""

    id: int
    collection: str
    level: int
    size: int
    """How many passages it was built from, dead ones included."""
    changed: int
    """The generation in which a passage of it died last."""


class SegmentRows(msgspec.Struct, frozen=True):
    """The passages of a segment that are alive: columns of one table, ordered by position."""

    positions: Sequence[int] = ()
    documents: Sequence[int] = ()
    """Their documents' keys."""
    ordinals: Sequence[int] = ()
    starts: Sequence[int] = ()
    ends: Sequence[int] = ()


class Merging(msgspec.Struct, frozen=True):
    """Segments that become one; ``rows`` gives the passages of the new one in order, as (document key, ordinal)."""

    collection: str
    replaced: tuple[SegmentRecord, ...]
    segment: bytes
    rows: tuple[tuple[int, int], ...]
    level: int


class Swap(msgspec.Struct, frozen=True):
    """New vectors take their place: each merging has one segment with them in place of one without."""

    collection: str
    expected: Embedding | None
    """What is coming must still be this; then all segments must be replaced, or nothing is done."""
    embedding: Embedding
    """What the collection has from now on."""
    mergings: tuple[Merging, ...]
    filled: tuple[int, ...]
    """Keys of the documents that lack vectors no more."""


class DocumentFilter(msgspec.Struct, frozen=True):
    """Which documents are searched; what is empty does not restrict."""

    types: tuple[str, ...] = ()
    since: str = ""
    until: str = ""
    metadata: Mapping[str, MetadataValue] = {}

    @property
    def is_open(self) -> bool:
        """Whether it lets every document pass."""
        return not (self.types or self.since or self.until or self.metadata)


class CollectionCounts(msgspec.Struct, frozen=True):
    """How much a collection holds."""

    documents: int = 0
    passages: int = 0
    characters: int = 0
    segments: int = 0
    index_bytes: int = 0
    dead_passages: int = 0
    types: Mapping[str, int] = {}
    newest: str = ""
    """When a document came in last."""
    waiting: int = 0
    """Passages whose vectors are still to be made."""
    lacking: int = 0
    """Passages of documents that came without vectors, and are not found by them yet."""


class KnowledgeReader(Protocol):
    """What a search reads of a store, one after the other without changing threads; for as long as it is lent."""

    def generation(self) -> int:
        """As the store says it now."""

    def documents_of(self, keys: Iterable[int]) -> dict[int, DocumentInfo]:
        """Documents by key; those that are gone are missing."""

    def texts_of(self, keys: Iterable[int]) -> dict[int, str]:
        """Texts of documents by key; those that are gone are missing."""

    def passages_at(self, rows: Iterable[tuple[int, int]]) -> dict[tuple[int, int], Passage]:
        """Passages by document key and ordinal; those that are gone are missing."""

    def keys(self, collections: Sequence[str], wanted: DocumentFilter) -> set[int]:
        """The documents a filter lets pass."""


class DocumentStore(Protocol):
    """Collections, their documents with texts and passages, and how much there is."""

    async def collections(self) -> list[Collection]:
        """All collections, by id."""

    async def put_collection(self, collection: Collection) -> None:
        """Make it, or change what is said of it; its documents stay. Vectors staged for another embedding go."""

    async def remove_collection(self, collection: str) -> bool:
        """Take it away with everything in it; whether it was there."""

    async def apply(self, change: CollectionChange) -> int:
        """Carry out a change as a whole; the generation it made. Raises ``UnknownCollection``."""

    async def restamp(self, stamps: Mapping[str, Stamp]) -> None:
        """Remember newer cheap signs of documents whose bytes are the same."""

    async def stamps(self, collection: str) -> dict[str, tuple[str, Stamp]]:
        """Source → document id and stamp, of all documents."""

    async def documents(self, collection: str) -> list[DocumentInfo]:
        """All documents of a collection, by source."""

    async def document(self, document: str) -> DocumentInfo | None:
        """One document by its id."""

    async def text(self, document: str) -> DocumentText | None:
        """A document's text."""

    async def passages(self, document: str) -> list[Passage]:
        """A document's passages in order."""

    async def counts(self, collection: str) -> CollectionCounts:
        """How much it holds."""


class SegmentStore(Protocol):
    """The index of passages, in segments that are merged as they grow many."""

    async def segments(self, collections: Sequence[str] | None = None) -> list[SegmentRecord]:
        """The segments of these collections, or of all, in the order they were made."""

    async def segment_bytes(self, segment: int) -> bytes | None:
        """A segment's index; ``None`` if it was merged away meanwhile."""

    async def segment_rows(self, segment: int) -> SegmentRows:
        """Which of a segment's passages are alive, and whose they are."""

    async def merge(self, merging: Merging) -> bool:
        """Put one segment in place of several; not done, and false, if one of them has changed meanwhile."""


class VectorStore(Protocol):
    """Which vectors are missing, and those that were made and wait until all are there."""

    async def incomplete(self) -> list[str]:
        """Collections that lack vectors, or get others; cheap."""

    async def take_turn(self) -> bool:
        """Be the only one who makes vectors for this store; false if another, in whichever process, is at it."""

    async def end_turn(self) -> None:
        """Let the next one make vectors; a process that dies does so, too."""

    async def waiting(self, collection: str, limit: int, after: tuple[int, int] = (0, -1)) -> list[tuple[int, int]]:
        """Passages that need vectors and have none staged, in order, as (document key, ordinal).

        If an embedding is coming, those are all passages, else those of documents that lack vectors.
        """

    async def stage(
        self, collection: str, expected: Embedding | None, vectors: Mapping[tuple[int, int], bytes]
    ) -> bool:
        """Put vectors aside until all are there; not done, and false, if something else is coming meanwhile."""

    async def staged(self, rows: Iterable[tuple[int, int]]) -> dict[tuple[int, int], bytes]:
        """The vectors that were put aside for these passages."""

    async def swap(self, swap: Swap) -> bool:
        """Bring staged vectors into the index in one step; not done, and false, if anything has changed meanwhile."""


class KnowledgeStore(DocumentStore, SegmentStore, VectorStore, Protocol):
    """One store of all of them, which change together. What a method acknowledged survives a power cut."""

    @property
    def remote(self) -> RemoteIndex | None:
        """The index that the engine searches itself; without one, segments are searched in this process."""

    @property
    def jobs(self) -> JobQueue | None:
        """Where sources wait for whoever works on them; without one, who adds them does."""

    async def generation(self) -> int:
        """A number that grows with every change; cheap."""

    async def consult(self, work: Callable[[KnowledgeReader], T]) -> T:
        """Read several things, and compute with them, in one go beside the event loop, as they are at one moment."""

    async def verify(self) -> list[str]:
        """What is not as it should be, in plain words; nothing if all is well."""

    async def close(self) -> None:
        """Let go of everything."""


def document_id(collection: str, source: str) -> str:
    """The same source in the same collection always has the same id."""
    return hashlib.sha256(f"{collection}\0{source}".encode(errors="surrogatepass")).hexdigest()[:16]


_SPACES = bytes(ord(" ") if chr(code).isspace() and code < 128 else code for code in range(256))


def text_check(text: str) -> str:
    """A short hash of a passage's words: how it is spaced does not count."""
    return hashlib.sha256(_single_spaced(text)).hexdigest()[:8]


def _single_spaced(text: str) -> bytes:
    if not text.isascii():
        return " ".join(text.split()).encode(errors="surrogatepass")
    spaced = text.encode().translate(_SPACES).strip()  # much quicker, and mostly all there is to do
    return b" ".join(spaced.split()) if b"  " in spaced else spaced


def passages_of(arrival: Arrival) -> list[Passage]:
    """An arrival's passages, numbered."""
    return [
        Passage(arrival.document.id, ordinal, place, text_check(arrival.text[place.start : place.end]))
        for ordinal, place in enumerate(arrival.places)
    ]
