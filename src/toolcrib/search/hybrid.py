"""Searching by words and by meaning at once, over several segments as if they were one."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from toolcrib.search.lexical import Bm25, Fetch, FieldWeight, Lexical, Measured, Postings, Term
from toolcrib.search.pack import pack, unpack
from toolcrib.search.tokens import ParsedQuery, read_query, share_of_phrases
from toolcrib.search.vectors import Embedder, Floats, Mask, Vectors, cosines, nearest

Positions = NDArray[np.intp]
Mode = Literal["hybrid", "lexical", "vector"]
Texts = Callable[[int, int], str]

KIND = "segment"


class Segment:
    """Entries 0 to n-1 with their words and, perhaps, vectors; built once, never changed."""

    def __init__(self, postings: Postings, vectors: Vectors | None) -> None:
        self.postings = postings
        self.vectors = vectors

    def __len__(self) -> int:
        return len(self.postings)

    @classmethod
    def build(cls, entries: Sequence[Mapping[str, str]], vectors: Floats | None = None) -> "Segment":
        """An entry is a passage's texts by field; ``vectors`` has a row for each, as an embedder made them."""
        if vectors is not None and len(vectors) != len(entries):
            raise ValueError(f"{len(entries)} entries and {len(vectors)} vectors do not belong together")
        fields = list(dict.fromkeys(name for entry in entries for name in entry))
        postings = Postings.build(entries, fields)
        return cls(postings, None if vectors is None else Vectors.build(vectors))

    @classmethod
    def merge(cls, segments: Sequence["Segment"], keeps: Sequence[Mask | None]) -> "Segment":
        """One segment of the kept entries, in order; without vectors if one of the segments has none."""
        postings = Postings.merge([segment.postings for segment in segments], keeps)
        vectors = [segment.vectors for segment in segments if segment.vectors is not None]
        return cls(postings, Vectors.merge(vectors, keeps) if len(vectors) == len(segments) else None)

    @classmethod
    def from_bytes(cls, buffer: bytes | memoryview) -> "Segment":
        """A segment whose arrays are views into ``buffer``."""
        parts, _ = unpack(KIND, buffer)
        vectors = parts.get("vectors")
        return cls(
            Postings.from_bytes(parts["postings"].data, is_checked=True),
            None if vectors is None else Vectors.from_bytes(vectors.data, is_checked=True),
        )

    def to_bytes(self) -> bytes:
        """A frame that ``from_bytes`` reads, of the same bytes for the same entries."""
        frames = {"postings": self.postings.to_bytes()}
        if self.vectors is not None:
            frames["vectors"] = self.vectors.to_bytes()
        return pack(KIND, {name: np.frombuffer(frame, np.uint8) for name, frame in frames.items()}, {})


@dataclass(frozen=True, slots=True)
class Features:
    """``exact``: the share of the query's weight that wants to be matched to the letter, 0 to 1."""

    entries: int
    terms: int
    exact: float


def measure(query: ParsedQuery, weights: Mapping[str, float], entries: int) -> Features:
    """``weights`` is what each term of the query can add to a score."""
    total = sum(weights.values())
    quoted = {term for phrase in query.phrases for term in phrase}
    literal = sum(weight for term, weight in weights.items() if term in query.wholes or term in quoted)
    return Features(entries, len(weights), literal / total if total else 0.0)


@dataclass(frozen=True, slots=True)
class Fusion:
    """How much meaning counts, and what takes weight from it."""

    vector: float = 0.25  # in a small collection, for a query of plain words
    exact: float = 0.7  # is taken away as far as the query consists of identifiers, numbers and quotations
    long: int = 15  # terms; the mean of more says less about each
    small: int = 5_000  # entries; beyond, chance neighbours grow in number
    fading: float = 0.25  # is taken away for each tenfold beyond

    def weight(self, features: Features) -> float:
        """The share of the vector score in the whole."""
        beyond = max(0.0, float(np.log10(max(features.entries, 1) / self.small)))
        fading = max(0.3, 1 - self.fading * beyond)
        length = min(1.0, self.long / max(features.terms, 1))
        return self.vector * (1 - self.exact * features.exact) * length * fading


def fuse(lexical: Floats, vector: Floats, weight: float) -> Floats:
    """One score for each candidate; a cosine below zero says no more than zero."""
    meaning = np.maximum(vector, np.float32(0))
    return (np.float32(1 - weight) * lexical + np.float32(weight) * meaning).astype(np.float32)


DOCUMENT_FIELDS = {"title": FieldWeight(2.0, 0.5), "headings": FieldWeight(1.5, 0.5), "text": FieldWeight(1.0, 0.75)}
LOOKED_INTO = 100  # candidates whose text is read for quoted phrases
BLOCK = 64  # scores of which only the highest is looked at, to find what is not worth a look
LEAST = np.float32(1e-9)  # a lower score is none
LOOKED_AT = 10  # rows compared exactly for each candidate


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """How entries are scored."""

    formula: Bm25 = field(default_factory=lambda: Bm25(DOCUMENT_FIELDS))
    fusion: Fusion = field(default_factory=Fusion)
    candidates: int = 200  # of each half that are considered together


@dataclass(frozen=True, slots=True)
class Hit:
    """One entry found; its scores are 0 to 1 and can be compared between queries."""

    segment: int
    position: int
    score: float
    lexical: float
    vector: float


@dataclass(frozen=True, slots=True)
class SearchHits:
    """The best entries; ``total`` counts all that share a word with the query or are among the nearest in meaning,
    however few were wanted (by meaning alone: all there are)."""

    hits: list[Hit]
    processed_query: str
    total: int
    timings_ms: Mapping[str, float]
    rarity: Mapping[str, float] = field(default_factory=dict)  # of each term of the query


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Entries under consideration, ascending, with what each half says of them."""

    entries: Positions
    lexical: Floats
    vector: Floats


@dataclass(frozen=True, slots=True)
class NearestEntries:
    """Entries near a vector, ascending, and their cosines."""

    entries: Positions
    cosines: Floats


class Meaning(Protocol):
    """What can tell how near entries are to a vector; they are numbered through all segments."""

    def near(self, vector: Floats, allowed: Sequence[Mask | None], count: int) -> NearestEntries:
        """So many of the nearest that are allowed."""
        ...

    def cosines(self, vector: Floats, entries: Positions) -> Floats:
        """Of these entries, which ascend."""
        ...


class Parted(Protocol):
    """A segment, as far as a searcher must have it here."""

    @property
    def postings(self) -> Measured:
        """Its words, or how many there are."""
        ...

    @property
    def vectors(self) -> Vectors | None:
        """Its vectors, if they are here."""
        ...

    def __len__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Where words and vectors are looked up that are not here; without ``meaning``, words alone decide."""

    fetch: Fetch
    meaning: Meaning | None


class Searcher:
    """Searches segments together; the mask beside a segment says which of its entries are alive (``None``: all)."""

    def __init__(
        self,
        segments: Sequence[tuple[Parted, Mask | None]],
        embedder: Embedder | None = None,
        settings: SearchSettings | None = None,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        parts = [segment for segment, _ in segments]
        self._alive = [alive for _, alive in segments]
        self._settings = settings or SearchSettings()
        self._offsets = np.cumsum([0, *map(len, parts)])
        fetch = elsewhere.fetch if elsewhere is not None else None
        self._lexical = Lexical([segment.postings for segment in parts], self._settings.formula, fetch)
        self._meaning = elsewhere.meaning if elsewhere is not None else _local_meaning(parts)
        self._embedder = embedder if self._meaning is not None else None

    def __len__(self) -> int:
        return int(self._offsets[-1])

    def search(
        self,
        query: str,
        k: int,
        masks: Sequence[Mask | None] | None = None,
        mode: Mode = "hybrid",
        texts: Texts | None = None,
    ) -> SearchHits:
        """The ``k`` best entries that are alive and under their segment's mask; equal scores keep their order.

        ``texts`` gives the text of an entry by segment and position; with it, what the query quotes counts as a phrase.
        Without an embedder, or where a segment has no vectors, words alone decide.
        """
        started = time.perf_counter()
        asked = read_query(query)
        terms = self._lexical.look_up(asked.terms)
        allowed = [_both(alive, mask) for alive, mask in zip(self._alive, masks or self._alive, strict=True)]
        lexical = self._by_words(terms.values(), allowed)
        words_done = time.perf_counter()
        near, vector = self._by_meaning(query if mode != "lexical" else "", allowed)
        meaning_done = time.perf_counter()
        candidates = self._candidates(lexical if mode != "vector" else np.zeros_like(lexical), near, vector)
        share = {"lexical": 0.0, "vector": 1.0}.get(mode)
        if share is None:
            features = measure(asked, {term: found.idf for term, found in terms.items()}, len(self))
            share = self._settings.fusion.weight(features) if vector is not None else 0.0
        scores = fuse(candidates.lexical, candidates.vector, share)
        if texts is not None and asked.phrases:
            scores = self._with_phrases(asked, candidates, scores, texts)
        hits = self._hits(candidates, scores, k)
        by_meaning = int(np.count_nonzero((candidates.lexical == 0) & (scores >= LEAST)))
        total = int(np.count_nonzero(lexical)) + by_meaning if mode != "vector" else len(self)
        timings = _milliseconds(lexical=words_done - started, vector=meaning_done - words_done)
        timings |= _milliseconds(total=time.perf_counter() - started)
        rarity = {term: found.idf for term, found in terms.items()}
        return SearchHits(hits, " ".join(terms), total, timings, rarity)

    def _by_words(self, terms: Iterable[Term], allowed: Sequence[Mask | None]) -> Floats:
        scores = self._lexical.score(terms)
        for at, mask in enumerate(allowed):
            if mask is not None:
                scores[self._offsets[at] : self._offsets[at + 1]] *= mask
        return scores

    def _by_meaning(self, query: str, allowed: Sequence[Mask | None]) -> tuple[NearestEntries, Floats | None]:
        """The entries nearest in meaning, and the query's vector."""
        if self._embedder is None or not query.strip():
            return NearestEntries(np.zeros(0, np.intp), np.zeros(0, np.float32)), None
        assert self._meaning is not None
        vector = self._embedder.embed([query])[0]
        return self._meaning.near(vector, allowed, self._settings.candidates), vector

    def _candidates(self, lexical: Floats, near: NearestEntries, vector: Floats | None) -> _Candidates:
        entries = np.union1d(best(lexical, self._settings.candidates), near.entries)
        cosines_ = np.zeros(len(entries), np.float32)
        if vector is not None and self._meaning is not None:
            known = np.searchsorted(entries, near.entries)
            others = np.setdiff1d(np.arange(len(entries)), known, assume_unique=True)
            cosines_[known] = near.cosines
            cosines_[others] = self._meaning.cosines(vector, entries[others])
        return _Candidates(entries, lexical[entries], cosines_)

    def _with_phrases(self, query: ParsedQuery, candidates: _Candidates, scores: Floats, texts: Texts) -> Floats:
        """Halve what does not hold the quoted phrases, as far as it lacks them."""
        looked_at = best(scores, LOOKED_INTO)
        held = np.zeros(len(scores), np.float32)
        for at in looked_at:
            segment = int(np.searchsorted(self._offsets, candidates.entries[at], side="right")) - 1
            held[at] = share_of_phrases(query, texts(segment, int(candidates.entries[at] - self._offsets[segment])))
        result: Floats = scores * (np.float32(0.5) + np.float32(0.5) * held)
        return result

    def _hits(self, candidates: _Candidates, scores: Floats, k: int) -> list[Hit]:
        chosen = best(scores, k)
        entries = candidates.entries[chosen]
        segments = np.searchsorted(self._offsets, entries, side="right") - 1
        return [
            Hit(int(segment), int(position), _rounded(score), _rounded(lexical), _rounded(vector))
            for segment, position, score, lexical, vector in zip(
                segments,
                entries - self._offsets[segments],
                scores[chosen],
                candidates.lexical[chosen],
                candidates.vector[chosen],
                strict=True,
            )
        ]


class VectorsHere:
    """The vectors of segments that are all in memory."""

    def __init__(self, parts: Sequence[Vectors]) -> None:
        self._parts = parts
        self._offsets = np.cumsum([0, *map(len, parts)])

    def near(self, vector: Floats, allowed: Sequence[Mask | None], count: int) -> NearestEntries:
        """The nearest among those whose signs are most alike."""
        rows = nearest(self._parts, allowed, vector, LOOKED_AT * count)
        near = np.concatenate([found + offset for found, offset in zip(rows, self._offsets[:-1], strict=True)])
        scores = cosines(self._parts, vector, near)
        chosen = np.sort(best(scores, count))
        return NearestEntries(near[chosen], scores[chosen])

    def cosines(self, vector: Floats, entries: Positions) -> Floats:
        """Of these entries, which ascend."""
        return cosines(self._parts, vector, entries)


def _local_meaning(parts: Sequence[Parted]) -> VectorsHere | None:
    vectors = [segment.vectors for segment in parts if segment.vectors is not None]
    return VectorsHere(vectors) if len(vectors) == len(parts) > 0 else None


def best(scores: Floats, k: int) -> Positions:
    """The positions of the ``k`` highest scores above zero, highest first, equal ones in order."""
    chosen = np.flatnonzero(scores >= max(_bar(scores, k), LEAST))
    order = np.argsort(-scores[chosen], kind="stable")
    result: Positions = chosen[order[:k]]
    return result


def _bar(scores: Floats, k: int) -> np.float32:
    """What the ``k``-th highest score reaches at least: as many blocks hold a score as high."""
    blocks = len(scores) // BLOCK
    if blocks < 2 * k or not k:
        return np.float32(0)
    highest = scores[: blocks * BLOCK].reshape(blocks, BLOCK).max(axis=1)
    bar: np.float32 = np.partition(highest, blocks - k)[blocks - k]
    return bar


def _both(first: Mask | None, second: Mask | None) -> Mask | None:
    if first is None or second is None:
        return second if first is None else first
    return first & second


def _rounded(score: np.float32) -> float:
    return round(min(max(float(score), 0.0), 1.0), 6)


def _milliseconds(**seconds: float) -> dict[str, float]:
    return {name: round(value * 1000, 3) for name, value in seconds.items()}
