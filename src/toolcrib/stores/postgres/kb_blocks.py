"""Blocks: passages whose words were indexed together. Their lengths are read whole, their words term by term."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolcrib.core.knowledge import SegmentRows
from toolcrib.search.lexical import Postings
from toolcrib.search.pack import pack, unpack

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
