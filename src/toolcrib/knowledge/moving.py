"""A knowledge base brought from one store into another: the words are indexed anew, vectors are taken along.

Documents go over segment by segment, some at a time, each time all or nothing. What is there already is passed over,
so whoever was stopped goes on. What others brought there is not touched: then nothing goes over.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from toolcrib.core.errors import ConfigError
from toolcrib.core.knowledge import Arrival, Change, Collection, Document, KnowledgeStore, SegmentRecord
from toolcrib.knowledge.indexing import build_segment

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

PASSAGES_AT_ONCE = 500
Moving = tuple[Arrival, "Floats | None"]
"""A document with the vectors of its passages, in order."""


async def move_knowledge(here: KnowledgeStore, there: KnowledgeStore, report: Callable[[int], None]) -> None:
    """Have in ``there`` what ``here`` holds; ``report`` is told how many documents have come so far."""
    await _refuse_foreign(here, there)
    done = 0
    for collection in await here.collections():
        if collection.id not in {known.id for known in await there.collections()}:
            await there.put_collection(collection)
        arrived = {document: stamp.hash for document, stamp in (await there.stamps(collection.id)).values()}
        documents = await here.documents(collection.id)
        missing = {each.key: each for each in documents if arrived.get(each.id) != each.stamp.hash}
        done += len(documents) - len(missing)
        async for batch in _batches(here, collection, missing):
            await there.apply(await asyncio.to_thread(_change, collection, batch))
            done += len(batch)
            report(done)


async def _refuse_foreign(here: KnowledgeStore, there: KnowledgeStore) -> None:
    """See that nothing there is other than here, unless it was changed here since it went over."""
    for collection in await there.collections():
        known = {each.id: each for each in await here.documents(collection.id)}
        foreign = [each for each in await there.documents(collection.id) if _is_foreign(each, known.get(each.id))]
        if foreign:
            more = f" and {len(foreign) - 1} more" if len(foreign) > 1 else ""
            raise ConfigError(
                "The shared knowledge base has documents that did not come from here, or not as they are now:"
                f" {foreign[0].source!r} in {collection.id!r}{more}. Nothing was copied on top of them.",
                hint="Copy under another [store] name, or remove them there with `toolcrib kb rm`.",
            )


def _is_foreign(document: Document, here: Document | None) -> bool:
    """What goes over keeps the time of its addition, so what was changed there is younger than it is here."""
    if here is None:
        return True
    return here.stamp.hash != document.stamp.hash and here.added <= document.added


async def _batches(
    here: KnowledgeStore, collection: Collection, missing: dict[int, Document]
) -> AsyncIterator[list[Moving]]:
    """Some at a time; those without vectors by themselves."""
    waiting: dict[bool, list[Moving]] = {False: [], True: []}
    async for moving in _all(here, collection, missing):
        batch = waiting[_lacks(moving)]
        batch.append(moving)
        if sum(len(arrival.places) for arrival, _ in batch) >= PASSAGES_AT_ONCE or len(batch) >= PASSAGES_AT_ONCE:
            yield batch
            waiting[_lacks(moving)] = []
    for batch in waiting.values():
        if batch:
            yield batch


async def _all(here: KnowledgeStore, collection: Collection, missing: dict[int, Document]) -> AsyncIterator[Moving]:
    for segment in await here.segments([collection.id]):
        async for moving in _of_segment(here, segment, missing):
            yield moving
    for document in missing.values():  # what has no passages is in no segment
        yield await _arrival(here, document), None


async def _of_segment(
    here: KnowledgeStore, segment: SegmentRecord, missing: dict[int, Document]
) -> AsyncIterator[Moving]:
    rows, encoded = await here.segment_rows(segment.id), await here.segment_bytes(segment.id)
    vectors = await asyncio.to_thread(_vectors, encoded or b"")
    owned: dict[int, list[tuple[int, int]]] = {}
    for position, key, ordinal in zip(rows.positions, rows.documents, rows.ordinals, strict=True):
        owned.setdefault(key, []).append((ordinal, position))
    for key, places in owned.items():
        document = missing.pop(key, None)
        if document is not None:
            held = None if vectors is None else vectors[[position for _, position in sorted(places)]]
            yield await _arrival(here, document), held


async def _arrival(here: KnowledgeStore, document: Document) -> Arrival:
    kept, passages = await here.text(document.id), await here.passages(document.id)
    places = tuple(passage.place for passage in passages)
    if kept is None:
        return Arrival(replace(document, key=0), "", places)
    return Arrival(replace(document, key=0), kept.text, places, kept.outline)


def _vectors(encoded: bytes) -> "Floats | None":
    from toolcrib.search.segment import Segment

    held = Segment.from_bytes(encoded).vectors if encoded else None
    return None if held is None else held.to_floats()


def _lacks(moving: Moving) -> bool:
    """Whether a document has no vectors, or such as say nothing."""
    vectors = moving[1]
    return vectors is None or not vectors.any(axis=1).all()


def _change(collection: Collection, batch: Sequence[Moving]) -> Change:
    import numpy as np

    arrivals = tuple(arrival for arrival, _ in batch)
    held = [vectors for _, vectors in batch if vectors is not None]
    is_lacking = any(map(_lacks, batch))
    vectors = np.concatenate(held) if held and not is_lacking else None
    has_passages = any(arrival.places for arrival in arrivals)
    return Change(
        collection.id,
        arrivals,
        segment=build_segment(arrivals, vectors),
        is_lacking=is_lacking and has_passages and bool(collection.embedder),
    )
