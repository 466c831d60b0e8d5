"""Texts as numbers: each piece of a text has one, given out when it is first met. All pieces of many texts at once."""

from array import array
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]
Words = NDArray[np.uint64]

WORD = 8  # bytes that are compared at once
SHORT = 2 * WORD
"""Bytes of a piece that is looked up together with others; the few longer ones are looked up one by one."""
FIRST_SIZE = 1 << 12
MOST_TRIES = 8
_MIX = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], np.uint64)
_ONE, _ALL = np.uint64(1), (1 << 64) - 1
_KEPT = np.array(
    [[(1 << 8 * min(max(size - before, 0), WORD)) - 1 & _ALL for size in range(SHORT + 1)] for before in (0, WORD)],
    np.uint64,
)
"""What belongs to a piece of each size, in its first and in its second word."""


class Pieces(dict[bytes, int]):
    """Numbers for the pieces that texts are made of, given out as they are met, and what each piece stands for."""

    def __init__(self, meaning: Callable[[bytes], Iterable[int]]) -> None:
        self._meaning = meaning
        self._meant, self._ends = array("I"), array("Q", [0])
        self._arrays = np.zeros(0, np.uint32), np.zeros(0, np.int64)
        self._short = _Table(FIRST_SIZE)

    def __missing__(self, piece: bytes) -> int:
        self._meant.extend(self._meaning(piece))
        self._ends.append(len(self._meant))
        number = self[piece] = len(self)
        return number

    def meaning(self, piece: bytes) -> Sequence[int]:
        """What one piece stands for."""
        number = self[piece]
        return self._meant[self._ends[number] : self._ends[number + 1]]

    def meant(self, numbers: NDArray[np.int32]) -> tuple[NDArray[np.uint32], Longs]:
        """What these pieces stand for, in order, and how much there is before each piece and at the end."""
        if len(self._arrays[1]) < len(self._ends):
            self._arrays = np.array(self._meant, np.uint32), np.array(self._ends, np.int64)
        meant, ends = self._arrays
        starts = ends[numbers]
        sizes = ends[numbers + 1] - starts
        past = np.zeros(len(numbers) + 1, np.int64)
        np.cumsum(sizes, out=past[1:])
        return meant[np.repeat(starts - past[:-1], sizes) + np.arange(past[-1])], past

    def look_up(self, buffer: bytes, starts: Longs, ends: Longs) -> NDArray[np.int32]:
        """The numbers of the pieces that stand there in ``buffer``, which ``joined`` made."""
        keys = _keys(buffer, starts, ends - starts)
        found = self._short.find(keys)
        is_long = ends - starts > SHORT
        found[is_long] = -1
        missing = np.flatnonzero(found < 0)
        if len(missing):
            long, short = missing[is_long[missing]], missing[~is_long[missing]]
            found[long] = self._ask(buffer, starts[long], ends[long])
            order, firsts = _distinct(keys[:, short])
            new = short[order[firsts]]
            numbers = self._ask(buffer, starts[new], ends[new])
            found[short[order]] = numbers[np.cumsum(firsts) - 1]
            self._short = self._short.with_more(keys[:, new], numbers)
        return found

    def _ask(self, buffer: bytes, starts: Longs, ends: Longs) -> NDArray[np.int32]:
        pairs = zip(starts.tolist(), ends.tolist(), strict=True)
        return np.array([self[buffer[start:end]] for start, end in pairs], np.int32)


def joined(parts: Sequence[bytes]) -> tuple[bytes, Longs]:
    """Texts in one, with spaces before, between and after them, and where each ends."""
    past = np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)) + 1)
    whole = b"".join([b" ", b" ".join(parts), b" " * (2 * SHORT)])  # a key reads beyond the end of a piece
    return whole[: len(whole) // WORD * WORD], past


def is_new(numbers: NDArray[np.unsignedinteger]) -> NDArray[np.bool_]:
    """Which of these, that ascend, differ from the one before."""
    result: NDArray[np.bool_] = np.concatenate([[True], numbers[1:] != numbers[:-1]])[: len(numbers)]
    return result


def _keys(buffer: bytes, starts: Longs, sizes: Longs) -> Words:
    """The first bytes of each piece, in two words, with zeros after its end; no piece has a zero in it."""
    words, at = np.frombuffer(buffer, "<u8"), starts // WORD
    skip = ((starts % WORD) * 8).astype(np.uint64)
    left, kept = np.uint64(63) - skip, np.minimum(sizes, SHORT)
    first, second, third = words[at], words[at + 1], words[at + 2]
    low = ((first >> skip) | ((second << _ONE) << left)) & _KEPT[0][kept]
    high = ((second >> skip) | ((third << _ONE) << left)) & _KEPT[1][kept]
    return np.stack([low, high])


def _distinct(keys: Words) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """An order in which equal keys stand together, and which of them, in this order, are the first of their kind."""
    order = np.lexsort(keys)
    ordered = keys[:, order]
    firsts = np.ones(len(order), np.bool_)
    firsts[1:] = (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)
    return order, firsts


class _Table:
    """Numbers by key, for many keys at once; what finds no place within a few tries is left out."""

    def __init__(self, size: int) -> None:
        self._keys = np.zeros((2, size), np.uint64)
        self._numbers = np.full(size, -1, np.int32)

    def find(self, keys: Words) -> NDArray[np.int32]:
        """The number of each key; -1 for those that are not here."""
        found = np.full(keys.shape[1], -1, np.int32)
        left, slots = np.arange(len(found)), self._slots(keys)
        for _ in range(MOST_TRIES):
            there = self._numbers[slots]
            is_it = (self._keys[0][slots] == keys[0]) & (self._keys[1][slots] == keys[1])
            found[left[is_it]] = there[is_it]
            goes_on = ~is_it & (there >= 0)
            if not goes_on.any():
                break
            left, keys, slots = left[goes_on], keys[:, goes_on], self._next(slots[goes_on])
        return found

    def with_more(self, keys: Words, numbers: NDArray[np.int32]) -> "_Table":
        """A table that knows these, too: this one, if it is large enough."""
        used = self._numbers >= 0
        if 2 * (np.count_nonzero(used) + len(numbers)) <= len(used):
            self._put(keys, numbers)
            return self
        return _Table(4 * len(used)).with_more(
            np.concatenate([self._keys[:, used], keys], axis=1), np.concatenate([self._numbers[used], numbers])
        )

    def _put(self, keys: Words, numbers: NDArray[np.int32]) -> None:
        slots = self._slots(keys)
        for _ in range(MOST_TRIES):
            is_free = self._numbers[slots] < 0
            self._numbers[slots[is_free]] = numbers[is_free]  # of several that want one place, one has it then
            is_in = is_free & (self._numbers[slots] == numbers)
            self._keys[:, slots[is_in]] = keys[:, is_in]
            keys, numbers, slots = keys[:, ~is_in], numbers[~is_in], self._next(slots[~is_in])

    def _slots(self, keys: Words) -> NDArray[np.intp]:
        mixed = (keys[0] * _MIX[0]) ^ (keys[1] * _MIX[1])
        slots: NDArray[np.intp] = (mixed >> np.uint64(65 - len(self._numbers).bit_length())).astype(np.intp)
        return slots

    def _next(self, slots: NDArray[np.intp]) -> NDArray[np.intp]:
        return (slots + 1) % len(self._numbers)
