"""BM25F over immutable postings: what a query's words say about each entry.

Term statistics are added up over all postings searched together (:class:`Statistics`), so that a score does not depend
on how entries were split over segments. The formula is BM25F with a length norm for each field:
https://www.staff.city.ac.uk/~sbrp622/papers/foundations_bm25_review.pdf (3.6).
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from toolcrib.search.pack import pack, unpack
from toolcrib.search.pieces import EntryPieces

Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]
Short = NDArray[np.uint32]
Words = NDArray[np.uint64]
Counts = NDArray[np.uint8]
Arrays = dict[str, NDArray[Any]]

KIND = "postings"
MOST_REMEMBERED = 1_000_000  # postings of terms asked for lately, worked out
MOST_MATCHED = 8  # terms: of a longer query, no entry is expected to hold all


@dataclass(frozen=True, slots=True)
class FieldWeight:
    """How much a field counts, and how strongly its length is held against it."""

    weight: float = 1.0
    norm: float = 0.75


@dataclass(frozen=True, slots=True)
class Bm25:
    """What the formula is tuned by; fields that are not named count like ``Field()``."""

    fields: Mapping[str, FieldWeight]
    k1: float = 1.2

    def field(self, name: str) -> FieldWeight:
        """What is said of the field, or the default."""
        return self.fields.get(name, FieldWeight())


@dataclass(frozen=True, slots=True)
class Held:
    """Which entries hold a term, ascending, and how often each does, by field."""

    entries: NDArray[np.uint32]
    counts: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.entries)


def posting_of(fields: int) -> np.dtype[Any]:
    """One posting, as bytes: the entry, and how often each field holds the term."""
    return np.dtype([("entry", "<u4"), ("counts", "u1", (fields,))])


class Measured(Protocol):
    """Entries whose lengths are at hand, wherever their terms are."""

    @property
    def fields(self) -> tuple[str, ...]:
        """Their names, in order."""
        ...

    @property
    def lengths(self) -> NDArray[np.uint32]:
        """How many terms each field of each entry has: (field, entry)."""
        ...

    def __len__(self) -> int: ...


Fetch = Callable[[Sequence[str]], Mapping[str, Sequence[Held]]]
"""Asked for terms, gives what each part holds of them."""


class Postings:
    """For each term the entries that hold it, with a count for each field; built once, never changed."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]], fields: Sequence[str]) -> None:
        self.fields = tuple(fields)
        self._arrays = dict(arrays)
        self._words: memoryview = memoryview(arrays["words"]).cast("B")  # type: ignore[arg-type]
        self._word_ends: memoryview = memoryview(arrays["word_ends"])  # type: ignore[arg-type]
        self._starts = arrays["starts"]
        self._entries = arrays["entries"]
        self._counts = arrays["counts"]  # (field, posting)
        self.lengths: NDArray[np.uint32] = arrays["lengths"]  # (field, entry)

    def __len__(self) -> int:
        return int(self.lengths.shape[1])

    @classmethod
    def build(cls, entries: Iterable[Mapping[str, str]], fields: Sequence[str]) -> "Postings":
        """Index the named fields of each entry, in order; what else an entry holds is left out."""
        gathered = EntryPieces(len(fields))
        for entry in entries:
            gathered.add([entry.get(name, "") for name in fields])
        return cls(_arranged(*gathered.count()), fields)

    @classmethod
    def merge(cls, parts: Sequence["Postings"], keeps: Sequence[Mask | None]) -> "Postings":
        """One in place of several: the kept entries in order, without reading any text again."""
        fields = list(dict.fromkeys(name for part in parts for name in part.fields))
        return cls(_merged(parts, keeps, fields), fields)

    @classmethod
    def from_bytes(cls, buffer: bytes | memoryview, *, is_checked: bool = False) -> "Postings":
        """Postings whose arrays are views into ``buffer``."""
        arrays, about = unpack(KIND, buffer, is_checked=is_checked)
        return cls(arrays, about["fields"])

    def to_bytes(self) -> bytes:
        """A frame that ``from_bytes`` reads."""
        return pack(KIND, self._arrays, {"fields": self.fields})

    def _find(self, term: str) -> slice:
        """Where the term's postings stand; an empty slice when no entry holds it."""
        wanted = term.encode()
        at = bisect_left(range(len(self._word_ends)), wanted, key=self._word)
        if at == len(self._word_ends) or self._word(at) != wanted:
            return slice(0, 0)
        return slice(int(self._starts[at]), int(self._starts[at + 1]))

    def held(self, term: str) -> Held:
        """The entries that hold a term, with their counts."""
        place = self._find(term)
        return Held(self._entries[place], self._counts[:, place])

    def interleaved(self) -> tuple[list[int], bytes]:
        """All postings, each as the number of its entry and its counts, and where those of each term begin and end."""
        rows = np.empty(len(self._entries), posting_of(len(self.fields)))
        rows["entry"], rows["counts"] = self._entries, self._counts.T
        return (self._starts * rows.dtype.itemsize).tolist(), rows.tobytes()

    def terms(self) -> list[bytes]:
        """Every term there is, sorted."""
        words, ends = bytes(self._words), self._word_ends.tolist()
        return [words[start:end] for start, end in pairwise([0, *ends])]

    def _word(self, at: int) -> bytes:
        start = self._word_ends[at - 1] if at else 0
        return self._words[start : self._word_ends[at]].tobytes()


def _arranged(words: Sequence[bytes], terms: Short, entries: Short, counts: Counts, lengths: Short) -> Arrays:
    """What postings are made of; these must be sorted by term, then entry."""
    starts = np.zeros(len(words) + 1, np.uint64)
    np.cumsum(np.bincount(terms, minlength=len(words)), out=starts[1:])
    return _made(words, starts, entries, counts, lengths)


def _made(words: Sequence[bytes], starts: Words, entries: Short, counts: Counts, lengths: Short) -> Arrays:
    return {
        "words": np.frombuffer(b"".join(words), np.uint8),
        "word_ends": np.cumsum([len(word) for word in words], dtype=np.uint64),
        "starts": starts,
        "entries": entries,
        "counts": np.ascontiguousarray(counts),
        "lengths": np.ascontiguousarray(lengths),
    }


def _merged(parts: Sequence[Postings], keeps: Sequence[Mask | None], fields: Sequence[str]) -> Arrays:
    """Every posting goes straight to its place: after those of smaller terms, and of parts before its own."""
    pieces, base = list[_Kept](), 0
    for part, keep in zip(parts, keeps, strict=True):
        pieces.append(_kept(part, keep, base))
        base += pieces[-1].lengths.shape[1]
    words = sorted(set().union(*(piece.words for piece in pieces)))
    ranks = {word: rank for rank, word in enumerate(words)}
    own = [np.array([ranks[word] for word in piece.words], np.intp) for piece in pieces]
    starts = np.zeros(len(words) + 1, np.int64)
    for piece, rank in zip(pieces, own, strict=True):
        starts[1:][rank] += piece.sizes
    np.cumsum(starts, out=starts)
    entries, counts = np.empty(starts[-1], np.uint32), np.empty((len(fields), starts[-1]), np.uint8)
    free = starts[:-1].copy()
    for piece, rank, part in zip(pieces, own, parts, strict=True):
        first = np.cumsum(piece.sizes) - piece.sizes
        places = np.arange(len(piece.entries)) + np.repeat(free[rank] - first, piece.sizes)
        free[rank] += piece.sizes
        entries[places] = piece.entries
        counts[:, places] = _aligned(piece.counts, part, fields)
    lengths = [_aligned(piece.lengths, part, fields) for piece, part in zip(pieces, parts, strict=True)]
    return _made(words, starts.astype(np.uint64), entries, counts, np.concatenate(lengths, 1))


@dataclass(frozen=True, slots=True)
class _Kept:
    words: list[bytes]
    sizes: NDArray[np.int64]
    """How many postings each word has; they stand one word after the other."""
    entries: Short
    counts: Counts
    lengths: Short


def _kept(part: Postings, mask: Mask | None, base: int) -> _Kept:
    """The postings of the entries under the mask, with their new numbers; words without any are left out."""
    words = part.terms()
    starts = part._starts.astype(np.int64)
    if mask is None:
        return _Kept(words, np.diff(starts), part._entries + np.uint32(base), part._counts, part.lengths)
    numbers = (np.cumsum(mask) - 1 + base).astype(np.uint32)
    held = mask[part._entries]
    sizes = np.diff(np.concatenate([np.zeros(1, np.int64), np.cumsum(held)])[starts])
    words = [word for word, size in zip(words, sizes.tolist(), strict=True) if size]
    return _Kept(words, sizes[sizes > 0], numbers[part._entries[held]], part._counts[:, held], part.lengths[:, mask])


def _aligned(rows: NDArray[Any], part: Postings, fields: Sequence[str]) -> NDArray[Any]:
    """One row for each of ``fields``; zeros where the part has no such field."""
    if part.fields == tuple(fields):
        return rows
    empty = np.zeros(rows.shape[1], rows.dtype)
    by_name = dict(zip(part.fields, rows, strict=True))
    return np.array([by_name.get(name, empty) for name in fields], rows.dtype).reshape(len(fields), rows.shape[1])


class Statistics:
    """What the formula needs to know of all postings together."""

    def __init__(self, parts: Sequence[Measured], formula: Bm25) -> None:
        self.size = sum(map(len, parts))
        self._parts = parts
        self._formula = formula
        self._means = {name: self._mean_length(name) for part in parts for name in part.fields}
        self._scales = [self._scale(part) for part in parts]

    def idf(self, held: int) -> float:
        """How rare a term is that so many entries hold; never negative."""
        return float(np.log1p((self.size - held + 0.5) / (held + 0.5)))

    def weights(self, part: int, held: Held) -> Floats:
        """From 0 to 1 for each posting: how much its entry is about the term, as counts and lengths say."""
        entries, counts = held.entries, held.counts
        mass = np.zeros(len(entries), np.float32)
        for scale, count in zip(self._scales[part], counts, strict=True):
            holding = np.count_nonzero(count)
            if holding * 4 > len(count):
                mass += count * scale[entries]
            elif holding:
                some = np.flatnonzero(count)
                mass[some] += count[some] * scale[entries[some]]
        result: Floats = mass / (mass + np.float32(self._formula.k1))
        return result

    def _scale(self, part: Measured) -> list[Floats]:
        """For each field and entry what one occurrence there is worth."""
        return [
            _worth(lengths, self._means[name], self._formula.field(name))
            for name, lengths in zip(part.fields, part.lengths, strict=True)
        ]

    def _mean_length(self, field: str) -> float:
        """Over the entries that have the field at all."""
        lengths = [part.lengths[part.fields.index(field)] for part in self._parts if field in part.fields]
        held = sum(int(np.count_nonzero(each)) for each in lengths)
        return sum(int(each.sum()) for each in lengths) / max(held, 1)


def _worth(lengths: NDArray[np.uint32], mean: float, field: FieldWeight) -> Floats:
    relative = lengths.astype(np.float32) / np.float32(max(mean, 1e-6))
    worth: Floats = field.weight / (1 - field.norm + field.norm * np.maximum(relative, np.float32(1e-3)))
    return worth


class Lexical:
    """Scores every entry of several parts, numbered through from the first to the last.

    Parts that are postings are looked into; for others, ``fetch`` is asked.
    """

    def __init__(self, parts: Sequence[Measured], formula: Bm25, fetch: Fetch | None = None) -> None:
        self._fetch = fetch or _look_into([part for part in parts if isinstance(part, Postings)])
        self._offsets = np.cumsum([0, *map(len, parts)])
        self._statistics = Statistics(parts, formula)
        self._known: dict[str, Term] = {}
        self._remembered = 0

    def look_up(self, terms: Iterable[str]) -> dict[str, "Term"]:
        """Each distinct term with its idf and what it adds to the entries that hold it."""
        wanted, known = list(dict.fromkeys(terms)), self._known
        found = {term: known[term] for term in wanted if term in known}
        missing = [term for term in wanted if term not in found]
        for term, held in (self._fetch(missing) if missing else {}).items():
            found[term] = self._remember(term, self._work_out(held))
        return {term: found[term] for term in wanted}

    def score(self, terms: Iterable["Term"]) -> Floats:
        """For each entry the share, 0 to 1, of what the terms could add to one entry at most."""
        chosen = list(terms)
        scores = np.zeros(int(self._offsets[-1]), np.float32)
        for term in chosen:
            for entries, gains in term.gains:
                scores[entries] += gains
        likely = sum(sorted((term.idf for term in chosen), reverse=True)[:MOST_MATCHED])
        return scores / np.float32(max(likely, float(scores.max(initial=0.0)), 1e-9))

    def _remember(self, term: str, found: "Term") -> "Term":
        self._remembered += 1 + sum(len(entries) for entries, _ in found.gains)
        if self._remembered > MOST_REMEMBERED:
            self._known, self._remembered = {}, 0
        self._known[term] = found
        return found

    def _work_out(self, parts: Sequence[Held]) -> "Term":
        idf = self._statistics.idf(sum(map(len, parts)))
        gains = [
            (held.entries.astype(np.intp) + self._offsets[at], np.float32(idf) * self._statistics.weights(at, held))
            for at, held in enumerate(parts)
            if len(held)
        ]
        return Term(idf, gains)


def _look_into(parts: Sequence[Postings]) -> Fetch:
    return lambda terms: {term: [part.held(term) for part in parts] for term in terms}


@dataclass(frozen=True, slots=True)
class Term:
    """How rare a term is, and what it adds to the score of each entry that holds it."""

    idf: float
    gains: list[tuple[NDArray[np.intp], Floats]]
