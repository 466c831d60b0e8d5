"""Documents as JSON lines, to be kept elsewhere or taken to another machine; the index is made anew there."""

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from toolcrib.core.errors import ConfigError
from toolcrib.core.knowledge import Arrival, Collection, Document, KnowledgeStore, Outline, document_id
from toolcrib.knowledge.arriving import Arriving
from toolcrib.knowledge.chunk import chunk
from toolcrib.knowledge.embedding import Embedders

if TYPE_CHECKING:
    from toolcrib.search.vectors import Embedder

PASSAGES_AT_ONCE = 500


class Line(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """One line: a collection, or a document of the collection named before."""

    collection: Collection | None = None
    document: Document | None = None
    text: str = ""
    outline: Outline = msgspec.field(default_factory=Outline)


async def export_lines(store: KnowledgeStore, collections: Sequence[str]) -> AsyncIterator[bytes]:
    """Each collection, followed by its documents."""
    for collection in await store.collections():
        if collection.id not in collections:
            continue
        yield msgspec.json.encode(Line(collection=collection))
        for document in await store.documents(collection.id):
            kept = await store.text(document.id)
            if kept is not None:
                plain = replace(document, key=0)
                yield msgspec.json.encode(Line(document=plain, text=kept.text, outline=kept.outline))


async def import_lines(store: KnowledgeStore, embedder: "Embedders | Embedder | None", lines: Iterable[bytes]) -> int:
    """Take in what was exported, some at a time, each time all or nothing; how many documents there were."""
    done, batch, target, embedders = 0, list[Arrival](), "", Embedders.of(embedder)
    for number, encoded in enumerate(lines, 1):
        if not encoded.strip():
            continue
        line = _decode(encoded, number)
        if line.collection is not None:
            await _store(store, embedders, target, batch)
            target, batch = line.collection.id, []
            await _take_collection(store, embedders, line.collection)
        elif line.document is not None and target:
            batch.append(_arrival(line.document, line, target))
            done += 1
            if sum(len(arrival.places) for arrival in batch) >= PASSAGES_AT_ONCE:
                await _store(store, embedders, target, batch)
                batch = []
    await _store(store, embedders, target, batch)
    return done


def _decode(encoded: bytes, number: int) -> Line:
    try:
        return msgspec.json.decode(encoded, type=Line)
    except msgspec.MsgspecError as error:
        hint = "Give a file that `toolcrib kb export` wrote."
        raise ConfigError(f"Line {number} is no exported document: {error}.", hint=hint) from None


async def _take_collection(store: KnowledgeStore, embedders: Embedders, given: Collection) -> None:
    """Its embedder is the one of the same name here, or the usual one."""
    known = {collection.id for collection in await store.collections()}
    if given.id not in known:
        name = given.embedder_name if given.embedder_name in embedders.names else embedders.default
        made = await embedders.embedding(name)
        ours = replace(given, embedder=made.model, dimensions=made.dimensions, embedder_name=name, coming=None)
        await store.put_collection(ours)


def _arrival(document: Document, line: Line, collection: str) -> Arrival:
    ours = replace(document, id=document_id(collection, document.source), collection=collection, key=0)
    return Arrival(ours, line.text, chunk(line.text, line.outline), line.outline)


async def _store(store: KnowledgeStore, embedders: Embedders, collection: str, arrivals: Sequence[Arrival]) -> None:
    if arrivals:
        await Arriving(store, embedders, collection).take(arrivals)
