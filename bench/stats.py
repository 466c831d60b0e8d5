"""What the standard library lacks of the statistics used here."""

from collections.abc import Sequence


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    at = (len(ordered) - 1) * share
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)
