"""Leaving out near copies: the same passage in two files, or in two versions of one, is shown once. Pure."""

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

T = TypeVar("T")
Shingles = frozenset[Hashable]

ALIKE = 0.8


def fold(items: Sequence[T], text_of: Callable[[T], str], most: int) -> list[T]:
    """The first items in order, without those that say nearly the same as an earlier one."""
    kept: list[T] = []
    seen: list[Shingles] = []
    for item in items:
        shingles = _shingles(text_of(item))
        if not any(_is_alike(shingles, other) for other in seen):
            kept.append(item)
            seen.append(shingles)
        if len(kept) == most:
            break
    return kept


def _shingles(text: str) -> Shingles:
    """Every three words in a row."""
    words = text.lower().split()
    return frozenset(zip(words, words[1:], words[2:], strict=False)) or frozenset(words)


def _is_alike(one: Shingles, other: Shingles) -> bool:
    larger, smaller = max(len(one), len(other)), min(len(one), len(other))
    if smaller < ALIKE * larger:
        return False
    shared = len(one & other)
    return shared >= ALIKE * (larger + smaller - shared)
