"""The index as it is searched: segments kept in memory, brought up to date when the store has changed."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolcrib.core.errors import EmbedderUnavailable, KnowledgeUnavailable, UnknownCollection
from toolcrib.core.knowledge import DocumentStore, KnowledgeStore, RemoteIndex, SegmentRecord, SegmentRows
from toolcrib.knowledge.embedding import Embedders, QueryEmbedder
from toolcrib.knowledge.indexing import even_out
from toolcrib.search.hybrid import Searcher, Segment
from toolcrib.search.vectors import Embedder

ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class SegmentPart:
    """One segment, and whose passages are alive in it; the arrays have an item for each position."""

    record: SegmentRecord
    segment: Segment
    alive: NDArray[np.bool_]
    documents: NDArray[np.int64]
    ordinals: NDArray[np.int64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Group:
    """Those parts of a view whose vectors one embedder made."""

    asking: QueryEmbedder
    parts: tuple[int, ...]
    searcher: Searcher


@dataclass(frozen=True, slots=True)
class IndexView:
    """Some collections at one moment, ready to be searched."""

    generation: int
    parts: tuple[SegmentPart, ...]
    searcher: Searcher
    """All parts by words, and by meaning if one group holds them all."""
    groups: tuple[Group, ...] = ()
    warnings: tuple[str, ...] = ()
    """What keeps meaning from being searched."""


class Index:
    """Views of a store; whoever asks gets what was stored last, by whichever process."""

    def __init__(self, store: KnowledgeStore, embedder: Embedders | Embedder | None) -> None:
        self._store, self._embedders = store, Embedders.of(embedder)
        self._parts: dict[int, SegmentPart] = {}
        self._views: dict[tuple[str, ...], IndexView] = {}
        self._busy = asyncio.Lock()

    def latest(self, collections: Sequence[str]) -> IndexView | None:
        """These collections as they were last seen, if they were: compare its generation with the store's."""
        return self._views.get(tuple(sorted(set(collections))))

    async def view(self, collections: Sequence[str]) -> IndexView:
        """These collections as they are now; costs one small query if nothing has changed. Raises for unknown ones."""
        wanted = tuple(sorted(set(collections)))
        generation = await self._store.generation()
        view = self._views.get(wanted)
        if view is not None and view.generation == generation:
            return view
        async with self._busy:
            return await self._renew(wanted)

    async def _renew(self, wanted: tuple[str, ...]) -> IndexView:
        """Read until nobody has changed anything meanwhile."""
        for _ in range(ATTEMPTS):
            generation = await self._store.generation()
            known = self._views.get(wanted)
            if known is not None and known.generation == generation:
                return known
            await check_collections(self._store, wanted)
            parts = [await self._part(record) for record in await self._store.segments(wanted)]
            if await self._store.generation() == generation:
                return await self._publish(wanted, generation, [part for part in parts if part is not None])
        raise KnowledgeUnavailable("The knowledge base changes faster than it can be read.", hint="Try again.")

    async def _publish(self, wanted: tuple[str, ...], generation: int, parts: list[SegmentPart]) -> IndexView:
        askings, warnings = await self._askings(wanted)
        remote = self._store.remote
        searcher: MakeSearcher = _local_searcher
        if remote is not None:
            searcher = partial(_remote_searcher, remote, await remote.vectors(wanted))
        made = await asyncio.to_thread(_make_view, parts, askings, searcher, is_remote=remote is not None)
        view = IndexView(generation, tuple(parts), *made, warnings)
        self._views = {each: kept for each, kept in self._views.items() if kept.generation == generation}
        self._views[wanted] = view
        used = {part.record.id for kept in self._views.values() for part in kept.parts}
        self._parts = {number: part for number, part in self._parts.items() if number in used}
        return view

    async def _askings(self, wanted: tuple[str, ...]) -> tuple[dict[str, QueryEmbedder], tuple[str, ...]]:
        """Who embeds queries for each collection with vectors, and why some have nobody here."""
        askings, warnings = dict[str, QueryEmbedder](), list[str]()
        for collection in await self._store.collections():
            if collection.id not in wanted:
                continue
            try:
                asking = await self._embedders.asking(collection.embedding)
                asking = asking if collection.dimensions else None
            except EmbedderUnavailable as error:
                warnings.append(f"{collection.id}: only words count. {error}")
            else:
                askings |= {collection.id: asking} if asking is not None else {}
                if asking is None and collection.embedder:
                    warnings.append(f"{collection.id}: only words count; its vectors are still to be made.")
        return askings, tuple(warnings)

    async def _part(self, record: SegmentRecord) -> SegmentPart | None:
        known = self._parts.get(record.id)
        if known is not None and known.record == record:
            return known
        held = known.segment if known is not None else await self._held(record)
        rows = await self._store.segment_rows(record.id)
        if held is None:
            return None  # merged away meanwhile: the generation tells
        part = await asyncio.to_thread(_make_part, record, held, rows)
        self._parts[record.id] = part
        return part

    async def _held(self, record: SegmentRecord) -> Segment | bytes | None:
        if self._store.remote is None:
            return await self._store.segment_bytes(record.id)
        held: Segment | None = await self._store.remote.segment(record)
        return held


async def check_collections(store: DocumentStore, wanted: Sequence[str]) -> None:
    """Raise ``UnknownCollection``, with the nearest names, for one that is not there."""
    known = [collection.id for collection in await store.collections()]
    for name in wanted:
        if name not in known:
            raise UnknownCollection(name, known=known)


def _make_part(record: SegmentRecord, held: Segment | bytes, rows: SegmentRows) -> SegmentPart:

    positions = np.asarray(rows.positions, np.int64)

    def spread(column: Sequence[int]) -> NDArray[Any]:
        whole = np.zeros(record.size, np.int64)
        whole[positions] = np.asarray(column, np.int64)
        return whole

    alive = np.zeros(record.size, np.bool_)
    alive[positions] = True
    segment = Segment.from_bytes(held) if isinstance(held, bytes) else held
    columns = (spread(rows.documents), spread(rows.ordinals), spread(rows.starts), spread(rows.ends))
    return SegmentPart(record, segment, alive, *columns)


MakeSearcher = Callable[[Sequence[SegmentPart], QueryEmbedder | None], Searcher]


def _make_view(
    parts: Sequence[SegmentPart], askings: Mapping[str, QueryEmbedder], searcher: MakeSearcher, *, is_remote: bool
) -> tuple[Searcher, tuple[Group, ...]]:
    """Who searches all parts together, and those of each embedder that has vectors. CPU work."""
    chosen: dict[QueryEmbedder, list[int]] = {}
    for at, part in enumerate(parts):
        if (asking := askings.get(part.record.collection)) is not None:
            chosen.setdefault(asking, []).append(at)
    groups = tuple(
        Group(asking, tuple(numbers), searcher([parts[number] for number in numbers], asking))
        for asking, numbers in chosen.items()
        if is_remote or any(parts[number].segment.vectors is not None for number in numbers)
    )
    if len(groups) == 1 and len(groups[0].parts) == len(parts):
        return groups[0].searcher, groups
    return searcher(parts, None), groups


def _local_searcher(parts: Sequence[SegmentPart], asking: QueryEmbedder | None) -> Searcher:
    held = [part.segment for part in parts]
    segments = held if asking is None else even_out(held, asking.dimensions)
    return Searcher(list(zip(segments, _alive(parts), strict=True)), asking)


def _remote_searcher(
    index: RemoteIndex, vectors: Mapping[str, int], parts: Sequence[SegmentPart], asking: QueryEmbedder | None
) -> Searcher:
    """The same where the engine searches; ``vectors`` is the set of each collection there."""
    alive, held = _alive(parts), [part.segment for part in parts]
    chosen = {part.record.collection: vectors[part.record.collection] for part in parts}
    elsewhere = index.elsewhere(held, alive, chosen, asking.dimensions if asking is not None else 0)
    return Searcher(list(zip(held, alive, strict=True)), asking, elsewhere=elsewhere)


def _alive(parts: Sequence[SegmentPart]) -> list[NDArray[np.bool_] | None]:
    return [None if part.alive.all() else part.alive for part in parts]
