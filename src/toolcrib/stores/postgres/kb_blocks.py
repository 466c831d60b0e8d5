"""Blocks: passages whose words were indexed together. Their lengths are read whole, their words term by term."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolcrib.core.knowledge import SegmentRows
from toolcrib.search.lexical import Held, Postings, posting_of
from toolcrib.search.pack import pack, unpack
from toolcrib.stores.postgres import kb_frames as frames

KIND = "block"
ORDINALS = 1 << 24
"""More passages than any document has: a passage is one number, its document's key and its ordinal in it."""

Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Block:
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
    def postings(self) -> "Block":
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


def decode_head(number: int, collection: str, head: bytes) -> Block:
    """A block from what ``encode_head`` made; raises ``DamagedIndex``."""
    arrays, about = unpack(KIND, head)
    (documents, ordinals), (starts, ends) = arrays["owners"].T.copy(), arrays["spans"].T.copy()
    passages = documents * ORDINALS + ordinals
    order = np.argsort(passages, kind="stable")
    known = (tuple(about["fields"]), arrays["lengths"], documents, ordinals, starts, ends)
    return Block(number, collection, *known, passages[order], order)


def posting_rows(fleet: str, block: int, postings: Postings) -> tuple[list[bytes], int]:
    """Rows of ``kb_posting``, one for each term, and how many bytes all that is held has."""
    before = (4).to_bytes(2, "big") + frames.text(fleet) + frames.long(block)
    starts, held = postings.interleaved()
    rows = [
        b"".join(
            (before, len(term).to_bytes(4, "big"), term, (end - start).to_bytes(4, "big"), held[start:end]),
        )
        for term, (start, end) in zip(postings.terms(), pairwise(starts), strict=True)
    ]
    return rows, len(held)


def decode_held(encoded: bytes, fields: int) -> Held:
    """One term's entries and counts."""
    rows = np.frombuffer(encoded, posting_of(fields))
    return Held(rows["entry"], rows["counts"].T)


def whole_postings(block: Block, rows: Sequence[tuple[str, bytes]]) -> Postings:
    """The words of a block as they were indexed, from its rows in the order of their terms."""
    terms, posting = [term.encode() for term, _ in rows], posting_of(len(block.fields))
    held = np.frombuffer(b"".join([encoded for _, encoded in rows]), posting)
    ends = np.cumsum([0, *[len(encoded) for _, encoded in rows]], dtype=np.uint64)
    arrays: dict[str, NDArray[Any]] = {
        "words": np.frombuffer(b"".join(terms), np.uint8),
        "word_ends": np.cumsum([len(term) for term in terms], dtype=np.uint64),
        "starts": ends // np.uint64(posting.itemsize),
        "entries": np.ascontiguousarray(held["entry"]),
        "counts": np.ascontiguousarray(held["counts"].T),
        "lengths": block.lengths,
    }
    return Postings(arrays, block.fields)
