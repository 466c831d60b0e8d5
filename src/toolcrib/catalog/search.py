"""Finding tools, and all else, by what they are for: an index of the catalogue, made at the first search and kept."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolcrib.catalog.catalog import Catalog, Route
from toolcrib.core.access import NATIVE
from toolcrib.core.offers import OfferKind, offer_key

if TYPE_CHECKING:
    from toolcrib.search.toolindex import ToolIndex, ToolText
    from toolcrib.search.vectors import Embedder

USUAL = 5
MOST = 100
LONGEST_QUERY = 2_000
LEAST = 0.06  # of a score; below, tools have no more to do with the query than any others
_SPARE = 20  # more than wanted is asked for, so that those of equal score can be put in order
_FEW = 50  # tools that are indexed in passing


@dataclass(frozen=True, slots=True)
class RankedTool:
    """A tool, or whatever else is looked for, that answers a query, and how well: from 0 to 1."""

    route: Route
    score: float


class LateModel:
    """The embedding model; loaded at the first search and shared."""

    def __init__(self) -> None:
        self._loaded: Embedder | None = None

    def get(self) -> "Embedder":
        """The model."""
        if self._loaded is None:
            from toolcrib.search.model import bundled  # numpy and megabytes: only for those who search

            self._loaded = bundled()
        return self._loaded


class ToolSearch:
    """The index of a catalogue's tools, or of all else in it: what is rare among tools is a matter of tools alone. A
    server that changed is indexed anew, the others are not touched."""

    def __init__(self, model: LateModel | None = None, *, of_tools: bool = True) -> None:
        self.model = model or LateModel()
        self._of_tools = of_tools
        self._index: ToolIndex | None = None
        self._version = -1
        self._texts: dict[str, tuple[ToolText, ...]] = {}
        self._turn = asyncio.Lock()

    async def find(self, catalog: Catalog, query: str, limit: int, among: Sequence[Route]) -> list[RankedTool]:
        """The best of the routes ``among`` which is looked, best first; what is not among them has no part in it."""
        async with self._turn:
            index = await self._up_to_date(catalog)
        wanted = {_id(route): route for route in among}
        hits = index.find(query[:LONGEST_QUERY], limit + _SPARE, wanted.keys())
        near = [hit for hit in hits if hit[1] >= LEAST]
        ranked = sorted(near, key=lambda hit: (_plain(hit[0]) != _plain(query), -hit[1], hit[0]))
        return [RankedTool(wanted[name], score) for name, score in ranked[:limit]]

    async def _up_to_date(self, catalog: Catalog) -> "ToolIndex":
        """The index of this very catalogue; large work is done beside the event loop."""
        if self._index is not None and self._version == catalog.version:
            return self._index
        if self._index is None or len(self._routes(catalog)) > _FEW:
            self._index = await asyncio.to_thread(self._renewed, catalog)
        else:
            self._renewed(catalog)
        self._version = catalog.version
        return self._index

    def _renewed(self, catalog: Catalog) -> "ToolIndex":
        index, now = self._index or self._empty(), _texts_of(self._routes(catalog).values())
        changed = {server: now.get(server, ()) for server in {*now, *self._texts}}
        changed = {server: texts for server, texts in changed.items() if texts != self._texts.get(server, ())}
        if changed:
            index.put_all(dict(sorted(changed.items())))
        self._texts = now
        return index

    def _routes(self, catalog: Catalog) -> Mapping[str, Route]:
        return catalog.routes if self._of_tools else catalog.others

    def _empty(self) -> "ToolIndex":
        from toolcrib.search.toolindex import ToolIndex

        return ToolIndex(self.model.get())


def _plain(name: str) -> str:
    return name.strip().casefold().replace(" ", "_")


def _id(route: Route) -> str:
    return offer_key(route.offer.kind, route.name)


def text_of(route: Route) -> "ToolText":
    """What can be searched of a tool; its own name says more than the exposed one, which repeats the server."""
    from toolcrib.search.toolindex import ToolText

    offer = route.offer
    if offer.kind is OfferKind.TOOL:
        return ToolText(route.name, offer.name, offer.description, offer.input_schema, route.server)
    label = str(offer.extra.get("name") or "")  # of a resource, whose own name is a URI
    name = " ".join(dict.fromkeys(filter(None, (label, offer.title, offer.name))))
    return ToolText(_id(route), name, offer.description, offer.input_schema, route.server)


def _texts_of(routes: Iterable[Route]) -> dict[str, tuple["ToolText", ...]]:
    texts: dict[str, list[ToolText]] = {}
    for route in routes:
        texts.setdefault(route.server or NATIVE, []).append(text_of(route))
    return {server: tuple(found) for server, found in texts.items()}
