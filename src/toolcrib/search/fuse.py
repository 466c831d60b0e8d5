"""What can be measured of a query before its results are weighed."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolcrib.search.tokens import ParsedQuery


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


Floats = NDArray[np.float32]


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
