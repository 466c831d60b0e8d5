"""Documents as JSON lines, to be kept elsewhere or taken to another machine; the index is made anew there."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

import msgspec
import numpy as np
from msgspec.structs import replace

from toolcrib.core.errors import ConfigError, InvalidArguments, UnreadableSource
from toolcrib.core.knowledge import (
    Arrival,
    Collection,
    CollectionChange,
    DocumentInfo,
    DocumentStore,
    KnowledgeStore,
    Outline,
    SegmentRecord,
    document_id,
)
from toolcrib.knowledge.chunk import chunk
from toolcrib.knowledge.embedding import Embedders
from toolcrib.knowledge.fill import Arriving
from toolcrib.knowledge.indexing import build_segment
from toolcrib.knowledge.retrieve import documents_after, exported_source, page_mark
from toolcrib.search.hybrid import Segment
from toolcrib.search.vectors import Floats

PASSAGES_AT_ONCE = 500
LINE_MAX = 128_000_000
"""Bytes of one line: more than the longest document takes."""
HINT = "Give a file that `toolcrib kb export` wrote."


class Line(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """One line: a collection, or a document of the collection named before."""

    collection: Collection | None = None
    document: DocumentInfo | None = None
    text: str = ""
    outline: Outline = msgspec.field(default_factory=Outline)


@dataclass(slots=True)
class ExportedPart:
    """Some lines of an export, and after which document the next part begins; nothing if this was the last."""

    lines: list[str] = field(default_factory=list)
    documents: int = 0
    next: str | None = None


async def export_part(store: DocumentStore, collections: Sequence[str], after: str, most: int) -> ExportedPart:
    """Collections by id, each followed by its documents by source, until there are ``most`` characters."""
    part, size = ExportedPart(), 0
    begun, last = _read_mark(after) if after else ("", "")
    chosen = [each for each in await store.collections() if each.id in collections and each.id >= begun]
    for collection in sorted(chosen, key=lambda each: each.id):
        if size >= most:
            return part
        documents = sorted(await store.documents(collection.id), key=lambda each: each.source)
        if collection.id == begun:
            documents = documents_after(documents, last)
        else:
            part.lines.append(_encode(Line(collection=collection)))
        for document in documents:
            if size >= most:
                return part
            kept = await store.text(document.id)
            if kept is not None:
                plain = replace(document, key=0, source=exported_source(document))
                part.lines.append(_encode(Line(document=plain, text=kept.text, outline=kept.outline)))
                part.documents += 1
                part.next = _encode([collection.id, page_mark(document)])
                size += len(part.lines[-1])
    part.next = None
    return part


def _encode(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _read_mark(after: str) -> tuple[str, str]:
    try:
        return msgspec.json.decode(after, type=tuple[str, str])
    except msgspec.MsgspecError:
        raise InvalidArguments(f"{after[:100]!r} is nothing to go on after.", hint="Take next as it came.") from None


OnRead = Callable[[int, int, int], None]
"""Hears how many bytes there are, how many were read, and how many documents have come."""


@dataclass(slots=True)
class Imported:
    """What came in."""

    documents: int = 0
    collections: list[str] = field(default_factory=list)
    trouble: str = ""
    """Why vectors are still to be made."""


async def import_lines(
    store: KnowledgeStore, embedders: Embedders, file: BinaryIO, tell: Callable[[int, int], None]
) -> Imported:
    """Take in what was exported, some at a time, each time all or nothing."""
    groups, imported = _read_groups(file), Imported()
    while (group := await asyncio.to_thread(next, groups, None)) is not None:
        collection, arrivals = group
        if collection.id not in imported.collections:
            imported.collections.append(collection.id)
            await _take_collection(store, embedders, collection)
        if arrivals:
            await Arriving(store, embedders, collection.id).take(arrivals)
            imported.documents += len(arrivals)
        tell(file.tell(), imported.documents)
    return imported


def _read_groups(file: BinaryIO) -> Iterator[tuple[Collection, list[Arrival]]]:
    """Some documents of one collection at a time, cut into passages; a collection's last group may be empty."""
    collection, arrivals, passages = None, list[Arrival](), 0
    for number, line in _read_lines(file):
        if line.collection is not None:
            if collection is not None:
                yield collection, arrivals
            collection, arrivals, passages = line.collection, [], 0
        elif line.document is not None:
            if collection is None:
                raise UnreadableSource(f"Line {number} is a document of no collection.", hint=HINT)
            arrivals.append(_arrival(line.document, line, collection.id))
            passages += len(arrivals[-1].places)
            if max(passages, len(arrivals)) >= PASSAGES_AT_ONCE:
                yield collection, arrivals
                arrivals, passages = [], 0
    if collection is not None:
        yield collection, arrivals


def _read_lines(file: BinaryIO) -> Iterator[tuple[int, Line]]:
    number = 0
    while encoded := file.readline(LINE_MAX + 1):
        number += 1
        if len(encoded) > LINE_MAX:
            raise UnreadableSource(f"Line {number} has more than {LINE_MAX // 1_000_000} MB.", hint=HINT)
        if encoded.strip():
            yield number, _decode(encoded, number)


def _decode(encoded: bytes, number: int) -> Line:
    try:
        line = msgspec.json.decode(encoded, type=Line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableSource(f"Line {number} is no exported document: {error}.", hint=HINT) from None
    starts = (*line.outline.pages, *(heading.start for heading in line.outline.headings))
    if not all(0 <= start <= len(line.text) for start in starts):
        raise UnreadableSource(f"Line {number} has an outline that is not that of its text.", hint=HINT)
    return line


async def _take_collection(store: DocumentStore, embedders: Embedders, given: Collection) -> None:
    """Made if it is new; its embedder is the one of the same name here, or the usual one."""
    if given.id not in {collection.id for collection in await store.collections()}:
        name = given.embedder_name if given.embedder_name in embedders.names else embedders.default
        made = await embedders.embedding(name)
        ours = replace(given, embedder=made.model, dimensions=made.dimensions, embedder_name=name, coming=None)
        await store.put_collection(ours)


def _arrival(document: DocumentInfo, line: Line, collection: str) -> Arrival:
    ours = replace(document, id=document_id(collection, document.source), collection=collection, key=0)
    return Arrival(ours, line.text, chunk(line.text, line.outline), line.outline)


MOVED_AT_ONCE = 500
Moving = tuple[Arrival, Floats | None]
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


def _is_foreign(document: DocumentInfo, here: DocumentInfo | None) -> bool:
    """What goes over keeps the time of its addition, so what was changed there is younger than it is here."""
    if here is None:
        return True
    return here.stamp.hash != document.stamp.hash and here.added <= document.added


async def _batches(
    here: KnowledgeStore, collection: Collection, missing: dict[int, DocumentInfo]
) -> AsyncIterator[list[Moving]]:
    """Some at a time; those without vectors by themselves."""
    waiting: dict[bool, list[Moving]] = {False: [], True: []}
    async for moving in _all(here, collection, missing):
        batch = waiting[_lacks(moving)]
        batch.append(moving)
        if sum(len(arrival.places) for arrival, _ in batch) >= MOVED_AT_ONCE or len(batch) >= MOVED_AT_ONCE:
            yield batch
            waiting[_lacks(moving)] = []
    for batch in waiting.values():
        if batch:
            yield batch


async def _all(here: KnowledgeStore, collection: Collection, missing: dict[int, DocumentInfo]) -> AsyncIterator[Moving]:
    for segment in await here.segments([collection.id]):
        async for moving in _of_segment(here, segment, missing):
            yield moving
    for document in missing.values():  # what has no passages is in no segment
        yield await _moved_arrival(here, document), None


async def _of_segment(
    here: KnowledgeStore, segment: SegmentRecord, missing: dict[int, DocumentInfo]
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
            yield await _moved_arrival(here, document), held


async def _moved_arrival(here: DocumentStore, document: DocumentInfo) -> Arrival:
    kept, passages = await here.text(document.id), await here.passages(document.id)
    places = tuple(passage.place for passage in passages)
    if kept is None:
        return Arrival(replace(document, key=0), "", places)
    return Arrival(replace(document, key=0), kept.text, places, kept.outline)


def _vectors(encoded: bytes) -> Floats | None:

    held = Segment.from_bytes(encoded).vectors if encoded else None
    return None if held is None else held.to_floats()


def _lacks(moving: Moving) -> bool:
    """Whether a document has no vectors, or such as say nothing."""
    vectors = moving[1]
    return vectors is None or not vectors.any(axis=1).all()


def _change(collection: Collection, batch: Sequence[Moving]) -> CollectionChange:
    arrivals = tuple(arrival for arrival, _ in batch)
    held = [vectors for _, vectors in batch if vectors is not None]
    is_lacking = any(map(_lacks, batch))
    vectors = np.concatenate(held) if held and not is_lacking else None
    has_passages = any(arrival.places for arrival in arrivals)
    return CollectionChange(
        collection.id,
        arrivals,
        segment=build_segment(arrivals, vectors),
        is_lacking=is_lacking and has_passages and bool(collection.embedder),
    )
