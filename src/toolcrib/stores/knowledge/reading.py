"""What is read from the knowledge base's file. Used by one thread; every method may wait for the disk."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from toolcrib.core.knowledge import (
    Collection,
    CollectionCounts,
    DocumentFilter,
    DocumentInfo,
    DocumentText,
    Embedding,
    Outline,
    Passage,
    PassageSpan,
    SegmentRecord,
    SegmentRows,
    Stamp,
    text_check,
)

if TYPE_CHECKING:
    from apsw import Connection

Row = tuple[int, int]
AT_ONCE = 500
_DOCUMENT = """
SELECT key, id, collection, source, title, type, hash, size, mtime_ns, date, licence, version, metadata, added
FROM document """
_PASSAGE = """
SELECT id, ordinal, first, past, page, headings, mark FROM passage JOIN document ON document = key """
_COUNTS = """
SELECT (SELECT count(*) FROM document WHERE collection = ?1),
    (SELECT count(*) FROM passage WHERE segment IN (SELECT id FROM segment WHERE collection = ?1)),
    (SELECT coalesce(sum(characters), 0) FROM document WHERE collection = ?1),
    (SELECT count(*) FROM segment WHERE collection = ?1),
    (SELECT coalesce(sum(length(bytes)), 0) FROM segment WHERE collection = ?1),
    (SELECT coalesce(sum(size), 0) FROM segment WHERE collection = ?1),
    (SELECT coalesce(max(added), '') FROM document WHERE collection = ?1)"""
_WAITING = """
FROM document JOIN passage ON passage.document = document.key
WHERE document.collection = ?1
    AND ((SELECT coming FROM collection WHERE id = ?1) <> '' OR document.key IN (SELECT document FROM lacking))
    AND NOT EXISTS (
        SELECT 1 FROM staged WHERE staged.document = passage.document AND staged.ordinal = passage.ordinal)"""
_WAITING_AFTER = f"""
SELECT passage.document, passage.ordinal {_WAITING} AND (passage.document, passage.ordinal) > (?2, ?3)
ORDER BY passage.document, passage.ordinal LIMIT ?4"""
_INCOMPLETE = """
SELECT id FROM collection
WHERE coming <> '' OR id IN (SELECT collection FROM lacking JOIN document ON key = lacking.document) ORDER BY id"""
_LACKING = """
SELECT count(*) FROM lacking JOIN document ON key = lacking.document JOIN passage ON passage.document = key
WHERE collection = ?"""
_TYPES = "SELECT type, count(*) FROM document WHERE collection = ? GROUP BY type ORDER BY type"
_STRAY = """
SELECT count(*) FROM passage LEFT JOIN segment ON segment.id = passage.segment
WHERE segment.id IS NULL OR position < 0 OR position >= size"""
_DOUBLED = "SELECT count(*) - count(DISTINCT segment || ':' || position) FROM passage"


class SqliteReader:
    """A ``KnowledgeReader``, and all else that is read, over one connection."""

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection

    def _rows(self, statement: str, bound: Sequence[Any] = ()) -> Iterable[Any]:
        return self._connection.execute(statement, bound)

    def _value(self, statement: str, bound: Sequence[Any] = ()) -> Any:
        """The first column of the first row, if there is one."""
        return self._connection.execute(statement, bound).get

    def generation(self) -> int:
        """The number of the last change."""
        return int(self._value("SELECT generation FROM state"))

    def collections(self) -> list[Collection]:
        """All of them, by id."""
        return [to_collection(row) for row in self._rows("SELECT * FROM collection ORDER BY id")]

    def stamps(self, collection: str) -> dict[str, tuple[str, Stamp]]:
        """Source → document id and stamp."""
        query = "SELECT source, id, hash, size, mtime_ns FROM document WHERE collection = ?"
        return {source: (known, Stamp(*stamp)) for source, known, *stamp in self._rows(query, (collection,))}

    def documents(self, collection: str) -> list[DocumentInfo]:
        """All documents of a collection, by source."""
        return [
            to_document(row) for row in self._rows(f"{_DOCUMENT} WHERE collection = ? ORDER BY source", (collection,))
        ]

    def document(self, document: str) -> DocumentInfo | None:
        """One document."""
        return next(map(to_document, self._rows(f"{_DOCUMENT} WHERE id = ?", (document,))), None)

    def documents_of(self, keys: Iterable[int]) -> dict[int, DocumentInfo]:
        """Documents by key."""
        found = self._by_keys(f"{_DOCUMENT} WHERE key IN", keys)
        return {document.key: document for document in map(to_document, found)}

    def texts_of(self, keys: Iterable[int]) -> dict[int, str]:
        """Texts by key."""
        return dict(self._by_keys("SELECT document, text FROM body WHERE document IN", keys))

    def text(self, document: str) -> DocumentText | None:
        """A document's text and outline."""
        query = "SELECT text, outline FROM body JOIN document ON document = key WHERE id = ?"
        found = (
            DocumentText(text, msgspec.json.decode(outline, type=Outline))
            for text, outline in self._rows(query, (document,))
        )
        return next(found, None)

    def passages(self, document: str) -> list[Passage]:
        """A document's passages in order."""
        return [to_passage(row) for row in self._rows(f"{_PASSAGE} WHERE id = ? ORDER BY ordinal", (document,))]

    def passages_at(self, rows: Iterable[Row]) -> dict[Row, Passage]:
        """Passages by document key and ordinal."""
        query = f"{_PASSAGE} WHERE document = ? AND ordinal = ?"
        return {row: to_passage(values) for row in rows for values in self._rows(query, row)}

    def keys(self, collections: Sequence[str], wanted: DocumentFilter) -> set[int]:
        """The documents a filter lets pass; metadata is compared as JSON values."""
        clauses, bindings = [f"collection IN ({_marks(collections)})"], list[Any](collections)
        if wanted.types:
            clauses.append(f"type IN ({_marks(wanted.types)})")
            bindings += wanted.types
        if wanted.since:
            clauses.append("date >= ?")
            bindings.append(wanted.since)
        if wanted.until:
            clauses.append("date != '' AND date <= ?")
            bindings.append(wanted.until)
        query = f"SELECT key, metadata FROM document WHERE {' AND '.join(clauses)}"  # noqa: S608 - marks only
        rows = self._rows(query, bindings)
        return {key for key, said in rows if not wanted.metadata or has_metadata(msgspec.json.decode(said), wanted)}

    def segments(self, collections: Sequence[str] | None) -> list[SegmentRecord]:
        """Segments in the order they were made."""
        where = "" if collections is None else f"WHERE collection IN ({_marks(collections)})"
        query = f"SELECT id, collection, level, size, changed FROM segment {where} ORDER BY id"  # noqa: S608
        return [SegmentRecord(*row) for row in self._rows(query, tuple(collections or ()))]

    def segment_bytes(self, segment: int) -> bytes | None:
        """A segment's index."""
        found: bytes | None = self._value("SELECT bytes FROM segment WHERE id = ?", (segment,))
        return found

    def segment_rows(self, segment: int) -> SegmentRows:
        """What is alive in a segment."""
        query = "SELECT position, document, ordinal, first, past FROM passage WHERE segment = ? ORDER BY position"
        rows = list(self._rows(query, (segment,)))
        return SegmentRows(*zip(*rows, strict=True)) if rows else SegmentRows()

    def incomplete(self) -> list[str]:
        """Collections that lack vectors, or get others."""
        return [row[0] for row in self._rows(_INCOMPLETE)]

    def waiting(self, collection: str, limit: int, after: Row) -> list[Row]:
        """Passages that need vectors and have none staged."""
        return list(self._rows(_WAITING_AFTER, (collection, *after, limit)))

    def staged(self, rows: Iterable[Row]) -> dict[Row, bytes]:
        """Vectors put aside, by passage."""
        query = "SELECT vector FROM staged WHERE document = ? AND ordinal = ?"
        return {row: vector for row in rows for (vector,) in self._rows(query, row)}

    def counts(self, collection: str) -> CollectionCounts:
        """How much a collection holds."""
        ((held, passage, characters, parts, size, positions, newest),) = self._rows(_COUNTS, (collection,))
        types, missing = dict(self._rows(_TYPES, (collection,))), self._missing(collection)
        return CollectionCounts(held, passage, characters, parts, size, positions - passage, types, newest, *missing)

    def _missing(self, collection: str) -> tuple[int, int]:
        """How many passages wait for vectors, and lack them; seldom any, so that is asked first."""
        coming = self._value("SELECT coming FROM collection WHERE id = ?", (collection,))
        lacking = int(self._value(_LACKING, (collection,)))
        if not coming and not lacking:
            return 0, 0
        return int(self._value(f"SELECT count(*) {_WAITING}", (collection,))), lacking

    def quick_check(self) -> list[str]:
        """What is wrong with the file itself."""
        return self._damages("PRAGMA quick_check(3)")

    def verify(self) -> list[str]:
        """What is not as it should be."""
        problems = self._damages("PRAGMA integrity_check(20)")
        if strays := self._value(_STRAY):
            problems.append(f"{strays} passages are in no segment.")
        if doubled := self._value(_DOUBLED):
            problems.append(f"{doubled} passages share a place in a segment.")
        return problems + self._changed_texts()

    def _damages(self, check: str) -> list[str]:
        found = [row[0] for row in self._rows(check)]
        return [] if found == ["ok"] else [f"The file is damaged: {line}" for line in found]

    def _changed_texts(self) -> list[str]:
        """Every passage must be the text it was made from."""
        marks = "SELECT first, past, mark FROM passage WHERE document = ?"
        return [
            f"{source}: the text is not the one that was indexed."
            for key, source, body in self._rows("SELECT key, source, text FROM document JOIN body ON document = key")
            if any(text_check(body[first:past]) != mark for first, past, mark in self._rows(marks, (key,)))
        ]

    def _by_keys(self, query: str, wanted: Iterable[int]) -> Iterable[Any]:
        remaining = iter(sorted(set(wanted)))
        while some := list(islice(remaining, AT_ONCE)):
            yield from self._rows(f"{query} ({_marks(some)})", some)


def to_collection(row: Any) -> Collection:
    """A collection, from its columns."""
    id, name, description, metadata, embedder, dimensions, created, named, coming = row  # noqa: A001
    said, under_way = msgspec.json.decode(metadata), msgspec.json.decode(coming, type=Embedding) if coming else None
    return Collection(id, name, description, said, embedder, dimensions, created, named, under_way)


def to_document(row: Any) -> DocumentInfo:
    """A document, from the columns of its row."""
    key, id, collection, source, title, kind, digest, size, mtime_ns, date, licence, version, metadata, added = row  # noqa: A001
    stamp, said = Stamp(digest, size, mtime_ns), msgspec.json.decode(metadata)
    return DocumentInfo(id, collection, source, title, kind, stamp, date, licence, version, said, added, key)


def to_passage(row: Any) -> Passage:
    """A passage, from its columns."""
    document, ordinal, first, past, page, headings, mark = row
    return Passage(document, ordinal, PassageSpan(first, past, page, tuple(msgspec.json.decode(headings))), mark)


def has_metadata(found: Mapping[str, Any], wanted: DocumentFilter) -> bool:
    """Whether every wanted value is there; a list has each of its items."""
    return all(_fits(found.get(name), value) for name, value in wanted.metadata.items())


def _fits(found: Any, value: Any) -> bool:
    return value in found if isinstance(found, list) else bool(found == value)


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))
