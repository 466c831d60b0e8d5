"""Finding passages: the filter first, then the search, then what a reader needs to make use of what was found."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import PurePosixPath
from threading import Lock
from typing import Any, TypeVar

import numpy as np

from toolcrib.core.errors import EmbedderUnavailable, InvalidArguments, KnowledgeUnavailable
from toolcrib.core.knowledge import DocumentFilter, DocumentInfo, KnowledgeReader, KnowledgeStore, Passage, PassageSpan
from toolcrib.knowledge.index import ATTEMPTS, Group, Index, IndexView, SegmentPart
from toolcrib.knowledge.parse.parsed import to_utc
from toolcrib.search.hybrid import Hit, SearchHits, Texts
from toolcrib.search.vectors import Mask

Masks = Sequence[Mask | None] | None

CONSIDERED = 200
"""Passages of each ranking that are put together."""
SHARE = 0.25
"""How much the place in a ranking by meaning counts, where cosines of several models cannot be compared."""
FLATNESS = 20
"""The passage after so many better ones counts half."""


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    """A query whose vectors are at hand, in a view."""

    query: str
    view: IndexView
    ready: tuple[Group, ...]
    """Those that can be searched by meaning."""
    warnings: tuple[str, ...]
    """Why some are searched by words alone."""


async def ask(view: IndexView, query: str) -> PreparedQuery:
    """Have a query embedded, once per embedder."""
    outcomes = await asyncio.gather(*(_prepare(group, query) for group in view.groups))
    ready = [group for group, trouble in zip(view.groups, outcomes, strict=True) if not trouble]
    return PreparedQuery(query, view, tuple(ready), (*view.warnings, *dict.fromkeys(filter(None, outcomes))))


def find(asked: PreparedQuery, k: int, masks: Masks, texts: Texts) -> SearchHits:
    """The best passages. CPU work: run beside the event loop."""
    if not asked.ready:
        return asked.view.searcher.search(asked.query, k, masks, "lexical", texts)
    if len(asked.ready[0].parts) == len(asked.view.parts):
        return asked.view.searcher.search(asked.query, k, masks, "hybrid", texts)
    return _find_mixed(asked, k, masks, texts)


async def _prepare(group: Group, query: str) -> str:
    """Nothing if the group can be searched by meaning, else why it cannot."""
    try:
        await group.asking.prepare(query)
    except EmbedderUnavailable as error:
        return f"Only words count where this embedder is needed. {error}"
    return ""


def _find_mixed(asked: PreparedQuery, k: int, masks: Masks, texts: Texts) -> SearchHits:
    """By words over everything; by meaning in each group, where only the order counts."""
    query, most = asked.query, max(k, CONSIDERED)
    words = asked.view.searcher.search(query, most, masks, "lexical", texts)
    scored = {(hit.segment, hit.position): replace(hit, score=(1 - SHARE) * hit.score) for hit in words.hits}
    timings = dict(words.timings_ms)
    for group in asked.ready:
        within = None if masks is None else [masks[at] for at in group.parts]
        near = group.searcher.search(query, most, within, "vector")
        timings["vector"] = timings.get("vector", 0.0) + near.timings_ms["vector"]
        for rank, hit in enumerate(near.hits):
            place = (group.parts[hit.segment], hit.position)
            scored[place] = _joined(scored.get(place), hit, place, rank)
    by_meaning = sum(not hit.lexical for hit in scored.values())
    best = sorted(scored.values(), key=lambda hit: (-hit.score, hit.segment, hit.position))[:k]
    return replace(words, hits=best, total=words.total + by_meaning, timings_ms=timings)


def _joined(known: Hit | None, hit: Hit, place: tuple[int, int], rank: int) -> Hit:
    """What words say of a passage, and where meaning puts it."""
    by_meaning = SHARE * FLATNESS / (FLATNESS + rank)
    if known is None:
        return replace(hit, segment=place[0], score=round(by_meaning, 6), lexical=0.0)
    return replace(known, score=round(known.score + by_meaning, 6), vector=hit.vector)


T = TypeVar("T")
Shingles = frozenset[Hashable]

ALIKE = 0.8


def fold(items: Sequence[T], text_of: Callable[[T], str], most: int) -> list[T]:
    """The first items in order, without those that say nearly the same as an earlier one."""
    kept: list[T] = []
    seen: list[Shingles] = []
    for item in items:
        shingles = _shingles(text_of(item))
        if not any(_is_alike(shingles, other) for other in seen):
            kept.append(item)
            seen.append(shingles)
        if len(kept) == most:
            break
    return kept


def _shingles(text: str) -> Shingles:
    """Every three words in a row."""
    words = text.lower().split()
    return frozenset(zip(words, words[1:], words[2:], strict=False)) or frozenset(words)


def _is_alike(one: Shingles, other: Shingles) -> bool:
    larger, smaller = max(len(one), len(other)), min(len(one), len(other))
    if smaller < ALIKE * larger:
        return False
    shared = len(one & other)
    return shared >= ALIKE * (larger + smaller - shared)


TEXTS_MAX = 4_000_000
"""Characters of documents that are kept at hand."""
SPARE = 2
"""Passages read beyond those wanted at first; more only where near copies are left out."""
EVERYTHING = DocumentFilter()


@dataclass(frozen=True, slots=True)
class Search:
    """What is looked for, and where."""

    query: str
    collections: tuple[str, ...]
    top_k: int = 10
    wanted: DocumentFilter = EVERYTHING


@dataclass(frozen=True, slots=True)
class FoundPassage:
    """A passage that fits, with its document."""

    passage: Passage
    document: DocumentInfo
    text: str
    score: float
    lexical: float
    vector: float


@dataclass(frozen=True, slots=True)
class SearchResults:
    """What was found, the best first, and how."""

    passages: tuple[FoundPassage, ...]
    processed_query: str = ""
    total: int = 0
    timings_ms: Mapping[str, float] = field(default_factory=dict)
    rarity: Mapping[str, float] = field(default_factory=dict)
    """How rare each term of the query is in all that was searched."""
    warnings: tuple[str, ...] = ()
    """Why something was searched by words alone."""


class Retriever:
    """Searches the collections of a store."""

    def __init__(self, store: KnowledgeStore, index: Index) -> None:
        self._store, self._index = store, index
        self._texts = _Texts()

    async def search(self, search: Search) -> SearchResults:
        """The best passages that the filter lets pass; near copies of a better one are left out.

        While nothing changes, this is one trip to the thread that reads: what was last seen is searched there, once the
        store says that it is still so. Embedders elsewhere are asked before that.
        """
        view = self._index.latest(search.collections)
        if view is not None:
            found = await self._store.consult(partial(self._look_if_current, await ask(view, search.query), search))
            if found is not None:
                return found
        view = await self._index.view(search.collections)
        if self._store.remote is not None:
            return await self._search_there(view, search)
        return await self._store.consult(partial(self._look, await ask(view, search.query), search))

    async def _search_there(self, view: IndexView, search: Search) -> SearchResults:
        """What a view does not hold itself is only there while the view is the latest."""
        for _ in range(ATTEMPTS):
            found = await self._store.consult(partial(self._look_if_current, await ask(view, search.query), search))
            if found is not None:
                return found
            view = await self._index.view(search.collections)
        raise KnowledgeUnavailable("The knowledge base changes faster than it can be searched.", hint="Try again.")

    def _look_if_current(self, asked: PreparedQuery, search: Search, reader: KnowledgeReader) -> SearchResults | None:
        return self._look(asked, search, reader) if reader.generation() == asked.view.generation else None

    def _look(self, asked: PreparedQuery, search: Search, reader: KnowledgeReader) -> SearchResults:
        began, view = time.perf_counter(), asked.view
        if not view.parts:
            return SearchResults((), search.query)
        masks = _masks(view, search, reader)
        texts = self._texts.reader(view.parts, reader)
        found = find(asked, search.top_k * 2 + 8, masks, texts)
        first = _first(found.hits, search.top_k + SPARE)
        chosen = self._choose(view.parts, first, search.top_k, reader)
        if len(chosen) < search.top_k and len(first) < len(found.hits):
            chosen = self._choose(view.parts, found.hits, search.top_k, reader)
        timings = dict(found.timings_ms) | {"total": (time.perf_counter() - began) * 1000}
        return SearchResults(tuple(chosen), found.processed_query, found.total, timings, found.rarity, asked.warnings)

    def _choose(
        self, parts: Sequence[SegmentPart], hits: Sequence[Hit], most: int, reader: KnowledgeReader
    ) -> list[FoundPassage]:
        passages = self._read(parts, hits, reader)
        ordered = sorted(passages, key=lambda each: (-each.score, each.document.source, each.passage.ordinal))
        return fold(ordered, lambda each: each.text, most)

    def _read(self, parts: Sequence[SegmentPart], hits: Sequence[Hit], reader: KnowledgeReader) -> list[FoundPassage]:
        rows = [_row(parts[hit.segment], hit.position) for hit in hits]
        documents = reader.documents_of({key for key, _ in rows})
        passages = reader.passages_at(rows)
        texts = self._texts.of(documents, reader)
        return [
            FoundPassage(
                passage,
                documents[row[0]],
                texts[row[0]][passage.place.start : passage.place.end],
                hit.score,
                hit.lexical,
                hit.vector,
            )
            for row, hit in zip(rows, hits, strict=True)
            if row[0] in texts and (passage := passages.get(row)) is not None
        ]


def _masks(view: IndexView, search: Search, reader: KnowledgeReader) -> Masks:
    if search.wanted.is_open:
        return None
    keys = np.asarray(sorted(reader.keys(search.collections, search.wanted)), np.int64)
    return [np.isin(part.documents, keys) for part in view.parts]


def _row(part: SegmentPart, position: int) -> tuple[int, int]:
    return int(part.documents[position]), int(part.ordinals[position])


def _first(hits: Sequence[Hit], count: int) -> Sequence[Hit]:
    """So many of the best, and all that are as good as the last of them."""
    if len(hits) <= count:
        return hits
    return [hit for hit in hits if hit.score >= hits[count - 1].score]


class _Texts:
    """Texts of documents, the last ones read kept at hand; used by the threads that read."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, str] = OrderedDict()
        self._size = 0
        self._turn = Lock()

    def of(self, keys: Iterable[int], reader: KnowledgeReader) -> dict[int, str]:
        with self._turn:
            found = {key: self._kept[key] for key in keys if key in self._kept}
        missing = [key for key in keys if key not in found]
        fresh = reader.texts_of(missing) if missing else {}
        with self._turn:
            for key, text in fresh.items():
                self._keep(key, text)
        return found | fresh

    def _keep(self, key: int, text: str) -> None:
        if key in self._kept:
            return
        self._kept[key] = text
        self._size += len(text)
        while self._size > TEXTS_MAX and len(self._kept) > 1:
            _, dropped = self._kept.popitem(last=False)
            self._size -= len(dropped)

    def reader(self, parts: Sequence[SegmentPart], reader: KnowledgeReader) -> Callable[[int, int], str]:
        """For the search: a passage's text by segment and position."""

        def read(segment: int, position: int) -> str:
            part = parts[segment]
            key = int(part.documents[position])
            return self.of([key], reader).get(key, "")[int(part.starts[position]) : int(part.ends[position])]

        return read


Json = dict[str, Any]


def read_filter(filters: Mapping[str, Any] | None) -> DocumentFilter:
    """The filter that a call's ``filters`` mean."""
    given = filters or {}
    dates = given.get("date_range") or {}
    return DocumentFilter(
        types=tuple(given.get("document_types") or ()),
        since=_read_date(dates, "start"),
        until=_read_date(dates, "end"),
        metadata=dict(given.get("metadata") or {}),
    )


def _read_date(dates: Mapping[str, Any], bound: str) -> str:
    given = dates.get(bound)
    moment = to_utc(given)
    if given is not None and not moment:
        raise InvalidArguments(
            f"filters.date_range.{bound}: {str(given)[:60]!r} is no date.",
            hint="Write 2026-01-31 or 2026-01-31T12:00:00Z.",
        )
    return moment


SHOWS_PATHS: ContextVar[bool] = ContextVar("toolcrib-kb-paths", default=True)
"""Whether whoever is answered may know where on this machine documents are: a caller from elsewhere may not."""
ADDRESS_KEYS = ("source_url", "url")


def source_url(document: DocumentInfo) -> str | None:
    """Where the document is, as an address: its own word, or whoever added it, counts more than where it was read."""
    for key in ADDRESS_KEYS:
        said = document.metadata.get(key)
        if isinstance(said, str) and said.startswith(("https://", "http://")):
            return said
    if not document.source.startswith("/"):
        return document.source
    return PurePosixPath(document.source).as_uri() if SHOWS_PATHS.get() else None


def shown_source(document: DocumentInfo) -> str:
    """What it was read from; of a file on this machine, callers from elsewhere are told the name alone."""
    is_hidden = document.source.startswith("/") and not SHOWS_PATHS.get()
    return PurePosixPath(document.source).name if is_hidden else document.source


def exported_source(document: DocumentInfo) -> str:
    """The same as a name that no other document has."""
    shown = shown_source(document)
    return shown if shown == document.source else f"{document.id}/{shown}"


def page_mark(document: DocumentInfo) -> str:
    """After which document the next page of a list begins."""
    return document.source if shown_source(document) == document.source else document.id


def documents_after(documents: Sequence[DocumentInfo], mark: str) -> list[DocumentInfo]:
    """Those behind the one with that mark, of documents by source."""
    named = next((each.source for each in documents if each.id == mark), mark)
    return [each for each in documents if each.source > named]


def citation(document: DocumentInfo) -> Json:
    """Who is quoted."""
    return {
        "title": document.title,
        "source_url": source_url(document),
        "license": document.licence,
        "version": document.version,
    }


def place(where: PassageSpan) -> Json:
    """Where in a document."""
    return {"start": where.start, "end": where.end, "page": where.page, "headings": list(where.headings)}


def result(found: FoundPassage, highlights: Sequence[tuple[int, int]]) -> Json:
    """One result of a search."""
    return {
        "chunk_id": found.passage.id,
        "document_id": found.document.id,
        "collection_id": found.document.collection,
        "content": found.text,
        "title": found.document.title,
        "score": round(found.score, 4),
        "citation": citation(found.document),
        "place": place(found.passage.place),
        "highlights": [list(span) for span in highlights],
    }


def performance(findings: SearchResults) -> Json:
    """How long it took, in whole milliseconds."""
    timings = findings.timings_ms
    return {
        "total_time_ms": round(timings.get("total", 0)),
        "vector_search_time_ms": round(timings.get("vector", 0)),
        "bm25_search_time_ms": round(timings.get("lexical", 0)),
    }


def reference(document: DocumentInfo, passage: Passage) -> str:
    """A reference as a person would write it."""
    parts = [document.title]
    if document.version:
        parts.append(f"version {document.version}")
    if passage.place.page is not None:
        parts.append(f"page {passage.place.page}")
    if passage.place.headings:
        parts.append(f"“{' › '.join(passage.place.headings)}”")
    parts.append(source_url(document) or shown_source(document))
    if document.licence:
        parts.append(f"licence {document.licence}")
    return ", ".join(parts)
