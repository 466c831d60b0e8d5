"""``kb_embedder.py fill|check DIR``: changes the embedder of a collection until it is killed, or says what is there.

``fill`` prints one line for each batch of vectors once it was put aside. ``check`` prints JSON.
"""

import asyncio
import json
import os
import re
import sys
import time
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from toolcrib.knowledge.embedding import Embedders, InProcess
from toolcrib.knowledge.fill import Filling, choose_embedder, fill
from toolcrib.knowledge.index import Index
from toolcrib.knowledge.ingest import Ingest
from toolcrib.knowledge.library import refuse_foreign
from toolcrib.knowledge.retrieve import Retriever, Search
from toolcrib.knowledge.survey import Adding, SourceRoot
from toolcrib.stores.knowledge.store import SqliteKnowledge

DOCUMENTS = 60
COLLECTION = "crash"


class Buckets:
    """Counts words into so many buckets."""

    def __init__(self, dimensions: int) -> None:
        self.name, self.dimensions = f"buckets{dimensions}", dimensions

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        rows = np.zeros((len(texts), self.dimensions), np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in re.findall(r"\w+", text.lower()):
                row[zlib.crc32(word.encode()) % self.dimensions] += 1
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.float32(1e-9))


class Slow(InProcess):
    """Few at a time, so that a kill meets it at work."""

    batch = 4


def embedders() -> Embedders:
    return Embedders({"one": lambda: Slow(Buckets(32)), "other": lambda: Slow(Buckets(48))}, "one")


async def change(home: Path) -> None:
    """Make documents if there are none, then go back and forth between two embedders."""
    store, known = SqliteKnowledge(home / "kb.db"), embedders()
    if not await store.collections():
        (home / "files").mkdir(exist_ok=True)
        for number in range(DOCUMENTS):
            (home / "files" / f"d{number}.md").write_text(f"# d{number}\n\nThe word w{number}w stands here.")
        await Ingest(store, known, refuse_foreign).add([SourceRoot(home / "files")], Adding(COLLECTION))

    def tell(filling: Filling) -> None:
        os.write(1, b"%d %d\n" % (filling.done, filling.total))

    while True:
        (now,) = await store.collections()
        wanted = now.coming.name if now.coming else "other" if now.embedder_name == "one" else "one"
        await choose_embedder(store, known, COLLECTION, wanted)
        await fill(store, known, COLLECTION, tell)


async def check(home: Path) -> dict[str, object]:
    began = time.monotonic()
    store, known = SqliteKnowledge(home / "kb.db"), embedders()
    (collection,) = await store.collections()
    held = await store.counts(COLLECTION)
    reopened_s = time.monotonic() - began
    retriever = Retriever(store, Index(store, known))
    faults = await store.verify()
    for number in range(DOCUMENTS):
        found = (await retriever.search(Search(f"w{number}w", (COLLECTION,), 1))).passages
        if not found or found[0].document.title != f"d{number}" or not found[0].vector > 0:
            faults.append(f"d{number} is not found by its vector")
    await store.close()
    done = held.passages - held.waiting if collection.coming else held.passages
    return {"reopened_s": reopened_s, "fault": "; ".join(faults[:3]), "done": done, "embedder": collection.embedder}


if __name__ == "__main__":
    command, place = sys.argv[1], Path(sys.argv[2])
    if command == "fill":
        asyncio.run(change(place))
    else:
        print(json.dumps(asyncio.run(check(place))))
