"""Searching a view whose vectors several embedders may have made, some of which may be away."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
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


async def find(view: View, query: str, k: int, masks: "Masks", texts: "Texts") -> "tuple[Found, tuple[str, ...]]":
    """The best passages, and why some were looked for by words alone; the query is embedded once per embedder."""
    outcomes = await asyncio.gather(*(_prepare(group, query) for group in view.groups))
    ready = [group for group, trouble in zip(view.groups, outcomes, strict=True) if not trouble]
    warnings = (*view.warnings, *dict.fromkeys(filter(None, outcomes)))
    if not ready:
        return await asyncio.to_thread(view.searcher.search, query, k, masks, "lexical", texts), warnings
    if len(ready[0].parts) == len(view.parts):
        return await asyncio.to_thread(view.searcher.search, query, k, masks, "hybrid", texts), warnings
    return await asyncio.to_thread(_find_mixed, view, ready, query, k, masks, texts), warnings


async def _prepare(group: Group, query: str) -> str:
    """Nothing if the group can be searched by meaning, else why it cannot."""
    try:
        await group.asking.prepare(query)
    except EmbedderUnavailable as error:
        return f"Only words count where this embedder is needed. {error}"
    return ""


def _find_mixed(view: View, ready: Sequence[Group], query: str, k: int, masks: "Masks", texts: "Texts") -> "Found":
    """By words over everything; by meaning in each group, where only the order counts."""
    words = view.searcher.search(query, max(k, CONSIDERED), masks, "lexical", texts)
    scored = {(hit.segment, hit.position): replace(hit, score=(1 - SHARE) * hit.score) for hit in words.hits}
    timings = dict(words.timings_ms)
    for group in ready:
        near = group.searcher.search(
            query, max(k, CONSIDERED), None if masks is None else [masks[at] for at in group.parts], "vector"
        )
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
