"""Which terms stand in which entries: texts become numbers as they come, and are counted once at the end."""

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toolcrib.search.pieces import Pieces, is_new, joined
from toolcrib.search.tokens import BREAKS, plain_bytes, terms_in

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


class Counted(NamedTuple):
    """The words, sorted; of each posting the word by number and the entry, ascending; counts and lengths by field."""

    words: list[bytes]
    terms: Short
    entries: Short
    counts: NDArray[np.uint8]
    lengths: Short


class Gathered:
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

    def count(self) -> "Counted":
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
        return Counted([word for word, _ in words], *postings, lengths)


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
