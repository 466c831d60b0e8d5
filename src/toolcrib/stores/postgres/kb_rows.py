"""Rows of ``kb_posting``: a few terms each, and one for each term that many passages hold."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolcrib.search.lexical import Held, Postings, posting_of
from toolcrib.stores.postgres import kb_frames as frames
from toolcrib.stores.postgres.kb_blocks import Block

ROW_MAX = 1000
"""Bytes of a row that has more than one term: larger ones are quicker to write and slower to search."""
COLUMNS = "fleet, block, first, terms, ends, held"
_ENDS = np.dtype("<u4")
_END = Struct("<I")


@dataclass(frozen=True, slots=True)
class Row:
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
    before, octets = (6).to_bytes(2, "big") + frames.text(fleet) + frames.long(block), frames.octets
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


def whole_postings(block: Block, rows: Sequence[Row]) -> Postings:
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


def _starts(rows: Sequence[Row]) -> NDArray[np.uint64]:
    """Where what is held of each term begins, were all rows one, and where the last one ends."""
    ends = np.frombuffer(b"".join([row.ends for row in rows]), _ENDS).astype(np.uint64)
    before = np.cumsum([0, *[len(row.held) for row in rows]], dtype=np.uint64)[:-1]
    offsets = np.repeat(before, [len(row.ends) // _ENDS.itemsize for row in rows])
    return np.concatenate([np.zeros(1, np.uint64), ends + offsets])
