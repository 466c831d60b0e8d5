"""Making the vectors that a collection lacks, or all of them for another embedder, while the old ones go on answering.

Vectors are put aside as they are made, so whoever is interrupted, or killed, goes on from there. Once all are there,
they take their place in one step.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from msgspec.structs import replace

from toolcrib.core.errors import EmbedderUnavailable, KnowledgeUnavailable, ToolcribError, UnknownCollection
from toolcrib.core.knowledge import (
    Arrival,
    Collection,
    CollectionChange,
    CollectionCounts,
    DocumentStore,
    Embedding,
    KnowledgeReader,
    KnowledgeStore,
    Merging,
    RemoteIndex,
    Swap,
)
from toolcrib.core.tasks import TaskScope
from toolcrib.knowledge.builder import Builder, compact
from toolcrib.knowledge.embedding import NONE, Embedders, TextEmbedder, check_dimensions, fits, is_same
from toolcrib.knowledge.indexing import build_segment, join_vectors, text_to_embed, texts_to_embed, with_vectors
from toolcrib.search.vectors import Floats

Row = tuple[int, int]

AT_ONCE = 512
"""Passages read at once; each batch of the embedder is put aside as soon as it is made."""
ATTEMPTS = 50
TURN_S = 0.5
"""How often to look whether another process that makes vectors is done."""
START: Row = (0, -1)


@dataclass(frozen=True, slots=True)
class Filling:
    """How far the vectors of a collection have come."""

    collection: str
    done: int
    total: int

    @property
    def percent(self) -> int:
        """Done of a hundred; a hundred only if nothing is left."""
        return 100 if self.done >= self.total else int(100 * self.done / self.total)

    def __str__(self) -> str:
        return f"{self.collection}: {self.done} of {self.total} passages have vectors, {self.percent} %"


OnFilling = Callable[[Filling], None]


async def choose_embedder(
    store: DocumentStore, embedders: Embedders, collection: str, name: str, *, again: bool = False
) -> bool:
    """Have a collection's vectors made by another embedder from now on; whether there is anything to do."""
    known = await find_collection(store, collection)
    wanted = await embedders.embedding(embedders.check(name))
    if not again and is_same(known.embedding, wanted):
        await _put(store, known, replace(known, embedder_name=name, coming=None))
        return bool((await store.counts(collection)).lacking)
    if again or known.coming is None or not is_same(known.coming, wanted):
        await _put(store, known, replace(known, coming=None))
        await store.put_collection(replace(known, coming=wanted))
    return True


async def _put(store: DocumentStore, known: Collection, wanted: Collection) -> None:
    if wanted != known:
        await store.put_collection(wanted)


async def find_collection(store: DocumentStore, collection: str) -> Collection:
    """The collection; raises ``UnknownCollection``."""
    known = {each.id: each for each in await store.collections()}
    if collection not in known:
        raise UnknownCollection(collection, known=list(known))
    return known[collection]


async def fill(
    store: KnowledgeStore, embedders: Embedders, collection: str, on_filling: OnFilling = lambda _: None
) -> None:
    """Make what is missing and bring it into the index; raises ``EmbedderUnavailable``, and what was made stays.

    If another process is at it already, only wait and tell how far it is.
    """
    await find_collection(store, collection)
    while collection in await store.incomplete():
        if await store.take_turn():
            try:
                return await _fill(store, embedders, collection, on_filling)
            finally:
                await store.end_turn()
        held = await store.counts(collection)
        on_filling(Filling(collection, held.passages - held.waiting, held.passages))
        await asyncio.sleep(TURN_S)
    return None


async def _fill(store: KnowledgeStore, embedders: Embedders, collection: str, on_filling: OnFilling) -> None:
    for _ in range(ATTEMPTS):
        known = await find_collection(store, collection)
        held = await store.counts(collection)
        if known.coming is None and not held.lacking:
            return
        embedder = await _embedder_for(store, embedders, known)
        if embedder is not None:
            known = await find_collection(store, collection)
            await _make(store, embedder, known, _teller(collection, held.passages, held.waiting, on_filling))
        await _swap(store, embedder, known)
    raise KnowledgeUnavailable(
        f"{collection!r} changes faster than its vectors can be made.", hint="`toolcrib kb embed` it again later."
    )


async def _embedder_for(store: DocumentStore, embedders: Embedders, known: Collection) -> TextEmbedder | None:
    """Who makes what is wanted; if its name means another model by now, that one, and from the beginning."""
    if known.coming is None:
        return await embedders.find(known.embedding)
    if known.coming.name == NONE:
        return None
    if known.coming.name not in embedders.names:
        return await embedders.find(known.coming)
    embedder = await embedders.get(known.coming.name)
    if embedder is not None and not fits(embedder, known.coming):
        coming = Embedding(known.coming.name, embedder.name, embedder.dimensions)
        await store.put_collection(replace(known, coming=coming))
    return embedder


def _teller(collection: str, total: int, waiting: int, on_filling: OnFilling) -> Callable[[int], None]:
    done = total - waiting

    def tell(more: int) -> None:
        nonlocal done
        done += more
        on_filling(Filling(collection, min(done, total), total))

    return tell


async def _make(store: KnowledgeStore, embedder: TextEmbedder, known: Collection, tell: Callable[[int], None]) -> None:
    """Put vectors aside until every passage has one, or something else is wanted."""
    after = START
    while True:
        rows = await store.waiting(known.id, AT_ONCE, after)
        if not rows and after == START:
            return
        after = rows[-1] if rows else START
        texts = await store.consult(partial(_texts, rows))
        for at in range(0, len(texts), embedder.batch):
            some = texts[at : at + embedder.batch]
            vectors = await embedder.embed_documents([text for _, text in some])
            check_dimensions(known.embedding.name, vectors.shape[1], 0 if known.coming else known.dimensions)
            if not await store.stage(known.id, known.coming, _encoded([row for row, _ in some], vectors)):
                return
            tell(len(some))


def _texts(rows: Sequence[Row], reader: KnowledgeReader) -> list[tuple[Row, str]]:
    """What is to be embedded; passages that are gone meanwhile are left out."""
    keys = {key for key, _ in rows}
    documents, texts, passages = reader.documents_of(keys), reader.texts_of(keys), reader.passages_at(rows)
    return [
        (row, text_to_embed(documents[row[0]].title, texts[row[0]], passages[row].place))
        for row in rows
        if row in passages and row[0] in documents and row[0] in texts
    ]


def _encoded(rows: Sequence[Row], vectors: Floats) -> dict[Row, bytes]:
    return {row: vector.tobytes() for row, vector in zip(rows, vectors, strict=True)}


async def _swap(store: KnowledgeStore, embedder: TextEmbedder | None, known: Collection) -> None:
    """Bring what was put aside into the index, if it is complete and nobody interferes."""
    if store.remote is not None:
        await _settle(store, store.remote, embedder, known)
        return
    is_whole = known.coming is not None
    size = embedder.dimensions if embedder is not None else 0
    size = size or await _staged_size(store, known)
    if not is_whole and known.dimensions not in (0, size):
        await _start_over(store, known)
    mergings, filled = list[Merging](), list[int]()
    for record in await store.segments([known.id]):
        rows, encoded = await store.segment_rows(record.id), await store.segment_bytes(record.id)
        owners = list(zip(rows.documents, rows.ordinals, strict=True))
        staged = await store.staged(owners) if embedder is not None else {}
        if encoded is None or (is_whole and embedder is not None and len(staged) < len(owners)):
            return
        if any(len(vector) != 4 * size for vector in staged.values()):
            await _start_over(store, known)
        if staged or is_whole:
            made, kept = await asyncio.to_thread(
                with_vectors, (encoded, record.size, rows), staged, size, is_whole=is_whole
            )
            mergings.append(Merging(known.id, (record,), made, kept, record.level))
            filled += _complete(owners, staged, is_whole=is_whole)
    if mergings or is_whole:
        await store.swap(Swap(known.id, known.coming, _outcome(known, size), tuple(mergings), tuple(filled)))


async def _settle(store: KnowledgeStore, remote: RemoteIndex, embedder: TextEmbedder | None, known: Collection) -> None:
    """The same where the engine holds the vectors: they are in place already, and from now on they count."""
    sizes = await remote.sizes(known.id) if embedder is not None else set()
    size = embedder.dimensions if embedder is not None else 0
    size = size or min(sizes, default=0)
    is_other = known.coming is None and known.dimensions not in (0, size)
    if is_other or sizes - {size}:
        await _start_over(store, known)
    await remote.settle(known.id, known.coming, _outcome(known, size))


async def _staged_size(store: KnowledgeStore, known: Collection) -> int:
    """How long the vectors are that an earlier process put aside."""
    for record in await store.segments([known.id]):
        rows = await store.segment_rows(record.id)
        for vector in (await store.staged(zip(rows.documents, rows.ordinals, strict=True))).values():
            return len(vector) // 4
    return 0


async def _start_over(store: KnowledgeStore, known: Collection) -> None:
    await store.put_collection(replace(known, coming=None))
    await store.put_collection(replace(known, coming=known.coming or replace(known.embedding, dimensions=0)))
    raise EmbedderUnavailable(
        f"The embedder of {known.id!r} makes vectors of another length than before.",
        hint="They are all made anew; run `toolcrib kb embed` again.",
    )


def _complete(owners: Sequence[Row], staged: dict[Row, bytes], *, is_whole: bool) -> set[int]:
    missing = set() if is_whole else {owner[0] for owner in owners if owner not in staged}
    return {key for key, _ in owners} - missing


def _outcome(known: Collection, size: int) -> Embedding:
    now = known.coming or known.embedding
    return replace(now, dimensions=size)


async def vector_complaints(embedders: Embedders, collection: Collection, held: CollectionCounts) -> list[str]:
    """What keeps a collection from being searched by meaning as it should be, in plain words."""
    found = []
    if collection.coming is not None:
        filling = Filling(collection.id, held.passages - held.waiting, held.passages)
        found.append(
            f"re-embedding {filling.percent} % by {collection.coming.name!r}; until then, {_until(collection)}."
        )
    elif held.lacking:
        found.append(f"{held.lacking} of {held.passages} passages wait for their vectors and are found by words alone.")
    if trouble := await _trouble(embedders, collection.embedding):
        found.append(f"only words count. {trouble}")
    if collection.coming is not None and (trouble := await _trouble(embedders, collection.coming)):
        found.append(f"the new vectors cannot be made now. {trouble}")
    return [f"{collection.id}: {each}" for each in found]


async def _trouble(embedders: Embedders, embedding: Embedding) -> str:
    try:
        asking = await embedders.asking(embedding)
        if asking is not None:
            await asking.check()
    except EmbedderUnavailable as error:
        return str(error)
    return ""


def _until(collection: Collection) -> str:
    return f"the vectors of {collection.embedder!r} answer" if collection.embedder else "only words count"


class Arriving:
    """What comes into one collection, some at a time, each time all or nothing."""

    def __init__(
        self,
        store: KnowledgeStore,
        embedders: Embedders,
        collection: str,
        builder: Builder | None = None,
        on_stored: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self._store, self._embedders, self._collection = store, embedders, collection
        self._builder = builder or Builder()
        self._on_stored = on_stored or partial(compact, store, collection)
        self._embedding = asyncio.Lock()
        self.trouble = ""
        """Why vectors are missing; once something is wrong, the embedder is not asked again."""

    async def take(self, arrivals: Sequence[Arrival], removals: Sequence[str] = ()) -> None:
        """Store documents and take others out, in one step."""
        await self.store(await self.prepare(arrivals, removals))

    async def prepare(self, arrivals: Sequence[Arrival], removals: Sequence[str]) -> CollectionChange:
        """What is to be stored; several may be in preparation at once."""
        words, (vectors, is_lacking) = await asyncio.gather(self._builder.words(arrivals), self._vectors(arrivals))
        if words:
            segment = await asyncio.to_thread(join_vectors, words, vectors)
        else:
            segment = await asyncio.to_thread(build_segment, arrivals, vectors)
        return CollectionChange(self._collection, tuple(arrivals), tuple(removals), segment, is_lacking)

    async def store(self, change: CollectionChange) -> None:
        """All of it or nothing; one after the other."""
        await self._store.apply(change)
        await self._on_stored()

    async def _vectors(self, arrivals: Sequence[Arrival]) -> tuple[Floats | None, bool]:
        """The vectors, if they can be made now, and whether they are lacking; in the order of the asking."""
        async with self._embedding:
            vectors = await self._try_to_embed(arrivals)
            return vectors, vectors is None and bool(self.trouble)

    async def _try_to_embed(self, arrivals: Sequence[Arrival]) -> Floats | None:
        texts = texts_to_embed(arrivals)
        if self.trouble or not texts:
            return None
        try:
            return await self._embed(texts)
        except EmbedderUnavailable as error:
            self.trouble = str(error)
            return None

    async def _embed(self, texts: Sequence[str]) -> Floats | None:
        known = await find_collection(self._store, self._collection)
        embedder = await self._embedders.find(known.embedding)
        if embedder is None:
            return None
        vectors = await embedder.embed_documents(texts)
        check_dimensions(known.embedder_name, vectors.shape[1], known.dimensions)
        if not known.dimensions:
            fresh = await find_collection(self._store, self._collection)
            await self._store.put_collection(replace(fresh, dimensions=vectors.shape[1]))
        return vectors


FIRST_WAIT_S = 5.0
LONGEST_WAIT_S = 300.0


class Background:
    """One task that fills collections one after the other, whenever it is told that there may be something to do."""

    def __init__(self, store: KnowledgeStore, embedders: Embedders, first_wait_s: float = FIRST_WAIT_S) -> None:
        self._store, self._embedders, self._first_wait_s = store, embedders, first_wait_s
        self._scope = TaskScope(lambda *_: None)
        self._wanted = asyncio.Event()
        self._seen = 0
        self._is_in_trouble = False

    def start(self) -> None:
        """Begin with what an earlier process left undone."""
        self._wanted.set()
        self._scope.spawn(self._run(), "kb-vectors")

    async def look(self) -> None:
        """Have another look if the store has changed, by whichever process."""
        generation = await self._store.generation()
        if generation != self._seen:
            self._seen = generation
            self._wanted.set()

    async def _run(self) -> None:
        wait_s = self._first_wait_s
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            await self._fill_all()
            if not self._is_in_trouble:
                wait_s = self._first_wait_s
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._wanted.wait()
            self._wanted.set()
            wait_s = min(wait_s * 2, LONGEST_WAIT_S)

    async def _fill_all(self) -> None:
        """Whatever is wrong is told by the statistics, which ask for themselves; here it is only tried again."""
        self._is_in_trouble = False
        try:
            for collection in await self._store.incomplete():
                await self._fill(collection)
        except ToolcribError:
            self._is_in_trouble = True

    async def _fill(self, collection: str) -> None:
        try:
            await fill(self._store, self._embedders, collection)
        except EmbedderUnavailable:
            self._is_in_trouble = True

    async def close(self) -> None:
        """Stop; what was made stays, and the next process goes on from there."""
        await self._scope.close()
