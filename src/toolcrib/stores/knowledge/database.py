"""The knowledge base's file: every statement that changes it. Used by one thread; each may wait for the disk."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from toolcrib.core.errors import KnowledgeUnavailable, UnknownCollection
from toolcrib.core.knowledge import (
    Arrival,
    Collection,
    CollectionChange,
    Embedding,
    Merging,
    Passage,
    SegmentRecord,
    Stamp,
    Swap,
    passages_of,
)
from toolcrib.stores.sqlite_file import Format, transaction

if TYPE_CHECKING:
    from apsw import Connection

FORMAT = Format("knowledge", 2, KnowledgeUnavailable, "knowledge base", "[kb] path")

_PUT_COLLECTION = """
INSERT INTO collection VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET name = excluded.name, description = excluded.description,
    metadata = excluded.metadata, embedder = excluded.embedder, dimensions = excluded.dimensions,
    embedder_name = excluded.embedder_name, coming = excluded.coming"""
_DROP_STAGED = "DELETE FROM staged WHERE document IN (SELECT key FROM document WHERE collection = ?)"
_ADD_DOCUMENT = """
INSERT INTO document (id, collection, source, title, type, hash, size, mtime_ns, date, licence, version,
    metadata, added, characters)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING key"""
_ADD_PASSAGE = "INSERT INTO passage VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_ADD_SEGMENT = "INSERT INTO segment (collection, level, size, changed, bytes) VALUES (?, ?, ?, ?, ?) RETURNING id"
_SEGMENTS_OF = "SELECT id FROM segment WHERE collection = ?"
_KNOWN = "SELECT id FROM document WHERE id IN (SELECT value FROM json_each(?))"
_DOCUMENT_DIES = """
UPDATE segment SET changed = ?1
WHERE id IN (SELECT DISTINCT segment FROM passage WHERE document IN (SELECT key FROM document WHERE id = ?2))"""


def to_json(value: Any) -> str:
    """A small value as it is stored."""
    return msgspec.json.encode(value, enc_hook=str).decode()


class SqliteWriter:
    """Every change to the file, over one connection that writes, and reads what it needs for that."""

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection

    def put_collection(self, collection: Collection) -> None:
        """Make it, or change what is said of it."""
        row = (
            collection.id,
            collection.name or collection.id,
            collection.description,
            to_json(collection.metadata),
            collection.embedder,
            collection.dimensions,
            collection.created,
            collection.embedder_name,
            coming_json(collection.coming),
        )
        with transaction(self._connection):
            self._advance()
            if not self._is_coming(collection.id, collection.coming):
                self._connection.execute(_DROP_STAGED, (collection.id,))
            self._connection.execute(_PUT_COLLECTION, row)

    def remove_collection(self, collection: str) -> bool:
        """Take it away; foreign keys take the rest."""
        with transaction(self._connection):
            self._advance()
            self._connection.execute("DELETE FROM collection WHERE id = ?", (collection,))
            return self._connection.changes() > 0

    def apply(self, change: CollectionChange) -> int:
        """Carry out a change in one transaction."""
        with transaction(self._connection):
            generation = self._advance()
            self._check_collection(change.collection)
            for document in self._known((*change.removals, *(arrival.document.id for arrival in change.arrivals))):
                self._remove(document, generation)
            keys = [self._add_document(arrival) for arrival in change.arrivals]
            if change.segment:
                self._add_passages(change, keys, generation)
            return generation

    def _advance(self) -> int:
        return _int(self._connection.execute("UPDATE state SET generation = generation + 1 RETURNING generation").get)

    def _check_collection(self, collection: str) -> None:
        known = [str(row[0]) for row in self._connection.execute("SELECT id FROM collection")]
        if collection not in known:
            raise UnknownCollection(collection, known=known)

    def _known(self, documents: Iterable[str]) -> list[str]:
        """Those of these documents that are there."""
        rows = self._connection.execute(_KNOWN, (to_json(list(documents)),))
        return [str(row[0]) for row in rows]

    def _remove(self, document: str, generation: int) -> None:
        self._connection.execute(_DOCUMENT_DIES, (generation, document))
        self._connection.execute("DELETE FROM document WHERE id = ?", (document,))

    def _add_document(self, arrival: Arrival) -> int:
        document = arrival.document
        row = (
            document.id,
            document.collection,
            document.source,
            document.title,
            document.type,
            document.stamp.hash,
            document.stamp.size,
            document.stamp.mtime_ns,
            document.date,
            document.licence,
            document.version,
            to_json(document.metadata),
            document.added,
            len(arrival.text),
        )
        key = _int(self._connection.execute(_ADD_DOCUMENT, row).get)
        body = (key, arrival.text, to_json(arrival.outline))
        self._connection.execute("INSERT INTO body VALUES (?, ?, ?)", body)
        return key

    def _add_passages(self, change: CollectionChange, keys: Sequence[int], generation: int) -> None:
        passages = [
            (key, passage)
            for key, arrival in zip(keys, change.arrivals, strict=True)
            for passage in passages_of(arrival)
        ]
        row = (change.collection, 0, len(passages), generation, change.segment)
        segment = _int(self._connection.execute(_ADD_SEGMENT, row).get)
        rows = (_passage_row(key, passage, segment, at) for at, (key, passage) in enumerate(passages))
        self._connection.executemany(_ADD_PASSAGE, rows)
        if change.is_lacking:
            self._connection.executemany("INSERT INTO lacking VALUES (?)", ((key,) for key in keys))

    def restamp(self, stamps: Mapping[str, Stamp]) -> None:
        """Remember newer cheap signs; nothing that readers see changes."""
        rows = ((stamp.size, stamp.mtime_ns, document, stamp.hash) for document, stamp in stamps.items())
        with transaction(self._connection):
            self._connection.executemany("UPDATE document SET size = ?, mtime_ns = ? WHERE id = ? AND hash = ?", rows)

    def merge(self, merging: Merging) -> bool:
        """Put one segment in place of several, unless a passage of theirs has died since they were read."""
        with transaction(self._connection):
            if not all(self._is_unchanged(record) for record in merging.replaced):
                return False
            self._merge(merging, self._advance())
            return True

    def _merge(self, merging: Merging, generation: int) -> None:
        row = (merging.collection, merging.level, len(merging.rows), generation, merging.segment)
        segment = _int(self._connection.execute(_ADD_SEGMENT, row).get) if merging.rows else 0
        moves = ((segment, at, key, ordinal) for at, (key, ordinal) in enumerate(merging.rows))
        self._connection.executemany(
            "UPDATE passage SET segment = ?, position = ? WHERE document = ? AND ordinal = ?", moves
        )
        self._connection.executemany("DELETE FROM segment WHERE id = ?", _ids(merging.replaced))

    def stage(self, collection: str, expected: Embedding | None, vectors: Mapping[tuple[int, int], bytes]) -> bool:
        """Put vectors aside; those of passages that are gone are dropped, and nothing that readers see changes."""
        rows = ((vector, *row) for row, vector in vectors.items())
        with transaction(self._connection):
            if not self._is_coming(collection, expected):
                return False
            self._connection.executemany(
                "INSERT OR REPLACE INTO staged SELECT document, ordinal, ? FROM passage"
                " WHERE document = ? AND ordinal = ?",
                rows,
            )
            return True

    def swap(self, swap: Swap) -> bool:
        """Bring staged vectors into the index."""
        replaced = [record for merging in swap.mergings for record in merging.replaced]
        with transaction(self._connection):
            if not self._is_coming(swap.collection, swap.expected) or not all(map(self._is_unchanged, replaced)):
                return False
            known = {row[0] for row in self._connection.execute(_SEGMENTS_OF, (swap.collection,))}
            if swap.expected is not None and known != {record.id for record in replaced}:
                return False
            generation = self._advance()
            for merging in swap.mergings:
                self._merge(merging, generation)
            self._settle(swap)
            return True

    def _settle(self, swap: Swap) -> None:
        now = swap.embedding
        keys = [(key,) for key in swap.filled]
        self._connection.executemany("DELETE FROM staged WHERE document = ?", keys)
        self._connection.executemany("DELETE FROM lacking WHERE document = ?", keys)
        row = (now.model, now.dimensions, now.name, swap.collection)
        self._connection.execute(
            "UPDATE collection SET embedder = ?, dimensions = ?, embedder_name = ?, coming = '' WHERE id = ?", row
        )

    def _is_coming(self, collection: str, expected: Embedding | None) -> bool:
        found = self._connection.execute("SELECT coming FROM collection WHERE id = ?", (collection,)).get
        return bool(found == coming_json(expected))

    def _is_unchanged(self, record: SegmentRecord) -> bool:
        found = self._connection.execute("SELECT changed FROM segment WHERE id = ?", (record.id,)).get
        return bool(found == record.changed)


def coming_json(embedding: Embedding | None) -> str:
    """What is coming, as it is stored."""
    return "" if embedding is None else to_json(embedding)


def _ids(records: Iterable[SegmentRecord]) -> Iterable[tuple[int]]:
    return ((record.id,) for record in records)


def _passage_row(key: int, passage: Passage, segment: int, position: int) -> tuple[Any, ...]:
    place = passage.place
    headings = to_json(place.headings)
    return key, passage.ordinal, place.start, place.end, place.page, headings, passage.check, segment, position


def _int(value: Any) -> int:
    return int(value)
