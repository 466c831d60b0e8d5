"""Keeping the index in few segments: small ones are merged into larger ones, tier by tier, without the dead."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType

from toolcrib.core.knowledge import Arrival, Collection, KnowledgeStore, Merging, Place, SegmentRecord, SegmentRows
from toolcrib.knowledge.indexing import Part, build_segment, merge_segments, owners_of, part_of

FAN_IN = 8
"""How many segments of one tier become one of the next."""


Merge = Callable[[Sequence[Part]], Awaitable[bytes]]
"""Makes one segment of several, wherever there is room for it."""


async def merge_here(parts: Sequence[Part]) -> bytes:
    """In a thread of this process."""
    return await asyncio.to_thread(merge_segments, parts)


class Compaction:
    """Merging while documents are added: one merge at a time, and the addition does not wait for it before its end."""

    def __init__(self, store: KnowledgeStore, collection: str, merge: Merge) -> None:
        self._compact = partial(compact, store, collection, merge=merge)
        self._task: asyncio.Task[int] | None = None

    async def nudge(self) -> None:
        """Something was added; raises what went wrong with a merge before."""
        if self._task is not None and self._task.done():
            await self._task
            self._task = None
        if self._task is None:
            self._task = asyncio.create_task(self._compact())

    async def __aenter__(self) -> "Compaction":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """Who is interrupted does not want to wait."""
        if self._task is None:
            return
        if error is not None:
            self._task.cancel()
        try:
            await asyncio.gather(self._task, return_exceptions=error is not None)
        finally:
            self._task.cancel()


async def compact(store: KnowledgeStore, collection: str, *, drop_dead: bool = False, merge: Merge = merge_here) -> int:
    """Merge until there is nothing more to merge, or nothing that another process leaves; how many merges were done."""
    if store.remote is None:
        return await _compact(store, collection, drop_dead=drop_dead, merge=merge)
    if not choose(await store.segments([collection]), {}) and not drop_dead:
        return 0
    if not await store.remote.take_merging(collection):
        return 0
    try:
        return await _compact(store, collection, drop_dead=drop_dead, merge=merge)
    finally:
        await store.remote.end_merging(collection)


async def _compact(store: KnowledgeStore, collection: str, *, drop_dead: bool, merge: Merge) -> int:
    done = 0
    while True:
        records = await store.segments([collection])
        rows = {record.id: await store.segment_rows(record.id) for record in records} if drop_dead else {}
        chosen = choose(records, {number: len(found.positions) for number, found in rows.items()})
        if not chosen or not await _merge(store, collection, chosen, merge):
            return done
        done += 1


def choose(records: Sequence[SegmentRecord], alive: Mapping[int, int]) -> Sequence[SegmentRecord]:
    """What to merge next: the lowest tier that is full, else a segment most of whose passages are dead."""
    tiers: dict[int, list[SegmentRecord]] = defaultdict(list)
    for record in records:
        tiers[record.level].append(record)
    for level in sorted(tiers):
        if len(tiers[level]) >= FAN_IN:
            return tiers[level][:FAN_IN]
    for record in records:
        if alive.get(record.id, record.size) < record.size / 2:
            return [record]
    return []


async def _merge(store: KnowledgeStore, collection: str, chosen: Sequence[SegmentRecord], merge: Merge) -> bool:
    parts, rows = list[Part](), list[SegmentRows]()
    for record in chosen:
        encoded = await store.segment_bytes(record.id)
        if encoded is None:
            return False
        rows.append(await store.segment_rows(record.id))
        parts.append(part_of(encoded, record.size, rows[-1]))
    owners = owners_of(rows)
    merged = await merge(parts) if owners else b""
    level = chosen[0].level + (len(chosen) > 1)
    return await store.merge(Merging(collection, tuple(chosen), merged, owners, level))


async def reindex(store: KnowledgeStore, collection: Collection) -> bool:
    """Build the index of words anew from the texts that are kept; vectors are to follow. Whether nobody interfered."""
    await store.put_collection(_without_vectors(collection))
    return await _rebuild(store, collection.id)


def _without_vectors(collection: Collection) -> Collection:
    wanted = collection.coming or collection.embedding
    coming = replace(wanted, dimensions=0) if wanted.model else None
    return replace(collection, embedder="", dimensions=0, coming=coming)


async def _rebuild(store: KnowledgeStore, collection: str) -> bool:
    records = tuple(await store.segments([collection]))
    arrivals, owners = list[Arrival](), list[tuple[int, int]]()
    for document in await store.documents(collection):
        kept, passages = await store.text(document.id), await store.passages(document.id)
        if kept is None:
            return False
        places = tuple[Place, ...](passage.place for passage in passages)
        arrivals.append(Arrival(document, kept.text, places))
        owners += [(document.key, passage.ordinal) for passage in passages]
    encoded = await asyncio.to_thread(build_segment, arrivals, None)
    return await store.merge(Merging(collection, records, encoded, tuple(owners), 1))
