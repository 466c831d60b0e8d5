"""Pairs of tools a model may take for one another: each is what the search finds when asked in the other's words.

Loads numpy: import it late.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolcrib.catalog.catalog import Route
from toolcrib.catalog.search import text_of
from toolcrib.search.model import bundled
from toolcrib.search.tokens import CAMEL, SEPARATOR
from toolcrib.search.toolindex import ToolIndex, meanings_of

MOST_TOOLS = 5_000
"""Of more, only the first are compared: every tool is held against every other."""
ALIKE = 0.7  # in meaning, from which on a pair is looked at
LOOKED_AT = 80
CONFUSABLE = 0.8
ASKED_MAX = 600
ROWS = 512  # compared at once

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class ConfusableTools:
    """Two tools, how near they are (1: nothing tells them apart), and what they have in common."""

    first: str
    second: str
    score: float
    why: str


def find_confusable(routes: Sequence[Route], count: int) -> list[ConfusableTools]:
    """The worst pairs first. A score is the share of a tool's own score that the other gets, asked in its words."""
    compared = list(routes)[:MOST_TOOLS]
    model, texts = bundled(), [text_of(route) for route in compared]
    index = ToolIndex(model)
    index.put_all({"": texts})
    vectors = meanings_of(texts, model)
    pairs = [_pair(index, compared[first], compared[second]) for first, second in _nearest(vectors)]
    worst = sorted((pair for pair in pairs if pair.score >= CONFUSABLE), key=lambda pair: (-pair.score, pair.first))
    return worst[:count]


def _nearest(vectors: Floats) -> list[tuple[int, int]]:
    """The pairs nearest in meaning, by number."""
    found = sorted(_alike(vectors), reverse=True)[:LOOKED_AT]
    return [(first, second) for _, first, second in found]


def _alike(vectors: Floats) -> Iterator[tuple[float, int, int]]:
    """Of each block of rows, no more than will be looked at: many copies of one tool make millions of pairs."""
    for start in range(0, len(vectors), ROWS):
        cosines = vectors[start : start + ROWS] @ vectors[start:].T
        cosines[np.tril_indices(len(cosines))] = 0
        flat = cosines.ravel()
        count = min(LOOKED_AT, flat.size)
        for place in np.argpartition(-flat, count - 1)[:count]:
            row, column = divmod(int(place), cosines.shape[1])
            if flat[place] >= ALIKE:
                yield float(flat[place]), start + row, start + column


def _pair(index: ToolIndex, first: Route, second: Route) -> ConfusableTools:
    score = (_share(index, first, second) + _share(index, second, first)) / 2
    return ConfusableTools(first.name, second.name, round(score, 2), _reason(first, second))


def _share(index: ToolIndex, asked: Route, other: Route) -> float:
    text = f"{' '.join(_words(asked.original_name))} {asked.tool.description}"[:ASKED_MAX]
    scores = dict(index.find(text, 2, {asked.name, other.name}))
    own = scores.get(asked.name, 0.0)
    return min(1.0, scores.get(other.name, 0.0) / own) if own else 0.0


def _reason(first: Route, second: Route) -> str:
    ours, theirs = first.original_name, second.original_name
    if ours == theirs:
        return f"both are called {ours}"
    if first.tool.description.strip() and first.tool.description.strip() == second.tool.description.strip():
        return "their descriptions are the same"
    one, two = _words(ours), _words(theirs)
    shared = [word for word in one if word in two]
    apart = [word for word in (*one, *two) if word not in shared]
    same = f"both names say {' '.join(shared)}" if shared else "their descriptions say much the same"
    return f"{same}; only {', '.join(apart)} tells them apart" if shared and apart else same


def _words(name: str) -> list[str]:
    return [piece.lower() for part in SEPARATOR.split(name) for piece in CAMEL.split(part) if piece]
