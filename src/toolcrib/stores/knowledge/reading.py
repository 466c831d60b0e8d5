"""What is read from the knowledge base's file. Used by one thread; every function may wait for the disk."""

from collections.abc import Iterable, Sequence
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


def generation(connection: "Connection") -> int:
    """The number of the last change."""
    found: Any = connection.execute("SELECT generation FROM state").get
    return int(found)


def collections(connection: "Connection") -> list[Collection]:
    """All of them, by id."""
    rows = _rows(connection.execute("SELECT * FROM collection ORDER BY id"))
    return [to_collection(row) for row in rows]


def to_collection(row: Any) -> Collection:
    """A collection, from its columns."""
    id, name, description, metadata, embedder, dimensions, created, named, coming = row  # noqa: A001
    under_way = msgspec.json.decode(coming, type=Embedding) if coming else None
    return Collection(id, name, description, _json(metadata), embedder, dimensions, created, named, under_way)


def stamps(connection: "Connection", collection: str) -> dict[str, tuple[str, Stamp]]:
    """Source → document id and stamp."""
    query = "SELECT source, id, hash, size, mtime_ns FROM document WHERE collection = ?"
    rows = _rows(connection.execute(query, (collection,)))
    return {source: (known, Stamp(*stamp)) for source, known, *stamp in rows}


def documents(connection: "Connection", collection: str) -> list[DocumentInfo]:
    """All documents of a collection, by source."""
    rows = connection.execute(f"{_DOCUMENT} WHERE collection = ? ORDER BY source", (collection,))
    return [to_document(row) for row in rows]


def document(connection: "Connection", id: str) -> DocumentInfo | None:  # noqa: A002
    """One document."""
    row = connection.execute(f"{_DOCUMENT} WHERE id = ?", (id,)).fetchone()
    return None if row is None else to_document(row)


def documents_of(connection: "Connection", keys: Iterable[int]) -> dict[int, DocumentInfo]:
    """Documents by key."""
    found = _by_keys(connection, f"{_DOCUMENT} WHERE key IN", keys)
    return {document.key: document for document in map(to_document, found)}


def texts_of(connection: "Connection", keys: Iterable[int]) -> dict[int, str]:
    """Texts by key."""
    return dict(_by_keys(connection, "SELECT document, text FROM body WHERE document IN", keys))


def text(connection: "Connection", id: str) -> DocumentText | None:  # noqa: A002
    """A document's text and outline."""
    query = "SELECT text, outline FROM body JOIN document ON document = key WHERE id = ?"
    row: Any = connection.execute(query, (id,)).fetchone()
    return None if row is None else DocumentText(row[0], msgspec.json.decode(row[1], type=Outline))


def passages(connection: "Connection", id: str) -> list[Passage]:  # noqa: A002
    """A document's passages in order."""
    return [to_passage(row) for row in connection.execute(f"{_PASSAGE} WHERE id = ? ORDER BY ordinal", (id,))]


def passages_at(connection: "Connection", rows: Iterable[tuple[int, int]]) -> dict[tuple[int, int], Passage]:
    """Passages by document key and ordinal."""
    query = f"{_PASSAGE} WHERE document = ? AND ordinal = ?"
    found = ((row, connection.execute(query, row).fetchone()) for row in rows)
    return {row: to_passage(values) for row, values in found if values is not None}


def to_passage(row: Any) -> Passage:
    """A passage, from its columns."""
    document, ordinal, first, past, page, headings, mark = row
    return Passage(document, ordinal, PassageSpan(first, past, page, tuple(_json(headings))), mark)


def keys(connection: "Connection", wanted_in: Sequence[str], wanted: DocumentFilter) -> set[int]:
    """The documents a filter lets pass; metadata is compared as JSON values."""
    clauses, bindings = [f"collection IN ({_marks(wanted_in)})"], list[Any](wanted_in)
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
    rows = _rows(connection.execute(query, bindings))
    return {key for key, metadata in rows if not wanted.metadata or has_metadata(_json(metadata), wanted)}


def has_metadata(found: dict[str, Any], wanted: DocumentFilter) -> bool:
    """Whether every wanted value is there; a list has each of its items."""
    return all(_fits(found.get(name), value) for name, value in wanted.metadata.items())


def _fits(found: Any, value: Any) -> bool:
    return value in found if isinstance(found, list) else bool(found == value)


def segments(connection: "Connection", wanted_in: Sequence[str] | None) -> list[SegmentRecord]:
    """Segments in the order they were made."""
    where = "" if wanted_in is None else f"WHERE collection IN ({_marks(wanted_in)})"
    query = f"SELECT id, collection, level, size, changed FROM segment {where} ORDER BY id"  # noqa: S608
    return [SegmentRecord(*row) for row in _rows(connection.execute(query, tuple(wanted_in or ())))]


def segment_bytes(connection: "Connection", segment: int) -> bytes | None:
    """A segment's index."""
    found: Any = connection.execute("SELECT bytes FROM segment WHERE id = ?", (segment,)).get
    return found  # type: ignore[no-any-return]


def segment_rows(connection: "Connection", segment: int) -> SegmentRows:
    """What is alive in a segment."""
    query = "SELECT position, document, ordinal, first, past FROM passage WHERE segment = ? ORDER BY position"
    rows: Any = connection.execute(query, (segment,)).fetchall()
    return SegmentRows(*zip(*rows, strict=True)) if rows else SegmentRows()


def incomplete(connection: "Connection") -> list[str]:
    """Collections that lack vectors, or get others."""
    return [str(row[0]) for row in connection.execute(_INCOMPLETE)]


def waiting(connection: "Connection", collection: str, limit: int, after: tuple[int, int]) -> list[tuple[int, int]]:
    """Passages that need vectors and have none staged."""
    return [(row[0], row[1]) for row in _rows(connection.execute(_WAITING_AFTER, (collection, *after, limit)))]


def staged(connection: "Connection", rows: Iterable[tuple[int, int]]) -> dict[tuple[int, int], bytes]:
    """Vectors put aside, by passage."""
    query = "SELECT vector FROM staged WHERE document = ? AND ordinal = ?"
    found = ((row, connection.execute(query, row).get) for row in rows)
    return {row: bytes(vector) for row, vector in found if isinstance(vector, bytes)}


def _missing(connection: "Connection", collection: str) -> tuple[int, int]:
    """How many passages wait for vectors, and lack them; seldom any, so that is asked first."""
    coming = connection.execute("SELECT coming FROM collection WHERE id = ?", (collection,)).get
    lacking: Any = connection.execute(_LACKING, (collection,)).get
    if not coming and not lacking:
        return 0, 0
    found: Any = connection.execute(f"SELECT count(*) {_WAITING}", (collection,)).get
    return int(found), int(lacking)


def counts(connection: "Connection", collection: str) -> CollectionCounts:
    """How much a collection holds."""
    row: Any = connection.execute(_COUNTS, (collection,)).fetchone()
    types = dict(_rows(connection.execute(_TYPES, (collection,))))
    held, passage, characters, parts, size, positions, newest = row
    dead, missing = positions - passage, _missing(connection, collection)
    return CollectionCounts(held, passage, characters, parts, size, dead, types, newest, *missing)


def quick_check(connection: "Connection") -> list[str]:
    """What is wrong with the file itself."""
    found = [str(row[0]) for row in connection.execute("PRAGMA quick_check(3)")]
    return [] if found == ["ok"] else [f"The file is damaged: {line}" for line in found]


def verify(connection: "Connection") -> list[str]:
    """What is not as it should be."""
    found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(20)")]
    problems = [] if found == ["ok"] else [f"The file is damaged: {line}" for line in found]
    strays: Any = connection.execute(_STRAY).get
    if strays:
        problems.append(f"{strays} passages are in no segment.")
    doubled: Any = connection.execute(_DOUBLED).get
    if doubled:
        problems.append(f"{doubled} passages share a place in a segment.")
    return problems + _changed_texts(connection)


def _changed_texts(connection: "Connection") -> list[str]:
    """Every passage must be the text it was made from."""
    problems = []
    for key, source, body in _rows(
        connection.execute("SELECT key, source, text FROM document JOIN body ON document = key")
    ):
        rows = _rows(connection.execute("SELECT ordinal, first, past, mark FROM passage WHERE document = ?", (key,)))
        if any(text_check(body[first:past]) != mark for _, first, past, mark in rows):
            problems.append(f"{source}: the text is not the one that was indexed.")
    return problems


class SqliteReader:
    """A ``KnowledgeReader`` over a connection."""

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection

    def generation(self) -> int:
        """The number of the last change."""
        return generation(self._connection)

    def documents_of(self, keys: Iterable[int]) -> dict[int, DocumentInfo]:
        """Documents by key."""
        return documents_of(self._connection, keys)

    def texts_of(self, keys: Iterable[int]) -> dict[int, str]:
        """Texts by key."""
        return texts_of(self._connection, keys)

    def passages_at(self, rows: Iterable[tuple[int, int]]) -> dict[tuple[int, int], Passage]:
        """Passages by document key and ordinal."""
        return passages_at(self._connection, rows)

    def keys(self, collections: Sequence[str], wanted: DocumentFilter) -> set[int]:
        """The documents a filter lets pass."""
        return keys(self._connection, collections, wanted)


def to_document(row: Any) -> DocumentInfo:
    """A document, from the columns of its row."""
    key, id, collection, source, title, kind, digest, size, mtime_ns, date, licence, version, metadata, added = row  # noqa: A001
    stamp = Stamp(digest, size, mtime_ns)
    return DocumentInfo(id, collection, source, title, kind, stamp, date, licence, version, _json(metadata), added, key)


def _by_keys(connection: "Connection", query: str, wanted: Iterable[int]) -> Iterable[Any]:
    remaining = iter(sorted(set(wanted)))
    while some := list(islice(remaining, AT_ONCE)):
        yield from connection.execute(f"{query} ({_marks(some)})", some)


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def _rows(cursor: Iterable[Any]) -> Iterable[Any]:
    return cursor


def _json(encoded: Any) -> Any:
    return msgspec.json.decode(encoded)
