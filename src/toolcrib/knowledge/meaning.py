"""Searching a view whose vectors several embedders may have made, some of which may be away."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from toolcrib.core.errors import EmbedderUnavailable
from toolcrib.knowledge.index import Group, View

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from toolcrib.search.hybrid import Found, Hit

    Masks = Sequence[NDArray[np.bool_] | None] | None
    Texts = Callable[[int, int], str]

CONSIDERED = 200
"""Passages of each ranking that are put together."""
SHARE = 0.25
"""How much the place in a ranking by meaning counts, where cosines of several models cannot be compared."""
FLATNESS = 20
"""The passage after so many better ones counts half."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A query whose vectors are at hand, in a view."""

    query: str
    view: View
    ready: tuple[Group, ...]
    """Those that can be searched by meaning."""
    warnings: tuple[str, ...]
    """Why some are searched by words alone."""


async def ask(view: View, query: str) -> Asked:
    """Have a query embedded, once per embedder."""
    outcomes = await asyncio.gather(*(_prepare(group, query) for group in view.groups))
    ready = [group for group, trouble in zip(view.groups, outcomes, strict=True) if not trouble]
    return Asked(query, view, tuple(ready), (*view.warnings, *dict.fromkeys(filter(None, outcomes))))


def find(asked: Asked, k: int, masks: "Masks", texts: "Texts") -> "Found":
    """The best passages. CPU work: run beside the event loop."""
    if not asked.ready:
        return asked.view.searcher.search(asked.query, k, masks, "lexical", texts)
    if len(asked.ready[0].parts) == len(asked.view.parts):
        return asked.view.searcher.search(asked.query, k, masks, "hybrid", texts)
    return _find_mixed(asked, k, masks, texts)


async def _prepare(group: Group, query: str) -> str:
    """Nothing if the group can be searched by meaning, else why it cannot."""
    try:
        await group.asking.prepare(query)
    except EmbedderUnavailable as error:
        return f"Only words count where this embedder is needed. {error}"
    return ""


def _find_mixed(asked: Asked, k: int, masks: "Masks", texts: "Texts") -> "Found":
    """By words over everything; by meaning in each group, where only the order counts."""
    query, most = asked.query, max(k, CONSIDERED)
    words = asked.view.searcher.search(query, most, masks, "lexical", texts)
    scored = {(hit.segment, hit.position): replace(hit, score=(1 - SHARE) * hit.score) for hit in words.hits}
    timings = dict(words.timings_ms)
    for group in asked.ready:
        within = None if masks is None else [masks[at] for at in group.parts]
        near = group.searcher.search(query, most, within, "vector")
        timings["vector"] = timings.get("vector", 0.0) + near.timings_ms["vector"]
        for rank, hit in enumerate(near.hits):
            place = (group.parts[hit.segment], hit.position)
            scored[place] = _joined(scored.get(place), hit, place, rank)
    best = sorted(scored.values(), key=lambda hit: (-hit.score, hit.segment, hit.position))[:k]
    return replace(words, hits=best, total=max(words.total, len(best)), timings_ms=timings)


def _joined(known: "Hit | None", hit: "Hit", place: tuple[int, int], rank: int) -> "Hit":
    """What words say of a passage, and where meaning puts it."""
    by_meaning = SHARE * FLATNESS / (FLATNESS + rank)
    if known is None:
        return replace(hit, segment=place[0], score=round(by_meaning, 6), lexical=0.0)
    return replace(known, score=round(known.score + by_meaning, 6), vector=hit.vector)
