"""Finding passages: the filter first, then the search, then what a reader needs to make use of what was found."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from toolcrib.core.knowledge import Document, DocumentFilter, KnowledgeStore, Passage
from toolcrib.knowledge.fold import fold
from toolcrib.knowledge.index import Index, Part, View
from toolcrib.knowledge.meaning import find

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from toolcrib.search.hybrid import Found, Hit

TEXTS_MAX = 32_000_000
"""Characters of documents that are kept at hand."""
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
        self._texts = _Texts(store)

    async def search(self, search: Search) -> Findings:
        """The best passages that the filter lets pass; near copies of a better one are left out."""
        began = asyncio.get_running_loop().time()
        view = await self._index.view(search.collections)
        if not view.parts:
            return Findings((), search.query)
        masks = await self._masks(view, search)
        texts = self._texts.reader(view.parts)
        found, warnings = await find(view, search.query, search.top_k * 2 + 8, masks, texts)
        passages = await self._read(view.parts, found.hits)
        ordered = sorted(passages, key=lambda each: (-each.score, each.document.source, each.passage.ordinal))
        chosen = fold(ordered, lambda each: each.text, search.top_k)
        timings = dict(found.timings_ms) | {"total": (asyncio.get_running_loop().time() - began) * 1000}
        return Findings(tuple(chosen), found.processed_query, _total(found, passages), timings, found.rarity, warnings)

    async def _masks(self, view: View, search: Search) -> "list[NDArray[np.bool_] | None] | None":
        if search.wanted.is_open:
            return None
        import numpy as np

        keys = np.asarray(sorted(await self._store.keys(search.collections, search.wanted)), np.int64)
        return [np.isin(part.documents, keys) for part in view.parts]

    async def _read(self, parts: Sequence[Part], hits: "Sequence[Hit]") -> list[FoundPassage]:
        rows = [_row(parts[hit.segment], hit.position) for hit in hits]
        documents = await self._store.documents_of({key for key, _ in rows})
        passages = await self._store.passages_at(rows)
        texts = await self._texts.of(documents)
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


def _row(part: Part, position: int) -> tuple[int, int]:
    return int(part.documents[position]), int(part.ordinals[position])


def _total(found: "Found", passages: Sequence[FoundPassage]) -> int:
    return max(found.total, len(passages))


class _Texts:
    """Texts of documents, the last ones used kept at hand."""

    def __init__(self, store: KnowledgeStore) -> None:
        self._store = store
        self._kept: OrderedDict[int, str] = OrderedDict()
        self._size = 0

    async def of(self, keys: Mapping[int, object] | Sequence[int]) -> dict[int, str]:
        missing = [key for key in keys if key not in self._kept]
        found = {key: self._kept[key] for key in keys if key in self._kept}
        for key, text in (await self._store.texts_of(missing) if missing else {}).items():
            found[key] = text
            self._keep(key, text)
        return found

    def _keep(self, key: int, text: str) -> None:
        if key not in self._kept:
            self._kept[key] = text
            self._size += len(text)
        while self._size > TEXTS_MAX and len(self._kept) > 1:
            _, dropped = self._kept.popitem(last=False)
            self._size -= len(dropped)

    def reader(self, parts: Sequence[Part]) -> Callable[[int, int], str]:
        """For the thread that searches: a passage's text by segment and position."""
        loop = asyncio.get_running_loop()

        def read(segment: int, position: int) -> str:
            part = parts[segment]
            key = int(part.documents[position])
            text = self._kept.get(key)
            if text is None:
                text = asyncio.run_coroutine_threadsafe(self.of([key]), loop).result().get(key, "")
            return text[int(part.starts[position]) : int(part.ends[position])]

        return read
