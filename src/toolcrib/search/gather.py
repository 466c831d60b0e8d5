"""Which terms stand in which entries: texts become numbers as they come, and are counted once at the end."""

from array import array
from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from toolcrib.search.tokens import pieces_of, terms_in

Numbers = NDArray[np.uint64]

MOST_IN_ENTRY = 255  # counts saturate long before that
MOST_PIECES = 1 << 17  # that are remembered for the next entries


class Vocabulary(dict[bytes, int]):
    """Numbers for the pieces that texts are made of, given out as they are met, and the terms of each piece."""

    def __init__(self) -> None:
        self._of_words: dict[bytes, int] = {}
        self._terms, self._ends = array("I"), array("Q", [0])

    def __missing__(self, piece: bytes) -> int:
        known = self._of_words
        self._terms.extend([known.setdefault(term.encode(), len(known)) for term in terms_in(piece)])
        self._ends.append(len(self._terms))
        number = self[piece] = len(self)
        return number

    def terms(self) -> tuple[list[bytes], NDArray[np.uint32], NDArray[np.int64]]:
        """All terms by number; the numbers of every piece's terms, one piece after the other; where each ends."""
        return list(self._of_words), np.array(self._terms, np.uint32), np.array(self._ends, np.int64)


_idle: deque[Vocabulary] = deque(maxlen=1)
"""What the last texts were made of, as the next ones mostly are, too; nobody uses it now."""


class Gathered:
    """Entries in the making: for each field the numbers of its pieces in order."""

    def __init__(self, fields: int) -> None:
        self._vocabulary = _take_idle()
        self._pieces = [array("I") for _ in range(fields)]
        self._ends = [array("Q", [0]) for _ in range(fields)]

    def add(self, texts: Sequence[str]) -> None:
        """One more entry: the text of each field."""
        number_of = self._vocabulary.__getitem__
        for text, pieces, ends in zip(texts, self._pieces, self._ends, strict=True):
            if text:
                pieces.extend(map(number_of, pieces_of(text)))
            ends.append(len(pieces))

    def count(self, size: int) -> tuple[list[bytes], Numbers, NDArray[np.uint8], NDArray[np.uint32]]:
        """The words, sorted; postings as one number for word and entry, ascending; their counts; all lengths. Once."""
        words, terms, ends = self._vocabulary.terms()
        if len(self._vocabulary) <= MOST_PIECES:
            _idle.append(self._vocabulary)
        held = [_terms_in(np.array(pieces, np.int64), terms, ends) for pieces in self._pieces]
        used = np.flatnonzero(np.bincount(np.concatenate([np.zeros(0, np.uint32), *(each for each, _ in held)])))
        ordered = sorted((words[number], number) for number in used.tolist())
        rank = np.zeros(len(words), np.uint64)
        rank[[number for _, number in ordered]] = np.arange(len(ordered), dtype=np.uint64)
        sums = [np.diff(past[np.array(of, np.int64)]) for (_, past), of in zip(held, self._ends, strict=True)]
        lengths = np.array(sums, np.uint32).reshape(len(held), size)
        places, counts = _together([rank[each] for each, _ in held], lengths)
        return [word for word, _ in ordered], places, counts, lengths


def _take_idle() -> Vocabulary:
    try:
        return _idle.pop()
    except IndexError:
        return Vocabulary()


def _terms_in(
    pieces: NDArray[np.int64], terms: NDArray[np.uint32], ends: NDArray[np.int64]
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """The terms of these pieces, in order, and how many there are before each piece and at the end."""
    sizes: NDArray[np.int64] = (ends[1:] - ends[:-1])[pieces]
    past = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    where = np.repeat(ends[pieces] - past[:-1], sizes) + np.arange(past[-1])
    return terms[where], past


def _together(fields: Sequence[Numbers], lengths: NDArray[np.uint32]) -> tuple[Numbers, NDArray[np.uint8]]:
    """Which terms stand in which entries, as one number for both, ascending, and how often in each field."""
    bits = np.uint64(len(fields).bit_length())
    numbers = [
        (_with_entries(terms, of) << bits) | np.uint64(at)
        for at, (terms, of) in enumerate(zip(fields, lengths, strict=True))
    ]
    held = np.sort(np.concatenate([np.zeros(0, np.uint64), *numbers]))
    firsts = np.flatnonzero(_is_new(held))
    held, count = held[firsts], np.diff(firsts, append=len(held))
    is_new = _is_new(held >> bits)
    counts = np.zeros((len(fields), np.count_nonzero(is_new)), np.uint8)
    where = (held & ((np.uint64(1) << bits) - np.uint64(1))).astype(np.intp), np.cumsum(is_new) - 1
    counts[where] = np.minimum(count, MOST_IN_ENTRY)
    return held[is_new] >> bits, counts


def _with_entries(terms: Numbers, lengths: NDArray[np.uint32]) -> Numbers:
    """Each term and the entry it stands in as one number."""
    return (terms << np.uint64(32)) | np.repeat(np.arange(len(lengths), dtype=np.uint64), lengths)


def _is_new(numbers: Numbers) -> NDArray[np.bool_]:
    """Which of these, that ascend, differ from the one before."""
    result: NDArray[np.bool_] = np.concatenate([[True], numbers[1:] != numbers[:-1]])[: len(numbers)]
    return result
