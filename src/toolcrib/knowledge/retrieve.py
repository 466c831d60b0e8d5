"""Finding passages: the filter first, then the search, then what a reader needs to make use of what was found."""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

from toolcrib.core.errors import KnowledgeUnavailable
from toolcrib.core.knowledge import Document, DocumentFilter, KnowledgeReader, KnowledgeStore, Passage
from toolcrib.knowledge.fold import fold
from toolcrib.knowledge.index import ATTEMPTS, Index, Part, View
from toolcrib.knowledge.meaning import Asked, ask, find

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from toolcrib.search.hybrid import Hit

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
    document: Document
    text: str
    score: float
    lexical: float
    vector: float


@dataclass(frozen=True, slots=True)
class Findings:
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

    async def search(self, search: Search) -> Findings:
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

    async def _search_there(self, view: View, search: Search) -> Findings:
        """What a view does not hold itself is only there while the view is the latest."""
        for _ in range(ATTEMPTS):
            found = await self._store.consult(partial(self._look_if_current, await ask(view, search.query), search))
            if found is not None:
                return found
            view = await self._index.view(search.collections)
        raise KnowledgeUnavailable("The knowledge base changes faster than it can be searched.", hint="Try again.")

    def _look_if_current(self, asked: Asked, search: Search, reader: KnowledgeReader) -> Findings | None:
        return self._look(asked, search, reader) if reader.generation() == asked.view.generation else None

    def _look(self, asked: Asked, search: Search, reader: KnowledgeReader) -> Findings:
        began, view = time.perf_counter(), asked.view
        if not view.parts:
            return Findings((), search.query)
        masks = _masks(view, search, reader)
        texts = self._texts.reader(view.parts, reader)
        found = find(asked, search.top_k * 2 + 8, masks, texts)
        first = _first(found.hits, search.top_k + SPARE)
        chosen = self._choose(view.parts, first, search.top_k, reader)
        if len(chosen) < search.top_k and len(first) < len(found.hits):
            chosen = self._choose(view.parts, found.hits, search.top_k, reader)
        timings = dict(found.timings_ms) | {"total": (time.perf_counter() - began) * 1000}
        return Findings(tuple(chosen), found.processed_query, found.total, timings, found.rarity, asked.warnings)

    def _choose(
        self, parts: Sequence[Part], hits: "Sequence[Hit]", most: int, reader: KnowledgeReader
    ) -> list[FoundPassage]:
        passages = self._read(parts, hits, reader)
        ordered = sorted(passages, key=lambda each: (-each.score, each.document.source, each.passage.ordinal))
        return fold(ordered, lambda each: each.text, most)

    def _read(self, parts: Sequence[Part], hits: "Sequence[Hit]", reader: KnowledgeReader) -> list[FoundPassage]:
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


def _masks(view: View, search: Search, reader: KnowledgeReader) -> "list[NDArray[np.bool_] | None] | None":
    if search.wanted.is_open:
        return None
    import numpy as np

    keys = np.asarray(sorted(reader.keys(search.collections, search.wanted)), np.int64)
    return [np.isin(part.documents, keys) for part in view.parts]


def _row(part: Part, position: int) -> tuple[int, int]:
    return int(part.documents[position]), int(part.ordinals[position])


def _first(hits: "Sequence[Hit]", count: int) -> "Sequence[Hit]":
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

    def reader(self, parts: Sequence[Part], reader: KnowledgeReader) -> Callable[[int, int], str]:
        """For the search: a passage's text by segment and position."""

        def read(segment: int, position: int) -> str:
            part = parts[segment]
            key = int(part.documents[position])
            return self.of([key], reader).get(key, "")[int(part.starts[position]) : int(part.ends[position])]

        return read
