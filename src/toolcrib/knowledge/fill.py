"""Making the vectors that a collection lacks, or all of them for another embedder, while the old ones go on answering.

Vectors are put aside as they are made, so whoever is interrupted, or killed, goes on from there. Once all are there,
they take their place in one step.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from toolcrib.core.errors import EmbedderUnavailable, KnowledgeUnavailable, UnknownCollection
from toolcrib.core.knowledge import Collection, CollectionCounts, Embedding, KnowledgeStore, Merging, Swap
from toolcrib.core.remote_index import RemoteIndex
from toolcrib.knowledge.embedding import NONE, Embedders, TextEmbedder, check_dimensions, fits
from toolcrib.knowledge.indexing import text_to_embed, with_vectors

if TYPE_CHECKING:
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


OnFilling = Callable[[Filling], None]


async def choose_embedder(
    store: KnowledgeStore, embedders: Embedders, collection: str, name: str, *, again: bool = False
) -> bool:
    """Have a collection's vectors made by another embedder from now on; whether there is anything to do."""
    known = await find_collection(store, collection)
    wanted = await embedders.embedding(embedders.check(name))
    if not again and _is_same(known.embedding, wanted):
        await _put(store, known, replace(known, embedder_name=name, coming=None))
        return bool((await store.counts(collection)).lacking)
    if again or known.coming is None or not _is_same(known.coming, wanted):
        await _put(store, known, replace(known, coming=None))
        await store.put_collection(replace(known, coming=wanted))
    return True


async def _put(store: KnowledgeStore, known: Collection, wanted: Collection) -> None:
    if wanted != known:
        await store.put_collection(wanted)


def _is_same(known: Embedding, wanted: Embedding) -> bool:
    same_size = known.dimensions == wanted.dimensions or not (known.dimensions and wanted.dimensions)
    return known.model == wanted.model and same_size


async def find_collection(store: KnowledgeStore, collection: str) -> Collection:
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


async def _embedder_for(store: KnowledgeStore, embedders: Embedders, known: Collection) -> TextEmbedder | None:
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
        texts = await _texts(store, rows)
        for at in range(0, len(texts), embedder.batch):
            some = texts[at : at + embedder.batch]
            vectors = await embedder.embed_documents([text for _, text in some])
            check_dimensions(known.embedding.name, vectors.shape[1], 0 if known.coming else known.dimensions)
            if not await store.stage(known.id, known.coming, _encoded([row for row, _ in some], vectors)):
                return
            tell(len(some))


async def _texts(store: KnowledgeStore, rows: Sequence[Row]) -> list[tuple[Row, str]]:
    """What is to be embedded; passages that are gone meanwhile are left out."""
    keys = {key for key, _ in rows}
    documents, texts = await store.documents_of(keys), await store.texts_of(keys)
    passages = await store.passages_at(rows)
    return [
        (row, text_to_embed(documents[row[0]].title, texts[row[0]], passages[row].place))
        for row in rows
        if row in passages and row[0] in documents and row[0] in texts
    ]


def _encoded(rows: Sequence[Row], vectors: "Floats") -> dict[Row, bytes]:
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
