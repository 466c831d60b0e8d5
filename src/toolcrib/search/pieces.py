"""Texts as numbers: each piece of a text has one, given out when it is first met. All pieces of many texts at once."""

from array import array
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toolcrib.search.tokens import BREAKS, plain_bytes, terms_in

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


Short = NDArray[np.uint32]

SPACE = ord(" ")
MOST_IN_ENTRY = 255  # counts saturate long before that
MOST_PIECES = 1 << 17  # that are remembered for the next entries
AT_ONCE = 250_000  # characters that become numbers together


class Vocabulary:
    """The pieces of texts, and the terms that they stand for."""

    def __init__(self) -> None:
        self.pieces = Pieces(self._terms_in)
        self._terms: dict[bytes, int] = {}
        self._sorted: list[tuple[bytes, int]] = []

    def _terms_in(self, piece: bytes) -> list[int]:
        known = self._terms
        return [known.setdefault(term.encode(), len(known)) for term in terms_in(piece)]

    def number(self, texts: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The numbers of all pieces of these texts, in order, and how many there are up to the end of each text."""
        buffer, past = joined([plain_bytes(text) for text in texts])
        buffer = buffer.translate(BREAKS)
        is_piece = np.frombuffer(buffer, np.uint8) != SPACE
        edges = np.flatnonzero(is_piece[1:] != is_piece[:-1]) + 1
        starts, ends = edges[::2], edges[1::2]
        return self.pieces.look_up(buffer, starts, ends), np.searchsorted(starts, past)

    def sorted_terms(self) -> list[tuple[bytes, int]]:
        """All terms with their numbers, sorted."""
        self._sorted += list(self._terms.items())[len(self._sorted) :]
        self._sorted.sort()  # soon done, where there were few new ones
        return self._sorted


_idle: deque[Vocabulary] = deque(maxlen=1)
"""What the last texts were made of, as the next ones mostly are, too; nobody uses it now."""


class WordCounts(NamedTuple):
    """The words, sorted; of each posting the word by number and the entry, ascending; counts and lengths by field."""

    words: list[bytes]
    terms: Short
    entries: Short
    counts: NDArray[np.uint8]
    lengths: Short


class EntryPieces:
    """Entries in the making: for each field the numbers of its pieces in order."""

    def __init__(self, fields: int) -> None:
        self._vocabulary = _take_idle()
        self._waiting: list[list[str]] = [[] for _ in range(fields)]
        self._entries = self._characters = 0
        self._pieces: list[list[NDArray[np.int32]]] = [[] for _ in range(fields)]
        self._sizes: list[list[NDArray[np.int64]]] = [[] for _ in range(fields)]

    def add(self, texts: Sequence[str]) -> None:
        """One more entry: the text of each field."""
        for text, waiting in zip(texts, self._waiting, strict=True):
            waiting.append(text)
            self._characters += len(text)
        self._entries += 1
        if self._characters >= AT_ONCE:
            self._number()

    def _number(self) -> None:
        """Texts are no longer needed then."""
        for waiting, pieces, sizes in zip(self._waiting, self._pieces, self._sizes, strict=True):
            numbers, past = self._vocabulary.number(waiting)
            pieces.append(numbers)
            sizes.append(np.diff(past, prepend=0))
            waiting.clear()
        self._characters = 0

    def count(self) -> "WordCounts":
        """What there is in all entries. Once."""
        self._number()
        held = [self._vocabulary.pieces.meant(np.concatenate(pieces)) for pieces in self._pieces]
        known = self._vocabulary.sorted_terms()
        used = np.bincount(np.concatenate([np.zeros(0, np.uint32), *(each for each, _ in held)]), minlength=len(known))
        is_used = used.tolist()
        words = [(word, number) for word, number in known if is_used[number]]
        rank = np.zeros(len(known), np.uint32)
        rank[[number for _, number in words]] = np.arange(len(words), dtype=np.uint32)
        lengths = np.array([_sums(past, sizes) for (_, past), sizes in zip(held, self._sizes, strict=True)], np.uint32)
        lengths = lengths.reshape(len(held), self._entries)
        postings = _together([rank[each] for each, _ in held], lengths, len(words))
        if len(self._vocabulary.pieces) <= MOST_PIECES:
            _idle.append(self._vocabulary)
        return WordCounts([word for word, _ in words], *postings, lengths)


def _take_idle() -> Vocabulary:
    try:
        return _idle.pop()
    except IndexError:
        return Vocabulary()


def _sums(past: NDArray[np.int64], sizes: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """How many terms each entry has, from how many there are before each piece, and how many pieces each entry has."""
    return np.diff(past[np.cumsum(np.concatenate(sizes))], prepend=0)


def _together(fields: Sequence[Short], lengths: Short, words: int) -> tuple[Short, Short, NDArray[np.uint8]]:
    """Which words stand in which entries, by word and entry, and how often in each field."""
    of_field, of_entry = len(fields).bit_length(), lengths.shape[1].bit_length()
    size: Any = np.uint32 if words.bit_length() + of_entry + of_field <= 32 else np.uint64
    above, entries = size(of_entry + of_field), np.arange(lengths.shape[1], dtype=size) << size(of_field)
    numbers = [
        (terms.astype(size) << above) | np.repeat(entries | size(at), of)
        for at, (terms, of) in enumerate(zip(fields, lengths, strict=True))
    ]
    held = np.sort(np.concatenate([np.zeros(0, size), *numbers]))
    firsts = np.flatnonzero(is_new(held))
    held, count = held[firsts], np.diff(firsts, append=len(held))
    places = held >> size(of_field)
    is_first = is_new(places)
    counts = np.zeros((len(fields), np.count_nonzero(is_first)), np.uint8)
    where = (held & size((1 << of_field) - 1)).astype(np.intp), np.cumsum(is_first) - 1
    counts[where] = np.minimum(count, MOST_IN_ENTRY)
    places = places[is_first]
    return (places >> size(of_entry)).astype(np.uint32), (places & size((1 << of_entry) - 1)).astype(np.uint32), counts
