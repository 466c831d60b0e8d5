"""The few statistics used here."""

from collections.abc import Sequence
from statistics import median


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    at = (len(ordered) - 1) * share
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


__all__ = ["median", "percentile"]
