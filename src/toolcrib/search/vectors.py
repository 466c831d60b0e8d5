"""Nearest vectors: int8 rows with a scale each, and their signs as bits for a first, coarse look."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from toolcrib.search.pack import pack, unpack

Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]

KIND = "vectors"
EXACT_UP_TO = 500  # rows that are compared one by one
FARTHEST = 4096  # signs that differ, at most
EXACT_SUM = 2**24


class Embedder(Protocol):
    """Turns texts into vectors: one row each, of length 1 (or 0 where a text says nothing)."""

    @property
    def name(self) -> str:
        """Says which vectors may be compared: those of one name only."""
        ...

    @property
    def dimensions(self) -> int:
        """How long a vector is."""
        ...

    def embed(self, texts: Sequence[str]) -> Floats:
        """One row for each text."""
        ...


class Vectors:
    """Rows 0 to n-1, quantised; built once, never changed."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._arrays = dict(arrays)
        self._rows: NDArray[np.int8] = arrays["rows"]
        self._scales: Floats = arrays["scales"]
        self._signs: NDArray[np.uint64] = arrays["signs"]  # (word, row): one row's bits stand in one column

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def dimensions(self) -> int:
        """How long a row is."""
        return int(self._rows.shape[1])

    @classmethod
    def build(cls, rows: Floats) -> "Vectors":
        """Quantise: a cosine moves by less than 0.01."""
        rows = np.asarray(rows, np.float32)
        largest = np.abs(rows).max(axis=1, initial=0.0)
        scales = (np.where(largest > 0, largest, 1.0) / 127).astype(np.float32)
        quantised = np.rint(rows / scales[:, None]).astype(np.int8)
        return cls({"rows": quantised, "scales": scales, "signs": _signs_of(quantised)})

    @classmethod
    def merge(cls, parts: Sequence["Vectors"], keeps: Sequence[Mask | None]) -> "Vectors":
        """The kept rows of all parts, in order."""
        chosen = [slice(None) if keep is None else keep for keep in keeps]
        pairs = list(zip(parts, chosen, strict=True))
        return cls(
            {
                "rows": np.concatenate([part._rows[keep] for part, keep in pairs]),
                "scales": np.concatenate([part._scales[keep] for part, keep in pairs]),
                "signs": np.concatenate([part._signs[:, keep] for part, keep in pairs], axis=1),
            }
        )

    @classmethod
    def from_bytes(cls, buffer: bytes | memoryview, *, is_checked: bool = False) -> "Vectors":
        """Vectors whose arrays are views into ``buffer``."""
        return cls(unpack(KIND, buffer, is_checked=is_checked)[0])

    def to_bytes(self) -> bytes:
        """A frame that ``from_bytes`` reads."""
        return pack(KIND, self._arrays, {})

    def to_floats(self) -> Floats:
        """The rows as they were quantised; building from them gives the same vectors again."""
        result: Floats = self._rows.astype(np.float32) * self._scales[:, None]
        return result

    def similarities(self, query: Floats, rows: NDArray[np.intp] | slice) -> Floats:
        """The cosines of these rows with a query of length 1, the same to the last bit however rows are grouped."""
        # Whole numbers whose sums stay below 2^24 add up exactly in float32, in any order.
        fine = np.float32(EXACT_SUM / (127 * np.sqrt(self.dimensions)))
        whole = np.rint(query * fine)
        # Not by BLAS: for so few numbers its threads cost more than they bring.
        chosen = self._rows[rows] if isinstance(rows, slice) else self._rows.take(rows, axis=0)
        sums = np.einsum("ij,j->i", chosen.astype(np.float32), whole)
        result: Floats = sums * (self._scales[rows] / fine)
        return result

    def distances(self, query: Floats) -> NDArray[np.uint16]:
        """For each row in how many signs it differs from the query: small where the cosine is large."""
        total = np.zeros(len(self), np.uint16)
        for words, wanted in zip(self._signs, _signs_of(query[None, :])[:, 0], strict=True):
            total += np.bitwise_count(words ^ wanted)
        return total


def nearest(
    parts: Sequence[Vectors], masks: Sequence[Mask | None], query: Floats, wanted: int
) -> list[NDArray[np.intp]]:
    """For each part the rows, ascending, among which the nearest are: about ``wanted`` in all, or every row of few."""
    if sum(map(len, parts)) <= max(EXACT_UP_TO, wanted):
        return [_allowed(part, mask) for part, mask in zip(parts, masks, strict=True)]
    far = [np.minimum(part.distances(query), FARTHEST - 1) for part in parts]
    for distances, mask in zip(far, masks, strict=True):
        if mask is not None:
            distances[~mask] = FARTHEST
    counts = np.sum([np.bincount(each, minlength=FARTHEST + 1) for each in far], axis=0)
    limit = min(int(np.searchsorted(np.cumsum(counts), wanted)), FARTHEST - 1)
    return [np.flatnonzero(each <= limit) for each in far]


def cosines(parts: Sequence[Vectors], query: Floats, rows: NDArray[np.intp]) -> Floats:
    """The cosines of rows that are numbered through all parts and ascend."""
    offsets = np.cumsum([0, *map(len, parts)])
    cuts = np.searchsorted(rows, offsets)
    found = [
        part.similarities(query, rows[start:end] - offset)
        for part, start, end, offset in zip(parts, cuts, cuts[1:], offsets, strict=False)
    ]
    return np.concatenate([*found, np.zeros(0, np.float32)])


def _allowed(part: Vectors, mask: Mask | None) -> NDArray[np.intp]:
    return np.arange(len(part)) if mask is None else np.flatnonzero(mask)


def _signs_of(rows: NDArray[Any]) -> NDArray[np.uint64]:
    bits = np.packbits(rows > 0, axis=1)
    padded = np.zeros((len(bits), -(-bits.shape[1] // 8) * 8), np.uint8)
    padded[:, : bits.shape[1]] = bits
    return np.ascontiguousarray(padded.view(np.uint64).T)
