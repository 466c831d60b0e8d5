"""The shared knowledge base as it is changed, each change in one transaction.

Whoever changes a collection holds its row (in share, if only documents come and go), then documents, and last of all
the row with the generation: so writers hardly wait for each other, and generations come in the order of the commits.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, Any

import numpy as np

from toolcrib.core.errors import UnknownCollection
from toolcrib.core.knowledge import (
    Arrival,
    Collection,
    CollectionChange,
    Embedding,
    Job,
    JobBatch,
    Merging,
    Stamp,
    passages_of,
)
from toolcrib.search.hybrid import Segment
from toolcrib.search.vectors import Vectors
from toolcrib.stores.knowledge.database import coming_json, to_json
from toolcrib.stores.postgres import kb_rows as frames
from toolcrib.stores.postgres.database import read_sql, rows_of
from toolcrib.stores.postgres.kb_desk import QueryThreads
from toolcrib.stores.postgres.kb_reading import columns_of
from toolcrib.stores.postgres.kb_rows import COLUMNS, decode_head, encode_head, posting_rows

if TYPE_CHECKING:
    from psycopg import Connection


LEASE_S = 60
"""How long a worker that says nothing keeps what it took."""
PLENTY = 1000
"""Sources that wait, from which on nobody is short of them."""


def done(fleet: str, collection: str, jobs: Sequence[Job]) -> tuple[Any, ...]:
    """The statement that finishes jobs, and what it takes."""
    sources = [job.source for job in jobs]
    taken = (sources, [job.worker for job in jobs], [job.asked for job in jobs])
    return read_sql("kb_job_done"), fleet, collection, sources, *taken


class PgJobs:
    """A ``JobQueue`` in ``kb_job``."""

    def __init__(self, desk: QueryThreads, fleet: str, lease_s: float = LEASE_S) -> None:
        self._desk, self._fleet, self.lease_s = desk, fleet, lease_s

    async def _run(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return await self._desk.do(lambda connection: rows_of(connection, statement, parameters))

    async def put(self, errand: JobBatch, jobs: Mapping[str, str]) -> None:
        """Have sources worked on."""
        sources = sorted(jobs)
        said = (self._fleet, errand.collection, errand.adding)
        await self._run(read_sql("kb_job_put"), *said, sources, [jobs[source] for source in sources])

    async def next(self, collection: str | None, without: Sequence[str]) -> JobBatch | None:
        """What could be taken now."""
        rows = await self._run(read_sql("kb_job_next"), self._fleet, collection, collection, list(without))
        return JobBatch(*rows[0]) if rows else None

    async def take(self, worker: str, errand: JobBatch, most: int, without: Sequence[str]) -> list[Job]:
        """Take some that nobody has."""
        chosen = (self._fleet, errand.collection, errand.adding, list(without), most)
        rows = await self._run(read_sql("kb_job_take"), worker, self.lease_s, *chosen)
        return sorted((Job(*row) for row in rows), key=lambda job: job.source)

    async def share(self, errand: JobBatch) -> int | None:
        """Half of what each would get of the rest."""
        said = {"fleet": self._fleet, "collection": errand.collection, "adding": errand.adding, "plenty": PLENTY}
        statement = read_sql("kb_job_share")
        ((waiting, workers),) = await self._desk.do(lambda connection: rows_of(connection, statement, said))
        return None if workers is None or workers < 2 else waiting // (2 * workers)

    async def keep(self, worker: str) -> None:
        """Go on having what one has."""
        statement = """
        UPDATE toolcrib.kb_job SET until = clock_timestamp() + %s * interval '1 second'
        WHERE fleet = %s AND worker = %s AND until > clock_timestamp()"""
        await self._run(statement, self.lease_s, self._fleet, worker)

    async def give_back(self, worker: str, sources: Sequence[str] | None = None) -> None:
        """Leave these to others, or everything."""
        chosen = None if sources is None else list(sources)
        statement = """
        UPDATE toolcrib.kb_job SET worker = '', until = '-infinity', attempts = attempts - 1
        WHERE fleet = %s AND worker = %s AND (%s::text[] IS NULL OR source = ANY(%s))"""
        await self._run(statement, self._fleet, worker, chosen, chosen)

    async def finish(self, collection: str, jobs: Sequence[Job]) -> None:
        """These are done."""
        await self._run(*done(self._fleet, collection, jobs))

    async def left(self, errand: JobBatch, worker: str, without: Sequence[str]) -> int:
        """How many wait, or are with others."""
        statement = """
        SELECT count(*) FROM toolcrib.kb_job
        WHERE fleet = %s AND collection = %s AND adding = %s AND worker <> %s AND NOT source = ANY(%s::text[])"""
        rows = await self._run(statement, self._fleet, errand.collection, errand.adding, worker, list(without))
        return int(rows[0][0])

    async def close(self) -> None:
        """Let go of the connection."""
        await self._desk.close()


Row = tuple[int, int]

_WHERE = Struct(">iiiiii")
_DOCUMENT = (
    "fleet, key, id, collection, source, title, type, hash, size, mtime_ns, date, licence, version, metadata, added,"
    " characters, passages, lacks_vectors"
)
_PASSAGE = "fleet, document, ordinal, first, past, page, headings, mark"
_ADVANCE = """
INSERT INTO toolcrib.kb_state VALUES (%s, 2)
ON CONFLICT (fleet) DO UPDATE SET generation = kb_state.generation + 1 RETURNING generation"""


@dataclass(frozen=True, slots=True)
class _Known:
    """What a change needs to know of its collection."""

    coming: str
    dimensions: int
    vectors: int
    coming_vectors: int


class PgWriter:
    """Every statement that changes the rows of one fleet."""

    def __init__(self, connection: "Connection[Any]", fleet: str) -> None:
        self._connection, self._fleet = connection, fleet
        self.is_alone = False
        """Whether other changes to the collection wait until this one is done; they need not, unless they collide."""

    def _run(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return rows_of(self._connection, statement, parameters)

    def _advance(self) -> int:
        return int(self._run(_ADVANCE, self._fleet)[0][0])

    def _known(self, collection: str, lock: str) -> _Known | None:
        statement = f"""
        SELECT coming, dimensions, vectors, coming_vectors FROM toolcrib.kb_collection
        WHERE fleet = %s AND id = %s FOR {lock}"""  # noqa: S608
        found = self._run(statement, self._fleet, collection)
        return _Known(*found[0]) if found else None

    def put_collection(self, collection: Collection) -> None:
        """Make it, or change what is said of it; vectors for what is no longer coming are left to be swept away."""
        coming = coming_json(collection.coming)
        with self._connection.transaction():
            known = self._known(collection.id, "UPDATE")
            vectors = known.vectors if known is not None else self._new_set()
            made = known.coming_vectors if known is not None and known.coming == coming else 0
            made = self._new_set() if coming and not made else made
            said = (collection.name or collection.id, collection.description, to_json(collection.metadata))
            how = (collection.embedder, collection.dimensions, collection.created, collection.embedder_name, coming)
            self._run(read_sql("kb_put_collection"), self._fleet, collection.id, *said, *how, vectors, made)
            self._advance()

    def _new_set(self) -> int:
        statement = "INSERT INTO toolcrib.kb_set VALUES (%s, nextval('toolcrib.kb_number')) RETURNING id"
        return int(self._run(statement, self._fleet)[0][0])

    def remove_collection(self, collection: str) -> bool:
        """Take it away with all but its vectors, which are left to be swept away."""
        with self._connection.transaction():
            if self._known(collection, "UPDATE") is None:
                return False
            self._connection.execute(
                read_sql("kb_remove_collection").encode(), {"fleet": self._fleet, "id": collection}
            )
            self._advance()
            return True

    def apply(self, change: CollectionChange) -> int:
        """Carry out a change in one transaction."""
        segment = Segment.from_bytes(change.segment) if change.segment else None
        with self._connection.transaction():
            known = self._known(change.collection, "UPDATE" if self.is_alone else "SHARE")
            if known is None:
                rows = self._run("SELECT id FROM toolcrib.kb_collection WHERE fleet = %s", self._fleet)
                raise UnknownCollection(change.collection, known=[row[0] for row in rows])
            leaving = (*change.removals, *(arrival.document.id for arrival in change.arrivals))
            dead = self._remove(known, leaving)
            block = self._add(change, segment, known) if change.arrivals else 0
            if change.jobs:
                self._run(*done(self._fleet, change.collection, change.jobs))
            generation = self._advance()
            self._note(change.collection, block, dead, generation)
            return generation

    def _remove(self, known: _Known, documents: Sequence[str]) -> list[int]:
        """The keys of those that were there."""
        statement = """
        SELECT key FROM toolcrib.kb_document WHERE fleet = %s AND id = ANY(%s::text[]) ORDER BY key FOR UPDATE"""
        dead = [row[0] for row in self._run(statement, self._fleet, list(documents))]
        if dead:
            sets = [known.vectors, known.coming_vectors]
            self._connection.execute(
                read_sql("kb_remove_documents").encode(), {"fleet": self._fleet, "keys": dead, "sets": sets}
            )
        return dead

    def _note(self, collection: str, block: int, dead: Sequence[int], generation: int) -> None:
        """What readers of this generation must know: since when a block is there, and which documents are not."""
        if block:
            self._run(
                "UPDATE toolcrib.kb_block SET since = %s WHERE fleet = %s AND id = %s", generation, self._fleet, block
            )
        if dead:
            statement = "INSERT INTO toolcrib.kb_dead SELECT %s, %s, key, %s FROM unnest(%s::bigint[]) AS key"
            self._run(statement, self._fleet, collection, generation, list(dead))

    def _add(self, change: CollectionChange, segment: Segment | None, known: _Known) -> int:
        vectors = segment.vectors if segment is not None else None
        is_useful = vectors is not None and vectors.dimensions == (known.dimensions or vectors.dimensions)
        lacks = change.is_lacking or (vectors is not None and not is_useful)
        keys = self._numbers(len(change.arrivals))
        self._copy_documents(change.arrivals, keys, lacks=lacks, is_indexed=segment is not None)
        if segment is None:
            return 0
        owners = [(key, at) for key, each in zip(keys, change.arrivals, strict=True) for at in range(len(each.places))]
        spans = [(place.start, place.end) for each in change.arrivals for place in each.places]
        block = self._add_block(change.collection, 0, encode_head(owners, spans, segment.postings), segment)
        if is_useful and vectors is not None:
            self._copy_vectors(known.vectors, owners, vectors.to_floats())
        return block

    def _numbers(self, count: int) -> list[int]:
        rows = self._run("SELECT nextval('toolcrib.kb_number') FROM generate_series(1, %s)", count)
        return [row[0] for row in rows]

    def _copy_documents(
        self, arrivals: Sequence[Arrival], keys: Sequence[int], *, lacks: bool, is_indexed: bool
    ) -> None:
        pairs = list(zip(keys, arrivals, strict=True))
        counts = [len(each.places) if is_indexed else 0 for each in arrivals]
        documents = (
            self._document_row(key, each, count, lacks) for (key, each), count in zip(pairs, counts, strict=True)
        )
        frames.copy_in(self._connection, "kb_document", _DOCUMENT, documents)
        bodies = (self._body_row(key, each) for key, each in pairs)
        frames.copy_in(self._connection, "kb_body", "fleet, document, text, outline", bodies)
        if is_indexed:
            passages = (row for key, each in pairs for row in self._passage_rows(key, each))
            frames.copy_in(self._connection, "kb_passage", _PASSAGE, passages)

    def _document_row(self, key: int, arrival: Arrival, passages: int, lacks: bool) -> bytes:
        each, text, long = arrival.document, frames.text, frames.long
        return frames.row(
            *(text(self._fleet), long(key), text(each.id), text(each.collection), text(each.source), text(each.title)),
            *(text(each.type), text(each.stamp.hash), long(each.stamp.size), long(each.stamp.mtime_ns)),
            *(text(each.date), text(each.licence), text(each.version), text(to_json(each.metadata)), text(each.added)),
            *(long(len(arrival.text)), frames.integer(passages), frames.flag(lacks)),
        )

    def _body_row(self, key: int, arrival: Arrival) -> bytes:
        encoded = frames.byte_array(arrival.text.encode(errors="surrogatepass"))
        return frames.row(frames.text(self._fleet), frames.long(key), encoded, frames.text(to_json(arrival.outline)))

    def _passage_rows(self, key: int, arrival: Arrival) -> Iterator[bytes]:
        before, headings = (8).to_bytes(2, "big") + frames.text(self._fleet) + frames.long(key), dict[Any, bytes]()
        for passage in passages_of(arrival):
            place = passage.place
            if place.headings not in headings:
                headings[place.headings] = frames.text(to_json(place.headings))
            where = _WHERE.pack(4, passage.ordinal, 4, place.start, 4, place.end) + frames.integer(place.page)
            yield b"".join((before, where, headings[place.headings], frames.byte_array(passage.check.encode())))

    def _add_block(self, collection: str, level: int, head: bytes, segment: Segment) -> int:
        (block,) = self._numbers(1)
        rows, held = posting_rows(self._fleet, block, segment.postings)
        frames.copy_in(self._connection, "kb_posting", COLUMNS, rows)
        statement = "INSERT INTO toolcrib.kb_block VALUES (%s, %s, %s, %s, %s, 0, %s, %s)"
        self._run(statement, self._fleet, block, collection, level, len(segment), held, head)
        return block

    def _copy_vectors(
        self, number: int, owners: Sequence[Row], vectors: "np.ndarray[Any, np.dtype[np.float32]]"
    ) -> None:
        rows = frames.vector_rows(self._fleet, number, np.asarray(owners, np.int64), vectors)
        frames.copy_in(self._connection, "kb_vector", "fleet, vectors, document, ordinal, embedding", [rows])

    def restamp(self, stamps: Mapping[str, Stamp]) -> None:
        """Remember newer cheap signs; nothing that readers see changes."""
        rows = [(stamp.size, stamp.mtime_ns, self._fleet, each, stamp.hash) for each, stamp in sorted(stamps.items())]
        statement = """
        UPDATE toolcrib.kb_document SET size = %s, mtime_ns = %s WHERE fleet = %s AND id = %s AND hash = %s"""
        with self._connection.transaction(), self._connection.cursor() as cursor:
            cursor.executemany(statement, rows)

    def merge(self, merging: Merging) -> bool:
        """Put one block in place of several; documents that die meanwhile stay known as dead."""
        chosen = sorted(record.id for record in merging.replaced)
        segment = Segment.from_bytes(merging.segment) if merging.rows else None
        with self._connection.transaction():
            spans = self._spans(chosen)
            if spans is None:
                return False
            made = 0
            if segment is not None:
                head = encode_head(merging.rows, [spans[row] for row in merging.rows], segment.postings)
                made = self._add_block(merging.collection, merging.level, head, segment)
            forgotten = sorted({key for key, _ in spans} - {key for key, _ in merging.rows})
            gone = {"fleet": self._fleet, "blocks": chosen, "collection": merging.collection, "documents": forgotten}
            self._connection.execute(read_sql("kb_remove_blocks").encode(), gone)
            self._note(merging.collection, made, (), self._advance())
            return True

    def _spans(self, blocks: Sequence[int]) -> dict[Row, Row] | None:
        """From where to where the passages of these blocks go; nothing if a block is no more."""
        statement = """
        SELECT head FROM toolcrib.kb_block WHERE fleet = %s AND id = ANY(%s::bigint[]) ORDER BY id FOR UPDATE"""
        rows = self._run(statement, self._fleet, list(blocks))
        if len(rows) < len(blocks):
            return None
        found: dict[Row, Row] = {}
        for (head,) in rows:
            block = decode_head(0, "", bytes(head))
            owners = zip(block.documents.tolist(), block.ordinals.tolist(), strict=True)
            found |= dict(zip(owners, zip(block.starts.tolist(), block.ends.tolist(), strict=True), strict=True))
        return found

    def stage(self, collection: str, expected: Embedding | None, vectors: Mapping[Row, bytes]) -> bool:
        """Put vectors aside; those of passages that are gone are dropped, and nothing that readers see changes."""
        with self._connection.transaction():
            known = self._known(collection, "SHARE")
            if known is None or known.coming != coming_json(expected):
                return False
            target = known.coming_vectors or known.vectors
            there = self._hold_passages(list(vectors))
            if not there:
                return True
            keys, ordinals = columns_of(there)
            self._run(read_sql("kb_drop_vectors"), keys, ordinals, self._fleet, target)
            for size in {len(vectors[row]) for row in there}:
                some = [row for row in there if len(vectors[row]) == size]
                given = np.stack([np.frombuffer(vectors[row], np.float32) for row in some])
                self._copy_vectors(target, some, Vectors.build(given).to_floats())  # as those that come in at once
            return True

    def _hold_passages(self, rows: Sequence[Row]) -> list[Row]:
        """Those of these passages that are there, and will be until the end of the transaction."""
        keys, ordinals = columns_of(rows)
        lock = """
        SELECT key FROM toolcrib.kb_document WHERE fleet = %s AND key = ANY(%s::bigint[]) ORDER BY key FOR KEY SHARE"""
        self._run(lock, self._fleet, keys)
        return [(key, at) for key, at in self._run(read_sql("kb_there"), keys, ordinals, self._fleet)]

    def settle(self, collection: str, expected: Embedding | None, now: Embedding) -> bool:
        """What was put aside is what counts from now on; not done, and false, if it is not complete."""
        with self._connection.transaction():
            known = self._known(collection, "UPDATE")
            if known is None or known.coming != coming_json(expected):
                return False
            if expected is not None:
                if now.model and self._run(f"SELECT {read_sql('kb_waiting')} LIMIT 1", self._fleet, collection, 0, -1):
                    return False
                self._run(read_sql("kb_settle_all"), self._fleet, collection)
            else:
                self._run(read_sql("kb_settle_lacking"), known.vectors, self._fleet, collection)
            target = known.coming_vectors if expected is not None else known.vectors
            said = (now.model, now.dimensions, now.name, target)
            self._run(read_sql("kb_settle_collection"), *said, self._fleet, collection)
            self._advance()
            return True
