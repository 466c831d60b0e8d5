"""Near duplicates among a handful of texts, such as the hits of one search."""

from collections.abc import Sequence

from toolcrib.search.tokens import analyse

SHINGLE = 4  # terms in a row
ALIKE = 0.8  # of the shorter text's shingles found in the other


def fold_duplicates(texts: Sequence[str], alike: float = ALIKE) -> list[int]:
    """For each text the first one it nearly repeats, or itself; an excerpt repeats the whole, not the other way."""
    shingled = [_shingles(text) for text in texts]
    leaders: list[int] = []
    for at, own in enumerate(shingled):
        earlier = (leader for leader in dict.fromkeys(leaders) if _is_alike(own, shingled[leader], alike))
        leaders.append(next(earlier, at))
    return leaders


def _shingles(text: str) -> frozenset[tuple[str, ...]]:
    terms = analyse(text)
    return frozenset(tuple(terms[at : at + SHINGLE]) for at in range(max(len(terms) - SHINGLE + 1, 1)))


def _is_alike(one: frozenset[tuple[str, ...]], other: frozenset[tuple[str, ...]], alike: float) -> bool:
    shared = len(one & other)
    return shared >= alike * max(min(len(one), len(other)), 1) and len(one) <= 1.5 * len(other)
