"""Arrivals go into the store with their vectors, or without them if their embedder is away: then these follow."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from toolcrib.core.errors import EmbedderUnavailable
from toolcrib.core.knowledge import Arrival, Change, KnowledgeStore
from toolcrib.knowledge.builder import Builder
from toolcrib.knowledge.compact import compact
from toolcrib.knowledge.embedding import Embedders, check_dimensions
from toolcrib.knowledge.fill import find_collection
from toolcrib.knowledge.indexing import build_segment, join_vectors, texts_to_embed

if TYPE_CHECKING:
    from toolcrib.search.vectors import Floats


class Arriving:
    """What comes into one collection, some at a time, each time all or nothing."""

    def __init__(
        self,
        store: KnowledgeStore,
        embedders: Embedders,
        collection: str,
        builder: Builder | None = None,
        on_stored: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self._store, self._embedders, self._collection = store, embedders, collection
        self._builder = builder or Builder()
        self._on_stored = on_stored or partial(compact, store, collection)
        self._embedding = asyncio.Lock()
        self.trouble = ""
        """Why vectors are missing; once something is wrong, the embedder is not asked again."""

    async def take(self, arrivals: Sequence[Arrival], removals: Sequence[str] = ()) -> None:
        """Store documents and take others out, in one step."""
        await self.store(await self.prepare(arrivals, removals))

    async def prepare(self, arrivals: Sequence[Arrival], removals: Sequence[str]) -> Change:
        """What is to be stored; several may be in preparation at once."""
        words, (vectors, is_lacking) = await asyncio.gather(self._builder.words(arrivals), self._vectors(arrivals))
        if words:
            segment = await asyncio.to_thread(join_vectors, words, vectors)
        else:
            segment = await asyncio.to_thread(build_segment, arrivals, vectors)
        return Change(self._collection, tuple(arrivals), tuple(removals), segment, is_lacking)

    async def store(self, change: Change) -> None:
        """All of it or nothing; one after the other."""
        await self._store.apply(change)
        await self._on_stored()

    async def _vectors(self, arrivals: Sequence[Arrival]) -> "tuple[Floats | None, bool]":
        """The vectors, if they can be made now, and whether they are lacking; in the order of the asking."""
        async with self._embedding:
            vectors = await self._try_to_embed(arrivals)
            return vectors, vectors is None and bool(self.trouble)

    async def _try_to_embed(self, arrivals: Sequence[Arrival]) -> "Floats | None":
        texts = texts_to_embed(arrivals)
        if self.trouble or not texts:
            return None
        try:
            return await self._embed(texts)
        except EmbedderUnavailable as error:
            self.trouble = str(error)
            return None

    async def _embed(self, texts: Sequence[str]) -> "Floats | None":
        known = await find_collection(self._store, self._collection)
        embedder = await self._embedders.find(known.embedding)
        if embedder is None:
            return None
        vectors = await embedder.embed_documents(texts)
        check_dimensions(known.embedder_name, vectors.shape[1], known.dimensions)
        if not known.dimensions:
            fresh = await find_collection(self._store, self._collection)
            await self._store.put_collection(replace(fresh, dimensions=vectors.shape[1]))
        return vectors
