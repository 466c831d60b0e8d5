"""The index that PostgreSQL searches: words from rows of postings, meaning through pgvector.

What it gives to a searcher is used in the threads of the desk, with the connection that is lent there.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from toolcrib.core.knowledge import Embedding, SegmentRecord
from toolcrib.search.hybrid import RunningElsewhere, NearestEntries
from toolcrib.search.lexical import Held
from toolcrib.stores.postgres.database import read_sql
from toolcrib.stores.postgres.kb_desk import QueryThreads
from toolcrib.stores.postgres.kb_reading import PgReader, array_of
from toolcrib.stores.postgres.kb_rows import ORDINALS, PostingBlock, PostingRow, decode_held
from toolcrib.stores.postgres.kb_writing import PgWriter

if TYPE_CHECKING:
    from psycopg import Connection


INDEX_FROM = 5_000
"""Vectors, from which on an index is quicker than comparing them one by one."""
LONGEST = 4_000
"""Numbers of a vector that an index can hold."""
MEMORY = "512MB"
SEARCHED = ("kb_vector", "kb_document", "kb_passage", "kb_body", "kb_posting")
"""Tables of which PostgreSQL has to know that they are large: until then it searches them as if they were small."""
LOOK_S = 0.25
"""How often to look whether whoever is at it has finished."""


def tend(connection: "Connection[Any]", fleet: str, collection: str, *, is_coming: bool) -> None:
    """Bring the indexes of vectors in order; if somebody else is at it, leave it to them unless it must be there."""
    if _unindexed(connection, fleet, collection, is_coming=is_coming) is None and not _out_of_use(connection, fleet):
        return
    name = f"toolcrib kb index {fleet}"
    if is_coming:
        lock(connection, name)
    elif not try_lock(connection, name):
        return
    try:
        if (wanted := _unindexed(connection, fleet, collection, is_coming=is_coming)) is not None:
            _build(connection, *wanted)
        for number in _out_of_use(connection, fleet):
            _sweep(connection, fleet, number)
    finally:
        unlock(connection, name)


def try_lock(connection: "Connection[Any]", name: str) -> bool:
    """Be the only connection that does something; false if another is at it."""
    found = connection.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", (name,)).fetchone()
    return bool(found is not None and found[0])


def lock(connection: "Connection[Any]", name: str) -> None:
    """Wait to be the only one, outside of any statement: whoever builds an index waits for all that are under way."""
    while not try_lock(connection, name):
        time.sleep(LOOK_S)


def unlock(connection: "Connection[Any]", name: str) -> None:
    """Let others do it."""
    if not connection.closed:
        connection.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", (name,))


def _unindexed(
    connection: "Connection[Any]", fleet: str, collection: str, *, is_coming: bool
) -> tuple[int, int] | None:
    """The set of vectors that wants an index, and how long they are."""
    column = "coming_vectors" if is_coming else "vectors"
    statement = read_sql("kb_unindexed").format(column=column)
    row = connection.execute(statement.encode(), {"fleet": fleet, "id": collection, "least": INDEX_FROM}).fetchone()
    return None if row is None or not 0 < row[1] <= LONGEST else (row[0], row[1])


def _build(connection: "Connection[Any]", number: int, size: int) -> None:
    connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS toolcrib.kb_hnsw_{number:d}".encode())
    connection.execute(f"SET maintenance_work_mem = '{MEMORY}'".encode())
    statement = f"""
    CREATE INDEX CONCURRENTLY kb_hnsw_{number:d} ON toolcrib.kb_vector
    USING hnsw ((embedding::halfvec({size:d})) halfvec_ip_ops) WHERE vectors = {number:d}"""
    connection.execute(statement.encode())
    connection.execute(b"RESET maintenance_work_mem")
    connection.execute(f"ANALYZE {', '.join(f'toolcrib.{table}' for table in SEARCHED)}".encode())


def _out_of_use(connection: "Connection[Any]", fleet: str) -> list[int]:
    return [row[0] for row in connection.execute(read_sql("kb_out_of_use").encode(), (fleet,)).fetchall()]


def _sweep(connection: "Connection[Any]", fleet: str, number: int) -> None:
    connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS toolcrib.kb_hnsw_{number:d}".encode())
    with connection.transaction():
        connection.execute("DELETE FROM toolcrib.kb_vector WHERE fleet = %s AND vectors = %s", (fleet, number))
        connection.execute("DELETE FROM toolcrib.kb_set WHERE fleet = %s AND id = %s", (fleet, number))


Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]
Positions = NDArray[np.intp]

EXACT_UP_TO = 4000
"""Passages under a filter that are compared one by one."""


class PgIndex:
    """A ``RemoteIndex``: what the parts of a view are, and how they are searched."""

    def __init__(self, reader: QueryThreads, writer: QueryThreads, fleet: str) -> None:
        self._reader, self._writer, self._fleet = reader, writer, fleet

    async def segment(self, record: SegmentRecord) -> PostingBlock | None:
        """What is kept in memory of a block; nothing if it was merged away meanwhile."""
        return await self._reader.do(lambda connection: PgReader(connection, self._fleet).block(record.id))

    async def vectors(self, collections: Sequence[str]) -> Mapping[str, int]:
        """The sets of vectors that collections are searched by."""
        return await self._reader.do(lambda connection: PgReader(connection, self._fleet).vectors(collections))

    def elsewhere(
        self, blocks: Sequence[PostingBlock], alive: Sequence[Mask | None], vectors: Mapping[str, int], size: int
    ) -> RunningElsewhere:
        """How these blocks are searched; by words alone if vectors have no size."""
        terms = Terms(self._reader, self._fleet, blocks)
        meaning = Near(self._reader, self._fleet, Searched(tuple(blocks), tuple(alive), vectors, size))
        return RunningElsewhere(terms, meaning if size else None)

    async def sizes(self, collection: str) -> set[int]:
        """How long the vectors are that were put aside for a collection."""
        statement, whose = read_sql("kb_sizes"), (self._fleet, collection)
        return await self._reader.do(
            lambda connection: {row[0] for row in PgReader(connection, self._fleet).rows(statement, whose)}
        )

    async def settle(self, collection: str, expected: Embedding | None, now: Embedding) -> bool:
        """Have what was put aside count from now on, with its index built before; false if it is not complete."""
        await self.tidy(collection, is_coming=expected is not None)
        is_done = await self._writer.do(
            lambda connection: PgWriter(connection, self._fleet).settle(collection, expected, now)
        )
        await self.tidy(collection)
        return is_done

    async def take_merging(self, collection: str) -> bool:
        """Be the only one who merges blocks of a collection, by a lock that ends with the connection."""
        return await self._writer.do(lambda connection: try_lock(connection, _merging(self._fleet, collection)))

    async def end_merging(self, collection: str) -> None:
        """Let the next one merge."""
        await self._writer.do(lambda connection: unlock(connection, _merging(self._fleet, collection)))

    async def tidy(self, collection: str, *, is_coming: bool = False) -> None:
        """Build the index of many vectors that have none, and clear away what nobody needs any more."""
        await self._writer.do(lambda connection: tend(connection, self._fleet, collection, is_coming=is_coming))


class Terms:
    """Asked for terms, reads what each block holds of them."""

    def __init__(self, desk: QueryThreads, fleet: str, blocks: Sequence[PostingBlock]) -> None:
        self._desk, self._fleet = desk, fleet
        self._blocks = [block.id for block in blocks]
        self._chosen = array_of(self._blocks)
        self._fields = {block.id: len(block.fields) for block in blocks}
        self._none = {
            block.id: Held(np.zeros(0, np.uint32), np.zeros((len(block.fields), 0), np.uint8)) for block in blocks
        }

    def __call__(self, terms: Sequence[str]) -> dict[str, list[Held]]:
        """For each term, what each block holds."""
        reader = PgReader(self._desk.lent, self._fleet)
        wanted = [term for term in terms if term and "\0" not in term]
        found = {
            (block, term): decode_held(PostingRow(*row).find(term), self._fields[block])
            for block, term, *row in reader.rows(read_sql("kb_terms"), (self._chosen, wanted, self._fleet))
        }
        return {term: [found.get((block, term), self._none[block]) for block in self._blocks] for term in terms}


@dataclass(frozen=True, slots=True)
class Searched:
    """Blocks with the sets of vectors of their collections."""

    blocks: tuple[PostingBlock, ...]
    alive: tuple[Mask | None, ...]
    vectors: Mapping[str, int]
    size: int


class Near:
    """Which passages are near a vector: through the index of a set that has one, else one by one."""

    def __init__(self, desk: QueryThreads, fleet: str, searched: Searched) -> None:
        self._desk, self._fleet, self._searched = desk, fleet, searched
        self._offsets = np.cumsum([0, *map(len, searched.blocks)])

    def near(self, vector: Floats, allowed: Sequence[Mask | None], count: int) -> NearestEntries:
        """The nearest that are allowed."""
        found = [
            row
            for collection, number in sorted(self._searched.vectors.items())
            for row in self._nearest(number, vector, self._documents(collection, allowed), count)
        ]
        best = sorted(found, key=lambda row: row[2])[:count]
        passages = np.array([key * ORDINALS + ordinal for key, ordinal, _ in best], np.int64)
        return self._placed(passages, np.array([-distance for _, _, distance in best], np.float32))

    def _documents(self, collection: str, allowed: Sequence[Mask | None]) -> "NDArray[np.int64] | None":
        """Those of a collection that a filter lets pass; nothing if there is no filter."""
        parts = [
            (block, mask, alive)
            for block, mask, alive in zip(self._searched.blocks, allowed, self._searched.alive, strict=True)
            if block.collection == collection
        ]
        if all(mask is None or (alive is not None and np.array_equal(mask, alive)) for _, mask, alive in parts):
            return None
        kept = [block.documents if mask is None else block.documents[mask] for block, mask, _ in parts]
        return np.concatenate([np.zeros(0, np.int64), *kept])

    def _nearest(
        self, number: int, vector: Floats, documents: "NDArray[np.int64] | None", count: int
    ) -> list[tuple[int, int, float]]:
        size = self._searched.size
        distance = f"embedding::halfvec({size}) <#> %s::halfvec({size})"
        where, parameters = f"fleet = %s AND vectors = {number:d}", list[Any]([_written(vector), self._fleet])
        if documents is not None:
            where += " AND document = ANY(%s::bigint[])"
            parameters.append(array_of(np.unique(documents).tolist()))
            if len(documents) <= EXACT_UP_TO:
                distance = f"({distance}) + 0"  # which no index knows
        statement = f"""
        SELECT document, ordinal, {distance} AS distance FROM toolcrib.kb_vector
        WHERE {where} ORDER BY distance LIMIT {count:d}"""  # noqa: S608 - numbers only
        return self._rows(statement, parameters)

    def _placed(self, passages: "NDArray[np.int64]", cosines: Floats) -> NearestEntries:
        """Where passages stand in all blocks together; those that are in none are left out."""
        entries, scores = [np.zeros(0, np.intp)], [np.zeros(0, np.float32)]
        for block, offset in zip(self._searched.blocks, self._offsets, strict=False):
            at, is_there = block.find(passages)
            entries.append((at[is_there] + offset).astype(np.intp))
            scores.append(cosines[is_there])
        found, near = np.concatenate(entries), np.concatenate(scores)
        order = np.argsort(found)
        return NearestEntries(found[order], near[order])

    def cosines(self, vector: Floats, entries: Positions) -> Floats:
        """Of these entries; one without a vector is near to nothing."""
        if not len(entries):
            return np.zeros(0, np.float32)
        which = np.searchsorted(self._offsets, entries, side="right") - 1
        documents, ordinals = np.zeros(len(entries), np.int64), np.zeros(len(entries), np.int64)
        for at, block in enumerate(self._searched.blocks):
            chosen = which == at
            inside = entries[chosen] - self._offsets[at]
            documents[chosen], ordinals[chosen] = block.documents[inside], block.ordinals[inside]
        size, result = self._searched.size, np.zeros(len(entries), np.float32)
        sets = ", ".join(map(str, sorted(self._searched.vectors.values())))
        statement = read_sql("kb_cosines").format(size=int(size), sets=sets)
        rows = self._rows(
            statement, [_written(vector), array_of(documents.tolist()), array_of(ordinals.tolist()), self._fleet]
        )
        for number, cosine in rows:
            result[number - 1] = cosine
        return result

    def _rows(self, statement: str, parameters: Sequence[Any]) -> list[Any]:
        return PgReader(self._desk.lent, self._fleet).rows(statement, parameters)


def _merging(fleet: str, collection: str) -> str:
    return f"toolcrib kb merge {fleet} {collection}"


def _written(vector: Floats) -> str:
    return "[" + ",".join(map(repr, vector.tolist())) + "]"
