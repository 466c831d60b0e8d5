"""The shared knowledge base as it is read, statement by statement."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from toolcrib.core.errors import DamagedIndex
from toolcrib.core.knowledge import (
    Collection,
    CollectionCounts,
    DocumentFilter,
    DocumentInfo,
    DocumentText,
    Embedding,
    Outline,
    Passage,
    SegmentRecord,
    SegmentRows,
    Stamp,
    text_check,
)
from toolcrib.search.hybrid import Segment
from toolcrib.stores.knowledge.reading import has_metadata, to_collection, to_document, to_passage
from toolcrib.stores.postgres.database import read_sql
from toolcrib.stores.postgres.kb_rows import PostingBlock, PostingRow, decode_head, whole_postings

if TYPE_CHECKING:
    from psycopg import Connection

Row = tuple[int, int]

TEXTS_AT_ONCE = 200
_COLLECTION = """
SELECT id, name, description, metadata, embedder, dimensions, created, embedder_name, coming
FROM toolcrib.kb_collection WHERE fleet = %s"""
_DOCUMENT = """
SELECT key, id, collection, source, title, type, hash, size, mtime_ns, date, licence, version, metadata, added
FROM toolcrib.kb_document WHERE fleet = %s"""
_PASSAGE = """
SELECT d.id, p.ordinal, p.first, p.past, p.page, p.headings, p.mark
FROM toolcrib.kb_document d JOIN toolcrib.kb_passage p ON p.fleet = d.fleet AND p.document = d.key
WHERE d.fleet = %s AND d.id = %s ORDER BY p.ordinal"""
_PASSAGES_AT = """
SELECT d.key, d.id, p.ordinal, p.first, p.past, p.page, p.headings, p.mark
FROM unnest(%s::bigint[], %s::integer[]) AS wanted (document, ordinal)
JOIN toolcrib.kb_document d ON d.fleet = %s AND d.key = wanted.document
JOIN toolcrib.kb_passage p ON p.fleet = d.fleet AND p.document = d.key AND p.ordinal = wanted.ordinal"""
_SEGMENTS = """
SELECT b.id, b.collection, b.level, b.size, greatest(b.since, coalesce(
    (SELECT max(d.since) FROM toolcrib.kb_dead d WHERE d.fleet = b.fleet AND d.collection = b.collection), 0))
FROM toolcrib.kb_block b WHERE b.fleet = %s AND (%s::text[] IS NULL OR b.collection = ANY(%s)) ORDER BY b.id"""
_INCOMPLETE = """
SELECT id FROM toolcrib.kb_collection c WHERE fleet = %s AND (coming <> '' OR EXISTS (
    SELECT FROM toolcrib.kb_document d WHERE d.fleet = c.fleet AND d.collection = c.id AND d.lacks_vectors))
ORDER BY id"""


class PgReader:
    """A ``KnowledgeReader``, and all else that is read, over one connection; sees the rows of one fleet."""

    def __init__(self, connection: "Connection[Any]", fleet: str) -> None:
        self.connection, self.fleet = connection, fleet

    def rows(self, statement: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        """What a statement returns."""
        return self.connection.cursor(binary=True).execute(statement.encode(), parameters).fetchall()

    def generation(self) -> int:
        """The number of the last change."""
        found = self.rows("SELECT generation FROM toolcrib.kb_state WHERE fleet = %s", (self.fleet,))
        return int(found[0][0]) if found else 1

    def collections(self) -> list[Collection]:
        """All of them, by id."""
        return [to_collection(row) for row in self.rows(f"{_COLLECTION} ORDER BY id", (self.fleet,))]

    def stamps(self, collection: str) -> dict[str, tuple[str, Stamp]]:
        """Source → document id and stamp."""
        statement = (
            "SELECT source, id, hash, size, mtime_ns FROM toolcrib.kb_document WHERE fleet = %s AND collection = %s"
        )
        return {
            source: (known, Stamp(*stamp)) for source, known, *stamp in self.rows(statement, (self.fleet, collection))
        }

    def documents(self, collection: str) -> list[DocumentInfo]:
        """All documents of a collection, by source."""
        return list(
            map(to_document, self.rows(f"{_DOCUMENT} AND collection = %s ORDER BY source", (self.fleet, collection)))
        )

    def document(self, document: str) -> DocumentInfo | None:
        """One document by its id."""
        found = self.rows(f"{_DOCUMENT} AND id = %s", (self.fleet, document))
        return to_document(found[0]) if found else None

    def documents_of(self, keys: Iterable[int]) -> dict[int, DocumentInfo]:
        """Documents by key."""
        found = self.rows(f"{_DOCUMENT} AND key = ANY(%s::bigint[]) ORDER BY key", (self.fleet, array_of(keys)))
        return {document.key: document for document in map(to_document, found)}

    def text(self, document: str) -> DocumentText | None:
        """A document's text and outline."""
        statement = """
        SELECT b.text, b.outline FROM toolcrib.kb_document d
        JOIN toolcrib.kb_body b ON b.fleet = d.fleet AND b.document = d.key WHERE d.fleet = %s AND d.id = %s"""
        found = self.rows(statement, (self.fleet, document))
        return DocumentText(_decoded(found[0][0]), msgspec.json.decode(found[0][1], type=Outline)) if found else None

    def texts_of(self, keys: Iterable[int]) -> dict[int, str]:
        """Texts by key."""
        statement = "SELECT document, text FROM toolcrib.kb_body WHERE fleet = %s AND document = ANY(%s::bigint[])"
        return {key: _decoded(text) for key, text in self.rows(f"{statement} ORDER BY 1", (self.fleet, array_of(keys)))}

    def passages(self, document: str) -> list[Passage]:
        """A document's passages in order."""
        return [to_passage(row) for row in self.rows(_PASSAGE, (self.fleet, document))]

    def passages_at(self, rows: Iterable[Row]) -> dict[Row, Passage]:
        """Passages by document key and ordinal."""
        keys, ordinals = columns_of(rows)
        found = self.rows(_PASSAGES_AT, (keys, ordinals, self.fleet))
        return {(key, ordinal): to_passage((id_, ordinal, *rest)) for key, id_, ordinal, *rest in found}

    def keys(self, collections: Sequence[str], wanted: DocumentFilter) -> set[int]:
        """The documents a filter lets pass; metadata is compared as JSON values."""
        clauses, bindings = ["fleet = %s AND collection = ANY(%s::text[])"], list[Any]([self.fleet, list(collections)])
        for clause, value in (
            ("type = ANY(%s::text[])", list(wanted.types)),
            ("date >= %s", wanted.since),
            ("date <> '' AND date <= %s", wanted.until),
        ):
            if value:
                clauses.append(clause)
                bindings.append(value)
        column = "metadata" if wanted.metadata else "''"
        statement = f"SELECT key, {column} FROM toolcrib.kb_document WHERE {' AND '.join(clauses)}"  # noqa: S608
        rows = self.rows(statement, bindings)
        return {key for key, said in rows if not wanted.metadata or has_metadata(msgspec.json.decode(said), wanted)}

    def segments(self, collections: Sequence[str] | None) -> list[SegmentRecord]:
        """The blocks in the order they were made; each counts as changed when any document of its collection died."""
        chosen = None if collections is None else list(collections)
        return [SegmentRecord(*row) for row in self.rows(_SEGMENTS, (self.fleet, chosen, chosen))]

    def block(self, number: int) -> PostingBlock | None:
        """What is kept in memory of a block."""
        statement = "SELECT collection, head FROM toolcrib.kb_block WHERE fleet = %s AND id = %s"
        found = self.rows(statement, (self.fleet, number))
        return decode_head(number, *found[0]) if found else None

    def segment_bytes(self, segment: int) -> bytes | None:
        """The words of a block, as they were indexed; its vectors stay where they are."""
        block = self.block(segment)
        if block is None:
            return None
        statement = "SELECT terms, ends, held FROM toolcrib.kb_posting WHERE fleet = %s AND block = %s ORDER BY first"
        rows = [PostingRow(*row) for row in self.rows(statement, (self.fleet, segment))]
        return Segment(whole_postings(block, rows), None).to_bytes()

    def segment_rows(self, segment: int) -> SegmentRows:
        """What is alive in a block."""
        block = self.block(segment)
        return SegmentRows() if block is None else block.rows(self.dead(block.collection))

    def dead(self, collection: str) -> list[int]:
        """Documents that are gone, and that blocks may still name."""
        statement = "SELECT document FROM toolcrib.kb_dead WHERE fleet = %s AND collection = %s"
        return [row[0] for row in self.rows(statement, (self.fleet, collection))]

    def incomplete(self) -> list[str]:
        """Collections that lack vectors, or get others."""
        return [row[0] for row in self.rows(_INCOMPLETE, (self.fleet,))]

    def waiting(self, collection: str, limit: int | None, after: Row) -> list[Row]:
        """Passages that need vectors and have none yet."""
        statement = f"SELECT p.document, p.ordinal {read_sql('kb_waiting')} ORDER BY 1, 2 LIMIT %s"
        found = self.rows(statement, (self.fleet, collection, *after, limit))
        return [(document, ordinal) for document, ordinal in found]

    def staged(self, rows: Iterable[Row]) -> dict[Row, bytes]:
        """Vectors that are put aside, by passage."""
        import numpy as np

        keys, ordinals = columns_of(rows)
        found = self.rows(read_sql("kb_staged"), (keys, ordinals, self.fleet))
        return {(key, at): np.array(vector, np.float32).tobytes() for key, at, vector in found}

    def counts(self, collection: str) -> CollectionCounts:
        """How much a collection holds."""
        documents, passages, characters, newest, lacking = self.rows(_HELD, (self.fleet, collection))[0]
        parts, size, positions = self.rows(_INDEXED, (self.fleet, collection))[0]
        types = dict(self.rows(_TYPES, (self.fleet, collection)))
        waiting = len(self.waiting(collection, None, (0, -1))) if self._is_waiting(collection, lacking) else 0
        counted = (documents, passages, characters, parts, size, positions - passages)
        return CollectionCounts(*counted, types, newest, waiting, lacking)

    def _is_waiting(self, collection: str, lacking: int) -> bool:
        found = self.rows(f"{_COLLECTION} AND id = %s AND coming <> ''", (self.fleet, collection))
        return bool(lacking or found)

    def vectors(self, collections: Sequence[str]) -> Mapping[str, int]:
        """The sets of vectors that collections are searched by."""
        statement = "SELECT id, vectors FROM toolcrib.kb_collection WHERE fleet = %s AND id = ANY(%s::text[])"
        return dict(self.rows(statement, (self.fleet, list(collections))))

    def coming(self, collection: str) -> Embedding | None:
        """What is being made."""
        return next((each.coming for each in self.collections() if each.id == collection), None)

    def verify(self) -> list[str]:
        """What is not as it should be."""
        return [*self._damaged_blocks(), *self._stray_rows(), *self._changed_texts()]

    def _damaged_blocks(self) -> Iterable[str]:
        for record in self.segments(None):
            try:
                self.block(record.id)
            except DamagedIndex as error:
                yield f"Block {record.id} of {record.collection!r}: {error.message}"
        for number, collection, kept, found in self.rows(read_sql("kb_verify_blocks"), (self.fleet,)):
            if kept != found:
                yield f"Block {number} of {collection!r} has lost {kept - found} bytes of its words."

    def _stray_rows(self) -> Iterable[str]:
        for what, count in self.rows(read_sql("kb_verify_strays"), {"fleet": self.fleet}):  # type: ignore[arg-type]
            if count:
                yield f"{count} {what}."

    def _changed_texts(self) -> Iterable[str]:
        """Every passage must be the text it was made from."""
        sources = dict(self.rows("SELECT key, source FROM toolcrib.kb_document WHERE fleet = %s", (self.fleet,)))
        keys = sorted(sources)
        for at in range(0, len(keys), TEXTS_AT_ONCE):
            some = keys[at : at + TEXTS_AT_ONCE]
            texts, changed = self.texts_of(some), set[int]()
            for document, first, past, mark in self.rows(_MARKS, (self.fleet, array_of(some))):
                if text_check(texts.get(document, "")[first:past]) != mark:
                    changed.add(document)
            yield from (f"{sources[key]}: the text is not the one that was indexed." for key in sorted(changed))


_HELD = """
SELECT count(*), coalesce(sum(passages), 0)::bigint, coalesce(sum(characters), 0)::bigint, coalesce(max(added), ''),
    coalesce(sum(passages) FILTER (WHERE lacks_vectors), 0)::bigint
FROM toolcrib.kb_document WHERE fleet = %s AND collection = %s"""
_INDEXED = """
SELECT count(*), coalesce(sum(bytes), 0)::bigint, coalesce(sum(size), 0)::bigint
FROM toolcrib.kb_block WHERE fleet = %s AND collection = %s"""
_TYPES = """
SELECT type, count(*) FROM toolcrib.kb_document WHERE fleet = %s AND collection = %s GROUP BY type ORDER BY type"""
_MARKS = """
SELECT document, first, past, mark FROM toolcrib.kb_passage WHERE fleet = %s AND document = ANY(%s::bigint[])"""


def array_of(values: Iterable[int]) -> str:
    """Numbers as PostgreSQL writes an array of them: quicker than having psycopg look at each."""
    return "{" + ",".join(map(str, values)) + "}"


def columns_of(rows: Iterable[Row]) -> tuple[str, str]:
    """Document keys and ordinals, an array of each."""
    chosen = list(rows)
    return array_of(key for key, _ in chosen), array_of(ordinal for _, ordinal in chosen)


def _decoded(text: bytes) -> str:
    return bytes(text).decode(errors="surrogatepass")
