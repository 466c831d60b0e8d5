"""The index as it is searched: segments kept in memory, brought up to date when the store has changed."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolcrib.core.errors import KnowledgeUnavailable, UnknownCollection
from toolcrib.core.knowledge import KnowledgeStore, SegmentRecord, SegmentRows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from toolcrib.search.hybrid import Searcher, Segment
    from toolcrib.search.vectors import Embedder

ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class Part:
    """One segment, and whose passages are alive in it; the arrays have an item for each position."""

    record: SegmentRecord
    segment: "Segment"
    alive: "NDArray[np.bool_]"
    documents: "NDArray[np.int64]"
    ordinals: "NDArray[np.int64]"
    starts: "NDArray[np.int64]"
    ends: "NDArray[np.int64]"


@dataclass(frozen=True, slots=True)
class View:
    """Some collections at one moment, ready to be searched."""

    generation: int
    parts: tuple[Part, ...]
    searcher: "Searcher"


class Index:
    """Views of a store; whoever asks gets what was stored last, by whichever process."""

    def __init__(self, store: KnowledgeStore, embedder: "Embedder | None") -> None:
        self._store, self._embedder = store, embedder
        self._parts: dict[int, Part] = {}
        self._views: dict[tuple[str, ...], View] = {}
        self._busy = asyncio.Lock()

    def latest(self, collections: Sequence[str]) -> View | None:
        """These collections as they were last seen, if they were: compare its generation with the store's."""
        return self._views.get(tuple(sorted(set(collections))))

    async def view(self, collections: Sequence[str]) -> View:
        """These collections as they are now; costs one small query if nothing has changed. Raises for unknown ones."""
        wanted = tuple(sorted(set(collections)))
        generation = await self._store.generation()
        view = self._views.get(wanted)
        if view is not None and view.generation == generation:
            return view
        async with self._busy:
            return await self._renew(wanted)

    async def _renew(self, wanted: tuple[str, ...]) -> View:
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

    async def _publish(self, wanted: tuple[str, ...], generation: int, parts: list[Part]) -> View:
        embedder = self._embedder if await self._is_ours(wanted) else None
        view = await asyncio.to_thread(_make_view, generation, parts, embedder)
        self._views = {each: kept for each, kept in self._views.items() if kept.generation == generation}
        self._views[wanted] = view
        used = {part.record.id for kept in self._views.values() for part in kept.parts}
        self._parts = {number: part for number, part in self._parts.items() if number in used}
        return view

    async def _is_ours(self, wanted: tuple[str, ...]) -> bool:
        """Vectors of another embedder mean nothing to this one."""
        if self._embedder is None:
            return False
        ours = (self._embedder.name, self._embedder.dimensions)
        known = await self._store.collections()
        return all((each.embedder, each.dimensions) == ours for each in known if each.id in wanted)

    async def _part(self, record: SegmentRecord) -> Part | None:
        known = self._parts.get(record.id)
        if known is not None and known.record == record:
            return known
        encoded = None if known is not None else await self._store.segment_bytes(record.id)
        rows = await self._store.segment_rows(record.id)
        if known is None and encoded is None:
            return None  # merged away meanwhile: the generation tells
        part = await asyncio.to_thread(_make_part, record, known.segment if known else encoded, rows)
        self._parts[record.id] = part
        return part


async def check_collections(store: KnowledgeStore, wanted: Sequence[str]) -> None:
    """Raise ``UnknownCollection``, with the nearest names, for one that is not there."""
    known = [collection.id for collection in await store.collections()]
    for name in wanted:
        if name not in known:
            raise UnknownCollection(name, known=known)


def _make_part(record: SegmentRecord, held: "Segment | bytes | None", rows: SegmentRows) -> Part:
    import numpy as np

    from toolcrib.search.hybrid import Segment

    positions = np.asarray(rows.positions, np.int64)

    def spread(column: Sequence[int]) -> "NDArray[Any]":
        whole = np.zeros(record.size, np.int64)
        whole[positions] = np.asarray(column, np.int64)
        return whole

    alive = np.zeros(record.size, np.bool_)
    alive[positions] = True
    segment = Segment.from_bytes(held) if isinstance(held, bytes) else held
    assert segment is not None
    columns = (spread(rows.documents), spread(rows.ordinals), spread(rows.starts), spread(rows.ends))
    return Part(record, segment, alive, *columns)


def _make_view(generation: int, parts: list[Part], embedder: "Embedder | None") -> View:
    from toolcrib.search.hybrid import Searcher

    searcher = Searcher([(part.segment, None if part.alive.all() else part.alive) for part in parts], embedder)
    return View(generation, tuple(parts), searcher)
