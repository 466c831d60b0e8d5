"""Vectors that are missing are made while a server runs, quietly, and again after a while if their embedder is away."""

import asyncio
from contextlib import suppress

from toolcrib.core.errors import EmbedderUnavailable, ToolcribError
from toolcrib.core.knowledge import KnowledgeStore
from toolcrib.core.tasks import TaskScope
from toolcrib.knowledge.embedding import Embedders
from toolcrib.knowledge.fill import fill

FIRST_WAIT_S = 5.0
LONGEST_WAIT_S = 300.0


class Background:
    """One task that fills collections one after the other, whenever it is told that there may be something to do."""

    def __init__(self, store: KnowledgeStore, embedders: Embedders, first_wait_s: float = FIRST_WAIT_S) -> None:
        self._store, self._embedders, self._first_wait_s = store, embedders, first_wait_s
        self._scope = TaskScope(lambda *_: None)
        self._wanted = asyncio.Event()
        self._seen = 0
        self._is_in_trouble = False

    def start(self) -> None:
        """Begin with what an earlier process left undone."""
        self._wanted.set()
        self._scope.spawn(self._run(), "kb-vectors")

    async def look(self) -> None:
        """Have another look if the store has changed, by whichever process."""
        generation = await self._store.generation()
        if generation != self._seen:
            self._seen = generation
            self._wanted.set()

    async def _run(self) -> None:
        wait_s = self._first_wait_s
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            await self._fill_all()
            if not self._is_in_trouble:
                wait_s = self._first_wait_s
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._wanted.wait()
            self._wanted.set()
            wait_s = min(wait_s * 2, LONGEST_WAIT_S)

    async def _fill_all(self) -> None:
        """Whatever is wrong is told by the statistics, which ask for themselves; here it is only tried again."""
        self._is_in_trouble = False
        try:
            for collection in await self._store.incomplete():
                await self._fill(collection)
        except ToolcribError:
            self._is_in_trouble = True

    async def _fill(self, collection: str) -> None:
        try:
            await fill(self._store, self._embedders, collection)
        except EmbedderUnavailable:
            self._is_in_trouble = True

    async def close(self) -> None:
        """Stop; what was made stays, and the next process goes on from there."""
        await self._scope.close()
