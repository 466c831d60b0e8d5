"""``kb_speed.py CONTENDER CORPUS HOME``: fills and searches one contender's knowledge base, as stdin orders.

Run in the contender's own environment. Each order is a line of JSON; each answer is one, too, after ``@@``.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any, Protocol

import numpy as np

TOP = 10
AT_ONCE = 5_000  # rows handed over at once, where the library does not decide itself
RANK_CONSTANT = 60  # of reciprocal rank fusion, as published

Row = dict[str, Any]
Vector = Any


class Base(Protocol):
    def learn(self, part: int, vectors: Vector) -> None: ...
    def add(self, part: int, vectors: Vector) -> None: ...
    def finish(self) -> None: ...
    def search(self, query: str, vector: Vector) -> list[Row]: ...
    def nearest(self, query: str, vector: Vector) -> list[str]: ...
    def close(self) -> None: ...


class Corpus:
    """What ``kb_corpus.py`` wrote."""

    learnt: Vector = None
    """The vectors of the slice that comes next."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def rows(self, part: int) -> list[Row]:
        return [json.loads(line) for line in (self.home / f"{part:02}.jsonl").read_text().splitlines()]

    def cut(self, part: int) -> dict[str, list[Any]]:
        """The files of a slice, read and cut at blank lines, the heading kept with what follows: passages by column."""
        cut: dict[str, list[Any]] = {name: [] for name in ("id", "text", "title", "source", "ordinal", "headings")}
        ids, texts = cut["id"], cut["text"]
        for path in sorted(os.scandir(self.home / "files" / f"{part:02}"), key=attrgetter("name")):
            with open(path, encoding="utf-8") as file:
                heading, first, *rest = file.read().rstrip().split("\n\n")
            title = heading[2:].strip()
            size, name = 1 + len(rest), path.name
            ids += [f"{name[:-3]}-{at}" for at in range(size)]
            texts += [f"{heading}\n\n{first}", *rest]
            cut["title"] += [title] * size
            cut["source"] += [name] * size
            cut["ordinal"] += range(size)
            cut["headings"] += [title] * size
        return cut

    def vectors(self, part: int) -> Vector:
        return np.load(self.home / "vectors" / f"{part:02}.npy")

    @cached_property
    def queries(self) -> list[str]:
        found: list[str] = json.loads((self.home / "queries.json").read_text())
        return found

    @cached_property
    def query_vectors(self) -> Vector:
        return np.load(self.home / "queries.npy")


class Given:
    """An embedder that only looks up what was computed before."""

    name = "given"

    def __init__(self, queries: Sequence[str], vectors: Vector) -> None:
        self.dimensions = int(vectors.shape[1])
        self._queries = dict(zip(queries, vectors, strict=True))
        self._known = dict(self._queries)

    def learn(self, rows: Sequence[Row], vectors: Vector) -> None:
        texts = (f"{row['title']}\n{row['headings']}\n{row['text']}" for row in rows)
        self._known = self._queries | dict(zip(texts, vectors, strict=True))

    def embed(self, texts: Sequence[str]) -> Vector:
        return np.stack([self._known[text] for text in texts])


class Toolcrib:
    """Files on disk, added as ``toolcrib kb add`` adds them: read, parsed, cut, indexed, stored durably."""

    def __init__(self, corpus: Corpus, home: Path) -> None:
        from toolcrib.knowledge.library import Library
        from toolcrib.stores.knowledge.store import SqliteKnowledge

        self._corpus = corpus
        self._given = Given(corpus.queries, corpus.query_vectors)
        self._loop = asyncio.new_event_loop()
        self._library = self._loop.run_until_complete(
            Library(SqliteKnowledge(home / "kb.db"), lambda: self._given).open()
        )

    def learn(self, part: int, vectors: Vector) -> None:
        self._given.learn(self._corpus.rows(part), vectors)

    def add(self, part: int, vectors: Vector) -> None:
        from toolcrib.knowledge.survey import Adding, SourceRoot

        assert self._library.ingest is not None
        root = SourceRoot(self._corpus.home / "files" / f"{part:02}")
        report = self._loop.run_until_complete(self._library.ingest.add([root], Adding("all")))
        assert (report.passages, report.skipped) == (len(vectors), []), report

    def finish(self) -> None:
        """Nothing is left to do: what was added can be found."""

    def search(self, query: str, vector: Vector) -> list[Row]:
        from toolcrib.knowledge.retrieve import Search

        del vector  # the embedder knows it
        found = self._loop.run_until_complete(self._library.search(Search(query, ("all",), TOP)))
        return [
            {
                "id": f"{Path(each.document.source).stem}-{each.passage.ordinal}",
                "text": each.text,
                "title": each.document.title,
                "source": each.document.source,
                "ordinal": each.passage.ordinal,
                "headings": each.passage.place.headings,
                "score": each.score,
            }
            for each in found.passages
        ]

    def nearest(self, query: str, vector: Vector) -> list[str]:
        del vector
        index = self._library._retriever._index  # type: ignore[union-attr]
        view = self._loop.run_until_complete(index.view(["all"]))
        hits = view.searcher.search(query, TOP, mode="vector").hits
        keys = {int(view.parts[hit.segment].documents[hit.position]) for hit in hits}
        documents = self._loop.run_until_complete(self._library.store.consult(lambda reader: reader.documents_of(keys)))
        rows = [(view.parts[hit.segment], hit.position) for hit in hits]
        return [f"{Path(documents[int(p.documents[at])].source).stem}-{int(p.ordinals[at])}" for p, at in rows]

    def close(self) -> None:
        self._loop.run_until_complete(self._library.close())


class Lance:
    """A table with a vector index and a full-text index; hybrid queries with its own RRF reranker."""

    def __init__(self, corpus: Corpus, home: Path) -> None:
        import lancedb
        from lancedb.rerankers import RRFReranker

        self._corpus = corpus
        self._database = lancedb.connect(home / "lance")
        self._reranker = RRFReranker()
        self._table: Any = self._database.open_table("all") if (home / "lance" / "all.lance").exists() else None

    def learn(self, part: int, vectors: Vector) -> None:
        """They are handed over as they are."""

    def add(self, part: int, vectors: Vector) -> None:
        import pyarrow as pa

        columns = self._corpus.cut(part)
        flat = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
        table = pa.table(columns | {"vector": flat})
        for at in range(0, len(table), AT_ONCE):
            self._put(table.slice(at, AT_ONCE))

    def _put(self, rows: Any) -> None:
        if self._table is None:
            self._table = self._database.create_table("all", rows)
        else:
            self._table.add(rows)

    def finish(self) -> None:
        from lancedb.index import FTS, IvfFlat

        self._table.create_index("text", config=FTS(with_position=False))
        self._table.create_index("vector", config=IvfFlat(distance_type="cosine"))
        self._table.optimize()

    def search(self, query: str, vector: Vector) -> list[Row]:
        asked = self._table.search(query_type="hybrid", vector_column_name="vector").vector(vector).text(query)
        wanted = ["id", "text", "title", "source", "ordinal", "headings"]
        found: list[Row] = asked.distance_type("cosine").rerank(self._reranker).limit(TOP).select(wanted).to_list()
        return found

    def nearest(self, query: str, vector: Vector) -> list[str]:
        del query
        found = self._table.search(vector, query_type="vector").distance_type("cosine").limit(TOP).select(["id"])
        return [row["id"] for row in found.to_list()]

    def close(self) -> None:
        """There is nothing to let go of."""


class Chroma:
    """Its local client has vectors and a filter for text, no ranking by words; the two ways are put together here."""

    def __init__(self, corpus: Corpus, home: Path) -> None:
        import chromadb
        from chromadb.config import Settings

        self._corpus = corpus
        client = chromadb.PersistentClient(str(home / "chroma"), Settings(anonymized_telemetry=False))
        self._all = client.get_or_create_collection(
            "all", embedding_function=None, configuration={"hnsw": {"space": "cosine"}}
        )

    def learn(self, part: int, vectors: Vector) -> None:
        """They are handed over as they are."""

    def add(self, part: int, vectors: Vector) -> None:
        columns = self._corpus.cut(part)
        ids, texts = columns.pop("id"), columns.pop("text")
        about = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        for at in range(0, len(ids), AT_ONCE):
            some = slice(at, at + AT_ONCE)
            self._all.add(ids[some], vectors[some], about[some], texts[some])

    def finish(self) -> None:
        """Nothing is left to do."""

    def search(self, query: str, vector: Vector) -> list[Row]:
        """Nearest of all, and nearest of those with the query's longest word in them, by reciprocal rank."""
        word = max(query.split(), key=len)
        both = [self._ask(vector), self._ask(vector, where_document={"$contains": word})]
        known = {row["id"]: row for rows in both for row in rows}
        scores = dict.fromkeys(known, 0.0)
        for rows in both:
            for rank, row in enumerate(rows, 1):
                scores[row["id"]] += 1 / (RANK_CONSTANT + rank)
        ranked = sorted(known, key=lambda id_: -scores[id_])[:TOP]
        return [known[id_] for id_ in ranked]

    def nearest(self, query: str, vector: Vector) -> list[str]:
        del query
        return [row["id"] for row in self._ask(vector)]

    def close(self) -> None:
        """There is nothing to let go of."""

    def _ask(self, vector: Vector, **narrowed: Any) -> list[Row]:
        wanted = ["documents", "metadatas", "distances"]
        found = self._all.query([vector], n_results=TOP, include=wanted, **narrowed)
        columns = (found[name][0] for name in ("ids", "documents", "metadatas"))
        return [{"id": id_, "text": text, **about} for id_, text, about in zip(*columns, strict=True)]


class ChromaVectors(Chroma):
    """Its vectors alone: less work than the others do, told so that nobody misses it."""

    def search(self, query: str, vector: Vector) -> list[Row]:
        del query
        return self._ask(vector)


CONTENDERS: dict[str, Callable[[Corpus, Path], Base]] = {
    "toolcrib": Toolcrib,
    "lancedb": Lance,
    "chroma": Chroma,
    "chroma-vectors": ChromaVectors,
}


def queries_of(base: Base, corpus: Corpus, order: dict[str, Any]) -> dict[str, Any]:
    """Some queries one after the other, each timed; every one must bring ten rows with text and a title."""
    times_ms = []
    for number in range(order["first"], order["first"] + order["count"]):
        at = number % len(corpus.queries)
        began = time.perf_counter()
        found = base.search(corpus.queries[at], corpus.query_vectors[at])
        times_ms.append((time.perf_counter() - began) * 1000)
        if not found or len(found) > TOP or not all(row["text"] and row["title"] for row in found):
            raise ValueError(f"query {at} brought {len(found)} rows")
    return {"times_ms": times_ms}


def recall_of(base: Base, corpus: Corpus, order: dict[str, Any]) -> dict[str, Any]:
    """How many of the ten vectors that are really nearest are found by vectors alone."""
    chosen = range(0, len(corpus.queries), max(1, len(corpus.queries) // order["count"]))
    wanted = np.stack([corpus.query_vectors[at] for at in chosen])
    best: list[list[tuple[float, str]]] = [[] for _ in chosen]
    for part in range(order["parts"]):
        ids = [row["id"] for row in corpus.rows(part)]
        scores = wanted @ corpus.vectors(part).T
        for kept, row in zip(best, scores, strict=True):
            top = np.argpartition(-row, TOP)[:TOP]
            kept += [(float(row[at]), ids[at]) for at in top]
    exact = [{id_ for _, id_ in sorted(kept, reverse=True)[:TOP]} for kept in best]
    met = [
        len(ids & set(base.nearest(corpus.queries[at], corpus.query_vectors[at]))) / TOP
        for at, ids in zip(chosen, exact, strict=True)
    ]
    return {"recall": sum(met) / len(met)}


def learn_of(base: Base, corpus: Corpus, order: dict[str, Any]) -> dict[str, Any]:
    """Have the vectors of a slice at hand: whoever makes them is not what is measured."""
    corpus.learnt = corpus.vectors(order["part"])
    base.learn(order["part"], corpus.learnt)
    return {}


def add_of(base: Base, corpus: Corpus, order: dict[str, Any]) -> dict[str, Any]:
    began = time.perf_counter()
    base.add(order["part"], corpus.learnt)
    return {"s": time.perf_counter() - began}


def finish_of(base: Base, corpus: Corpus, order: dict[str, Any]) -> dict[str, Any]:
    del corpus, order
    began = time.perf_counter()
    base.finish()
    return {"s": time.perf_counter() - began}


ORDERS: dict[str, Callable[[Base, Corpus, dict[str, Any]], dict[str, Any]]] = {
    "learn": learn_of,
    "add": add_of,
    "finish": finish_of,
    "queries": queries_of,
    "recall": recall_of,
}


def orders() -> Iterator[dict[str, Any]]:
    for line in sys.stdin:
        yield json.loads(line)


def main() -> None:
    contender, corpus, home = sys.argv[1], Corpus(Path(sys.argv[2])), Path(sys.argv[3])
    base = CONTENDERS[contender](corpus, home)
    for order in orders():
        print("@@" + json.dumps(ORDERS[order["do"]](base, corpus, order)), flush=True)
    base.close()


main()
