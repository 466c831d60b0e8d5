"""Leaving out near copies: the same passage in two files, or in two versions of one, is shown once. Pure."""

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

SHINGLE = 4
ALIKE = 0.8


def fold(items: Sequence[T], text_of: Callable[[T], str]) -> list[T]:
    """The items in order, without those that say nearly the same as an earlier one."""
    kept: list[tuple[T, frozenset[int]]] = []
    for item in items:
        shingles = _shingles(text_of(item))
        if not any(_is_alike(shingles, other) for _, other in kept):
            kept.append((item, shingles))
    return [item for item, _ in kept]


def _shingles(text: str) -> frozenset[int]:
    words = text.lower().split()
    return frozenset(hash(tuple(words[at : at + SHINGLE])) for at in range(max(len(words) - SHINGLE + 1, 1)))


def _is_alike(one: frozenset[int], other: frozenset[int]) -> bool:
    small, large = sorted((len(one), len(other)))
    if small < ALIKE * large:
        return False
    shared = len(one & other)
    return shared >= ALIKE * (len(one) + len(other) - shared)
