"""Rows of ``kb_posting``: a few terms each, and one for each term that many passages hold."""

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from toolcrib.core.knowledge import SegmentRows
from toolcrib.search.lexical import Held, Postings, posting_of
from toolcrib.search.pack import pack, unpack

if TYPE_CHECKING:
    from psycopg import Connection


HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
END = b"\xff\xff"
NULL = b"\xff\xff\xff\xff"
_LONG, _INT = struct.Struct(">iq"), struct.Struct(">ii")


def long(value: int) -> bytes:
    """A ``bigint``."""
    return _LONG.pack(8, value)


def integer(value: int | None) -> bytes:
    """An ``integer``, or nothing."""
    return NULL if value is None else _INT.pack(4, value)


def flag(value: bool) -> bytes:
    """A ``boolean``."""
    return b"\0\0\0\1\1" if value else b"\0\0\0\1\0"


def byte_array(value: bytes) -> bytes:
    """A ``bytea``."""
    return len(value).to_bytes(4, "big") + value


def text(value: str | None) -> bytes:
    """A ``text``, which cannot hold the character zero: it becomes the picture of it."""
    return NULL if value is None else byte_array(value.replace("\0", "␀").encode())


def row(*fields: bytes) -> bytes:
    """One row of fields."""
    return len(fields).to_bytes(2, "big") + b"".join(fields)


def vector_rows(fleet: str, number: int, owners: NDArray[np.int64], vectors: NDArray[np.float32]) -> bytes:
    """Rows of ``kb_vector`` for one set: (document, ordinal) of each passage, and its vector."""
    named, size = fleet.encode(), vectors.shape[1]
    layout = [
        ("fields", ">i2"), ("fleet_size", ">i4"), ("fleet", f"S{len(named)}"), ("set_size", ">i4"), ("set", ">i8"),
        ("document_size", ">i4"), ("document", ">i8"), ("ordinal_size", ">i4"), ("ordinal", ">i4"),
        ("vector_size", ">i4"), ("dimensions", ">i2"), ("unused", ">i2"), ("vector", ">f2", (size,)),
    ]  # fmt: skip
    rows = np.zeros(len(vectors), np.dtype(layout))
    fixed = {"fields": 5, "fleet_size": len(named), "fleet": named, "set_size": 8, "set": number, "document_size": 8}
    fixed |= {"ordinal_size": 4, "vector_size": 4 + 2 * size, "dimensions": size}
    for name, value in fixed.items():
        rows[name] = value
    rows["document"], rows["ordinal"], rows["vector"] = owners[:, 0], owners[:, 1], vectors
    return rows.tobytes()


def copy_in(connection: "Connection[Any]", table: str, columns: str, rows: Iterable[bytes]) -> None:
    """Bring rows in, in the order of the columns."""
    statement = f"COPY toolcrib.{table} ({columns}) FROM STDIN (FORMAT BINARY)"
    with connection.cursor().copy(statement.encode()) as copy:
        copy.write(b"".join((HEAD, *rows, END)))


KIND = "block"
ORDINALS = 1 << 24
"""More passages than any document has: a passage is one number, its document's key and its ordinal in it."""

Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PostingBlock:
    """What is kept in memory of a block; it never changes."""

    id: int
    collection: str
    fields: tuple[str, ...]
    lengths: NDArray[np.uint32]
    documents: Longs
    ordinals: Longs
    starts: Longs
    ends: Longs
    sorted_passages: Longs
    order: Longs
    """Where the sorted ones stand."""

    def __len__(self) -> int:
        return len(self.documents)

    @property
    def postings(self) -> "PostingBlock":
        """Itself, as far as it has them."""
        return self

    @property
    def vectors(self) -> None:
        """They are elsewhere."""

    def find(self, passages: Longs) -> tuple[Longs, NDArray[np.bool_]]:
        """Where passages stand here, and which of them do at all."""
        at = np.minimum(np.searchsorted(self.sorted_passages, passages), len(self) - 1)
        return self.order[at], self.sorted_passages[at] == passages

    def rows(self, dead: Sequence[int]) -> SegmentRows:
        """What is alive, if these documents are not."""
        alive = np.flatnonzero(~np.isin(self.documents, np.asarray(dead, np.int64)))
        columns: list[Any] = [each[alive] for each in (self.documents, self.ordinals, self.starts, self.ends)]
        positions: Any = alive
        return SegmentRows(positions, *columns)


def encode_head(owners: Sequence[tuple[int, int]], spans: Sequence[tuple[int, int]], postings: Postings) -> bytes:
    """Whose passages they are, as (document, ordinal), from where to where they go, and how long they are."""
    arrays: dict[str, NDArray[Any]] = {
        "owners": np.asarray(owners, np.int64),
        "spans": np.asarray(spans, np.int64),
        "lengths": postings.lengths,
    }
    return pack(KIND, arrays, {"fields": postings.fields})


def decode_head(number: int, collection: str, head: bytes) -> PostingBlock:
    """A block from what ``encode_head`` made; raises ``DamagedIndex``."""
    arrays, about = unpack(KIND, head)
    (documents, ordinals), (starts, ends) = arrays["owners"].T.copy(), arrays["spans"].T.copy()
    passages = documents * ORDINALS + ordinals
    order = np.argsort(passages, kind="stable")
    known = (tuple(about["fields"]), arrays["lengths"], documents, ordinals, starts, ends)
    return PostingBlock(number, collection, *known, passages[order], order)


ROW_MAX = 1000
"""Bytes of a row that has more than one term: larger ones are quicker to write and slower to search."""
COLUMNS = "fleet, block, first, terms, ends, held"
_ENDS = np.dtype("<u4")
_END = Struct("<I")


@dataclass(frozen=True, slots=True)
class PostingRow:
    """Some terms, each between two zeros, and what is held of them."""

    terms: bytes
    ends: bytes
    held: bytes

    def find(self, term: str) -> bytes:
        """What is held of a term; empty if it is not here."""
        at = self.terms.find(b"\0%b\0" % term.encode())
        if at < 0:
            return b""
        number = self.terms.count(b"\0", 0, at)
        (start,) = _END.unpack_from(self.ends, 4 * number - 4) if number else (0,)
        return self.held[start : _END.unpack_from(self.ends, 4 * number)[0]]


def posting_rows(fleet: str, block: int, postings: Postings) -> tuple[list[bytes], int]:
    """All rows of a block, as they are copied in, and how many bytes all that is held has."""
    before, octets = (6).to_bytes(2, "big") + text(fleet) + long(block), byte_array
    terms, (starts, held) = postings.terms(), postings.interleaved()
    ends, rows = np.asarray(starts, np.int64), list[bytes]()
    for a, b in _cuts(terms, starts):
        inside = (ends[a + 1 : b + 1] - starts[a]).astype(_ENDS).tobytes()
        named = b"\0%b\0" % b"\0".join(terms[a:b])
        fields = (octets(terms[a]), octets(named), octets(inside), octets(held[starts[a] : starts[b]]))
        rows.append(b"".join((before, *fields)))
    return rows, len(held)


def _cuts(terms: Sequence[bytes], starts: Sequence[int]) -> Iterator[tuple[int, int]]:
    """From which term to which one a row goes."""
    first, size = 0, 0
    for at, term in enumerate(terms):
        more = starts[at + 1] - starts[at] + len(term) + 5
        if size + more > ROW_MAX and at > first:
            yield first, at
            first, size = at, 0
        size += more
    if terms:
        yield first, len(terms)


def decode_held(encoded: bytes, fields: int) -> Held:
    """One term's entries and counts."""
    rows = np.frombuffer(encoded, posting_of(fields))
    return Held(rows["entry"], rows["counts"].T)


def whole_postings(block: PostingBlock, rows: Sequence[PostingRow]) -> Postings:
    """The words of a block as they were indexed, from its rows in their order."""
    terms = [term for row in rows for term in row.terms[1:-1].split(b"\0")]
    posting = posting_of(len(block.fields))
    held = np.frombuffer(b"".join([row.held for row in rows]), posting)
    arrays: dict[str, NDArray[Any]] = {
        "words": np.frombuffer(b"".join(terms), np.uint8),
        "word_ends": np.cumsum([len(term) for term in terms], dtype=np.uint64),
        "starts": _starts(rows) // np.uint64(posting.itemsize),
        "entries": np.ascontiguousarray(held["entry"]),
        "counts": np.ascontiguousarray(held["counts"].T),
        "lengths": block.lengths,
    }
    return Postings(arrays, block.fields)


def _starts(rows: Sequence[PostingRow]) -> NDArray[np.uint64]:
    """Where what is held of each term begins, were all rows one, and where the last one ends."""
    ends = np.frombuffer(b"".join([row.ends for row in rows]), _ENDS).astype(np.uint64)
    before = np.cumsum([0, *[len(row.held) for row in rows]], dtype=np.uint64)[:-1]
    offsets = np.repeat(before, [len(row.ends) // _ENDS.itemsize for row in rows])
    return np.concatenate([np.zeros(1, np.uint64), ends + offsets])
