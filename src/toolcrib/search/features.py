"""What can be measured of a query before its results are weighed."""

from collections.abc import Mapping
from dataclasses import dataclass

from toolcrib.search.tokens import Query


@dataclass(frozen=True, slots=True)
class Features:
    """``exact``: the share of the query's weight that wants to be matched to the letter, 0 to 1."""

    entries: int
    terms: int
    exact: float


def measure(query: Query, weights: Mapping[str, float], entries: int) -> Features:
    """``weights`` is what each term of the query can add to a score."""
    total = sum(weights.values())
    quoted = {term for phrase in query.phrases for term in phrase}
    literal = sum(weight for term, weight in weights.items() if term in query.wholes or term in quoted)
    return Features(entries, len(weights), literal / total if total else 0.0)
