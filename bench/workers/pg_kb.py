"""``pg_kb.py URL CORPUS``: fills and searches a knowledge base in PostgreSQL, as stdin orders.

Each order is a line of JSON; each answer is one, too, after ``@@``.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np

from toolcrib.knowledge.ingest import put, work
from toolcrib.knowledge.library import Library
from toolcrib.knowledge.retrieve import Search
from toolcrib.knowledge.survey import Adding, SourceRoot
from toolcrib.search.model import bundled
from toolcrib.stores.postgres import kb_index as kb_tending
from toolcrib.stores.postgres.database import StoreSettings
from toolcrib.stores.postgres.knowledge import PgKnowledge

TOP = 10
INDEX_FROM = kb_tending.INDEX_FROM
Answer = dict[str, Any]


class Base:
    def __init__(self, url: str, corpus: Path) -> None:
        self.corpus = corpus
        self.library = Library(PgKnowledge(StoreSettings(url)), bundled)
        self.queries: list[str] = json.loads((corpus / "queries.json").read_text())

    async def open(self) -> Answer:
        kb_tending.INDEX_FROM = sys.maxsize  # vectors get their index at the end
        await self.library.open()
        return {}

    async def put(self, collection: str, parts: list[int]) -> Answer:
        assert self.library.ingest is not None
        roots = [SourceRoot(self.corpus / "files" / f"{part:02}") for part in parts]
        return {"documents": await put(self.library.ingest, roots, Adding(collection))}

    async def work(self, collection: str) -> Answer:
        assert self.library.ingest is not None
        began, cpu = time.perf_counter(), time.process_time()
        reports = [report async for report in work(self.library.ingest, [self.corpus], collection)]
        spent = {"s": time.perf_counter() - began, "cpu_s": time.process_time() - cpu}
        return {"documents": sum(report.added for report in reports), **spent}

    async def index(self, collection: str) -> Answer:
        kb_tending.INDEX_FROM = INDEX_FROM
        began = time.perf_counter()
        remote = self.library.store.remote
        assert remote is not None
        await remote.tidy(collection)
        return {"s": time.perf_counter() - began}

    async def search(self, collection: str, first: int, count: int) -> Answer:
        """Some queries one after the other, each timed; every one must bring rows with text."""
        times_ms = []
        for number in range(first, first + count):
            query = self.queries[number % len(self.queries)]
            began = time.perf_counter()
            found = await self.library.search(Search(query, (collection,), TOP))
            times_ms.append((time.perf_counter() - began) * 1000)
            if not found.passages or not all(each.text for each in found.passages):
                raise ValueError(f"query {query!r} brought nothing")
        return {"times_ms": times_ms}

    async def recall(self, collection: str, count: int) -> Answer:
        """How many of the ten that comparing every vector finds are found through the index."""
        index = self.library._retriever._index  # type: ignore[union-attr]
        view = await index.view([collection])
        met = []
        for query in self.queries[:count]:
            quick = await self._nearest(view, query, None)
            masks = [np.ones(len(part.alive), np.bool_) for part in view.parts]
            exact = await self._nearest(view, query, masks)
            met.append(len(quick & exact) / len(exact))
        return {"recall": sum(met) / len(met)}

    async def _nearest(self, view: Any, query: str, masks: Any) -> set[tuple[int, int]]:
        from toolcrib.stores.postgres import kb_index

        before, kb_index.EXACT_UP_TO = kb_index.EXACT_UP_TO, sys.maxsize if masks else kb_index.EXACT_UP_TO
        try:
            hits = await self.library.store.consult(
                lambda _: view.searcher.search(query, TOP, masks, mode="vector").hits
            )
        finally:
            kb_index.EXACT_UP_TO = before
        return {(hit.segment, hit.position) for hit in hits}


async def main() -> None:
    base = Base(sys.argv[1], Path(sys.argv[2]))
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        order = json.loads(line)
        do: Callable[..., Awaitable[Answer]] = getattr(base, order.pop("do"))
        print("@@" + json.dumps(await do(**order)), flush=True)
    await base.library.close()


asyncio.run(main())
