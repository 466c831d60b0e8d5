"""A knowledge base in a folder of its own, and files to fill it with."""

import os
import re
import zlib

import numpy as np
import pytest

from toolcrib.core.errors import UnreadableSource
from toolcrib.knowledge.index import Index
from toolcrib.knowledge.ingest import Ingest
from toolcrib.knowledge.retrieve import Retriever, Search
from toolcrib.knowledge.survey import Adding, SourceRoot
from toolcrib.stores.knowledge.store import SqliteKnowledge
from toolcrib.stores.postgres.database import StoreSettings
from toolcrib.stores.postgres.knowledge import PgKnowledge


class WordEmbedder:
    """Counts words into a few buckets: quick, and good enough to tell that vectors are made and used."""

    name, dimensions = "words", 64

    def embed(self, texts):
        rows = np.zeros((len(texts), self.dimensions), np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in re.findall(r"\w+", text.lower()):
                row[zlib.crc32(word.encode()) % self.dimensions] += 1
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


@pytest.fixture(scope="session")
def embedder():
    return WordEmbedder()


async def no_foreign(kind, content):
    raise UnreadableSource(f"{kind} is not read in this test")


def open_store(place):
    """A knowledge base in a file, or in PostgreSQL."""
    return PgKnowledge(place) if isinstance(place, StoreSettings) else SqliteKnowledge(place)


class Base:
    """A store with what fills and searches it; it is in a file, or in PostgreSQL."""

    def __init__(self, path, embedder, parse_foreign=no_foreign):
        self.path, self.embedder = path, embedder
        self.store = open_store(path)
        self.ingest = Ingest(self.store, embedder, parse_foreign)
        self.retriever = Retriever(self.store, Index(self.store, embedder))

    async def add(self, *paths, collection="notes", **said):
        return await self.ingest.add([SourceRoot(path) for path in paths], Adding(collection, **said))

    async def search(self, query, *collections, **wanted):
        return await self.retriever.search(Search(query, collections or ("notes",), **wanted))

    async def found(self, query, *collections, **wanted):
        passages = (await self.search(query, *collections, **wanted)).passages
        return [found.document.source.rpartition("/")[2] for found in passages]


@pytest.fixture
def place(tmp_path):
    """Where the knowledge base is; suites that hold for every engine have others, too."""
    return tmp_path / "kb.db"


@pytest.fixture
async def base(place, embedder):
    made = Base(place, embedder)
    yield made
    await made.store.close()


@pytest.fixture
def files(tmp_path):
    """Write files below a folder, with a time that lies back far enough to be trusted."""
    root = tmp_path / "files"
    root.mkdir()

    def write(**texts):
        for name, text in texts.items():
            path = root / name.replace("__", "/").replace("_dot_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            os.utime(path, (1_700_000_000, 1_700_000_000 + len(text)))
        return root

    return write
