"""The ``kb_*`` tools: each answers as its definition says; those that change something also tell how far they are."""

import asyncio
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from toolcrib.core.errors import EmbedderUnavailable, InvalidArguments, KnowledgeUnavailable
from toolcrib.core.knowledge import Collection, CollectionCounts, DocumentInfo, DocumentText, Passage
from toolcrib.knowledge.answer import Answerer
from toolcrib.knowledge.chunk import page_of, span_of, span_under
from toolcrib.knowledge.definitions import EVERY_COLLECTION
from toolcrib.knowledge.fill import Filling
from toolcrib.knowledge.index import check_collections
from toolcrib.knowledge.library import Library
from toolcrib.knowledge.queued import Progress
from toolcrib.knowledge.retrieve import (
    Search,
    citation,
    documents_after,
    page_mark,
    performance,
    place,
    read_filter,
    reference,
    result,
    shown_source,
)
from toolcrib.knowledge.statements import plain
from toolcrib.knowledge.survey import Adding
from toolcrib.search.tokens import highlights

Arguments = Mapping[str, Any]
Json = dict[str, Any]
Report = Callable[[float, float | None, str], None]
"""Takes how far a call is, how far it has to go, and a word on it."""

MANY_SEGMENTS = 40
LOOKS = 5
TOLD_EVERY_S = 0.1
_MARKER = re.compile(r"\[(\d{1,3})\]")


class KnowledgeTools:
    """The tools over one library, which is opened when the first of them is called."""

    def __init__(
        self,
        make_library: Callable[[], Library],
        make_answerer: Callable[[], Answerer],
        report: Report,
        *,
        fills: bool = True,
    ) -> None:
        self._make_library, self._make_answerer, self._report = make_library, make_answerer, report
        self._fills = fills
        """Whether vectors that are missing are made while nobody waits for them."""
        self._library: Library | None = None
        self._opening = asyncio.Lock()

    async def _open(self) -> Library:
        """The library; what could not be opened is tried again the next time."""
        async with self._opening:
            if self._library is None:
                library = self._make_library()
                try:
                    await (library.fill_in_background() if self._fills else library.open())
                except BaseException:
                    await library.close()
                    raise
                self._library = library
        return self._library

    async def close(self) -> None:
        """Close the library, if it was opened."""
        if self._library is not None:
            await self._library.close()

    async def add(self, given: Arguments) -> Json:
        """Add files, folders and pages, or have that done later."""
        library, collection = await self._open(), given.get("collection_id", "default")
        more = {"source_url": _address(given["source_url"])} if given.get("source_url") else {}
        said = given.get("title", ""), given.get("license"), given.get("version"), given.get("metadata", {}) | more
        wanted = Adding(collection, *said, given.get("embedder", ""))
        if given.get("later"):
            return {"collection_id": collection, "waiting": await library.add_later(given["sources"], wanted)}
        teller = ProgressTeller(self._report)
        report = await library.add(given["sources"], wanted, teller.tell_files, teller.tell_vectors)
        return report.to_json()

    async def remove(self, given: Arguments) -> Json:
        """Take documents out."""
        collection, names = given["collection_id"], given.get("documents")
        if (names is None) != bool(given.get("whole_collection")):
            raise InvalidArguments("Give either documents or whole_collection.", hint="Not both, and not neither.")
        return {"collection_id": collection, "removed": await (await self._open()).remove(collection, names)}

    async def reindex(self, given: Arguments) -> Json:
        """Build indexes anew, and make vectors."""
        library, teller = await self._open(), ProgressTeller(self._report)
        chosen = [each.id for each in await _collections(library, given.get("collection_ids") or ())]
        for collection in chosen:
            if given.get("embedder") or given.get("again"):
                await library.choose_embedder(collection, given.get("embedder", ""), again=bool(given.get("again")))
            if not given.get("vectors_only"):
                await library.rebuild(collection)
            if not given.get("later"):
                await _fill(library, collection, teller)
        return {"collections": [_counts(*pair) for pair in await _counted(library, chosen)] if chosen else []}

    async def export(self, given: Arguments) -> Json:
        """Documents with their texts, some at a time."""
        library, most = await self._open(), given.get("max_characters", 200_000)
        part = await library.export(given.get("collection_ids") or (), given.get("after", ""), most)
        return {"lines": part.lines, "documents": part.documents, "next": part.next}

    async def import_(self, given: Arguments) -> Json:
        """Take in what was exported."""
        library, teller = await self._open(), ProgressTeller(self._report)
        imported = await library.import_file(given["source"], teller.tell_bytes, teller.tell_vectors)
        return {
            "documents": imported.documents,
            "collection_ids": imported.collections,
            "vectors_missing": imported.trouble or None,
        }

    async def hybrid_search(self, arguments: Arguments) -> Json:
        """Search by words and meaning."""

        library = await self._open()
        wanted = read_filter(arguments.get("filters"))
        search = Search(
            arguments["query"], await _wanted(library, arguments["collection_ids"]), arguments.get("top_k", 10), wanted
        )
        findings = await library.search(search)
        return {
            "results": [result(found, highlights(search.query, found.text)) for found in findings.passages],
            "query_info": {"processed_query": findings.processed_query, "total_results": findings.total},
            "performance_metrics": performance(findings),
            **({"warnings": list(findings.warnings)} if findings.warnings else {}),
        }

    async def get_document(self, arguments: Arguments) -> Json:
        """Read a document, or a part of it."""

        library = await self._open()
        document, kept, (start, end) = await self._wanted_part(library, arguments)
        cut = min(end, start + arguments.get("max_characters", 20_000))
        return {
            "document_id": document.id,
            "collection_id": document.collection,
            "title": document.title,
            "type": document.type,
            "date": document.date or None,
            "metadata": dict(document.metadata),
            "citation": citation(document),
            "content": kept.text[start:cut],
            "place": {"start": start, "end": cut, "page": page_of(kept.outline, start)},
            "total_characters": len(kept.text),
            "next": cut if cut < end else None,
            "wanted_end": end,
            "outline": [{"level": h.level, "title": h.title, "start": h.start} for h in kept.outline.headings[:200]],
            "pages": len(kept.outline.pages) or None,
        }

    async def _wanted_part(
        self, library: Library, arguments: Arguments
    ) -> tuple[DocumentInfo, DocumentText, tuple[int, int]]:

        if arguments.get("chunk_id"):
            return await _around(library, arguments["chunk_id"], arguments.get("neighbours", 1))
        if not arguments.get("document_id"):
            raise InvalidArguments("Neither document_id nor chunk_id is given.", hint="Give one of them.")
        document, kept = await library.read(arguments["document_id"])
        if arguments.get("heading"):
            return document, kept, span_under(kept, arguments["heading"])
        if arguments.get("range"):
            return document, kept, span_of(kept, arguments["range"])
        return document, kept, (0, len(kept.text))

    async def stats(self, arguments: Arguments) -> Json:
        """How much there is, and whether all is well."""
        try:
            library = await self._open()
            counted = await _counted(library, arguments.get("collection_ids") or ())
        except KnowledgeUnavailable as trouble:
            return {"status": "unhealthy", "reasons": [str(trouble)], "collections": []}
        reasons = [reason for pair in counted for reason in await library.complaints(*pair)]
        reasons += [reason for pair in counted for reason in _complaints(*pair)]
        return {
            "status": "degraded" if reasons else "healthy",
            "reasons": reasons,
            "collections": [_counts(*pair) for pair in counted],
            "totals": {
                "collections": len(counted),
                "documents": sum(held.documents for _, held in counted),
                "passages": sum(held.passages for _, held in counted),
                "index_bytes": sum(held.index_bytes for _, held in counted),
            },
        }

    async def list_collections(self, arguments: Arguments) -> Json:
        """What can be searched."""
        library = await self._open()
        wanted = str(arguments.get("name_contains") or "").casefold()
        listed = [
            collection
            for collection in await library.store.collections()
            if wanted in f"{collection.id}\n{collection.name}\n{collection.description}".casefold()
            and all(collection.metadata.get(key) == value for key, value in (arguments.get("metadata") or {}).items())
        ]
        return {"collections": [_shown(each, await library.store.counts(each.id)) for each in listed]}

    async def list_documents(self, arguments: Arguments) -> Json:
        """The documents of a collection, some at a time."""
        library = await self._open()
        (collection,) = await _collections(library, [arguments["collection_id"]])
        limit = arguments.get("limit", 100)
        known = sorted(await library.store.documents(collection.id), key=lambda document: document.source)
        left = documents_after(known, arguments.get("after", ""))
        shown = left[:limit]
        return {
            "documents": [_entry(document) for document in shown],
            "next": page_mark(shown[-1]) if len(left) > limit else None,
        }

    async def resolve_citations(self, arguments: Arguments) -> Json:
        """Full references, each checked against what the documents say now."""
        library = await self._open()
        asked = [each if isinstance(each, Mapping) else {"chunk_id": each} for each in arguments["citations"]]
        references = [
            {"number": number, **await _resolve(library, each["chunk_id"], each.get("quote"))}
            for number, each in enumerate(asked, 1)
        ]
        markers = [
            {"marker": f"[{number}]", "number": number, "known": 0 < number <= len(asked)}
            for number in sorted({int(found) for found in _MARKER.findall(arguments.get("text") or "")})
        ]
        return {"references": references, "markers": markers}

    async def answer(self, arguments: Arguments) -> Json:
        """Answer from the documents."""

        library = await self._open()
        wanted = read_filter(arguments.get("filters"))
        search = Search(
            arguments["question"],
            await _wanted(library, arguments["collection_ids"]),
            arguments.get("top_k", 8),
            wanted,
        )
        answered = await self._make_answerer().answer(library, search)
        return answered.to_json()


def _address(text: str) -> str:
    if not text.startswith(("https://", "http://")):
        raise InvalidArguments(f"source_url: {text[:60]!r} is no web address.", hint="It begins with https://.")
    return text


class ProgressTeller:
    """Tells whoever made a call how far it is: never backwards, and not more often than a person could read."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._before = self._last = 0
        self._told_at = 0.0

    def tell_files(self, progress: Progress) -> None:
        """How many files were read."""
        self._before = progress.total
        self._tell(progress.done, progress.total, str(progress))

    def tell_bytes(self, total: int, done: int, documents: int) -> None:
        """How much of a file was read."""
        self._before = total
        self._tell(done, total, f"{documents} documents")

    def tell_vectors(self, filling: Filling) -> None:
        """How many passages have vectors; that comes after the files."""
        self._tell(self._before + filling.done, self._before + filling.total, str(filling))

    def _tell(self, done: int, total: int, message: str) -> None:
        now = time.monotonic()
        is_time = done >= total or now - self._told_at >= TOLD_EVERY_S
        if is_time and done > self._last:
            self._told_at, self._last = now, done
            self._report(done, total, message)


async def _fill(library: Library, collection: str, teller: ProgressTeller) -> None:
    try:
        await library.fill(collection, teller.tell_vectors)
    except EmbedderUnavailable as error:
        raise EmbedderUnavailable(
            f"Not all vectors of {collection!r} are made: {error}", hint="What was made stays; run it again to go on."
        ) from None


async def _around(library: Library, chunk: str, neighbours: int) -> tuple[DocumentInfo, DocumentText, tuple[int, int]]:
    """A passage with so many before and after it."""
    resolved = await library.passage(chunk)
    if resolved.document is None or resolved.passage is None:
        raise InvalidArguments(f"No passage {chunk[:100]!r}.", hint="Take chunk_id from a result of kb_hybrid_search.")
    document, kept = await library.read(resolved.document.id)
    passages: Sequence[Passage] = await library.store.passages(document.id)
    at = resolved.passage.ordinal
    first, last = passages[max(at - neighbours, 0)], passages[min(at + neighbours, len(passages) - 1)]
    return document, kept, (first.place.start, last.place.end)


async def _counted(library: Library, wanted: Sequence[str]) -> list[tuple[Collection, CollectionCounts]]:
    """Collections and what they hold, of one moment unless they change all the time."""
    counted = list[tuple[Collection, CollectionCounts]]()
    for _ in range(LOOKS):
        generation = await library.store.generation()
        chosen = await _collections(library, wanted)
        counted = [(collection, await library.store.counts(collection.id)) for collection in chosen]
        if await library.store.generation() == generation:
            break
    return counted


async def _wanted(library: Library, ids: Sequence[str]) -> tuple[str, ...]:
    """The collections to search."""
    return tuple(each.id for each in await library.store.collections()) if EVERY_COLLECTION in ids else tuple(ids)


async def _collections(library: Library, wanted: Sequence[str]) -> list[Collection]:

    await check_collections(library.store, wanted)
    return [each for each in await library.store.collections() if not wanted or each.id in wanted]


def _complaints(collection: Collection, held: CollectionCounts) -> Iterator[str]:
    if held.segments > MANY_SEGMENTS:
        yield f"{collection.id}: its index is in {held.segments} pieces, which slows searches."
    if held.dead_passages > max(held.passages, 1000):
        yield f"{collection.id}: most of its index is of documents that are gone."


def _counts(collection: Collection, held: CollectionCounts) -> Json:
    return {
        "collection_id": collection.id,
        "documents": held.documents,
        "passages": held.passages,
        "characters": held.characters,
        "document_types": dict(held.types),
        "embedder": collection.embedder,
        "embedder_name": collection.embedder_name,
        "dimensions": collection.dimensions,
        "waiting_for_vectors": held.lacking if collection.coming is None else held.waiting,
        "re_embedding": _coming(collection, held),
        "segments": held.segments,
        "index_bytes": held.index_bytes,
        "last_added": held.newest or None,
    }


def _entry(document: DocumentInfo) -> Json:
    return {
        "document_id": document.id,
        "source": shown_source(document),
        "title": document.title,
        "type": document.type,
        "date": document.date or None,
        "license": document.licence,
        "version": document.version,
        "metadata": dict(document.metadata),
        "bytes": document.stamp.size,
        "added": document.added,
    }


def _coming(collection: Collection, held: CollectionCounts) -> Json | None:
    """How far the vectors of another embedder are."""
    if collection.coming is None:
        return None
    done = held.passages - held.waiting
    percent = 100 * done // held.passages if held.passages else 100
    return {"embedder_name": collection.coming.name, "embedder": collection.coming.model, "percent": percent}


def _shown(collection: Collection, held: CollectionCounts) -> Json:
    return {
        "collection_id": collection.id,
        "name": collection.name,
        "description": collection.description,
        "metadata": dict(collection.metadata),
        "documents": held.documents,
        "passages": held.passages,
        "created": collection.created,
    }


async def _resolve(library: Library, chunk: str, quote: str | None) -> Json:

    resolved = await library.passage(chunk)
    document, passage = resolved.document, resolved.passage
    if document is None or passage is None:
        return {"chunk_id": chunk, "status": "missing", "quote_stands": None if quote is None else False}
    _, kept = await library.read(document.id)
    return {
        "chunk_id": passage.id,
        "status": resolved.status,
        "quote_stands": None if quote is None else _plain(quote) in _plain(kept.text),
        "content": kept.text[passage.place.start : passage.place.end],
        "document_id": document.id,
        "collection_id": document.collection,
        "citation": citation(document),
        "place": place(passage.place),
        "reference": reference(document, passage),
    }


def _plain(text: str) -> str:
    """Words alone: a quote may be spaced otherwise, and without links and bold type."""

    return plain(text).casefold()
