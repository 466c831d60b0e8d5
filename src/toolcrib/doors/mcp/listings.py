"""What each caller is shown of the catalogue: encoded once per version and grants, because clients list often."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from toolcrib.core.access import EVERYTHING, Grants, Reach, decide
from toolcrib.core.source import Missing
from toolcrib.wire import server
from toolcrib.wire.jsonrpc import encode

GRANTS_MAX = 64
ENCODED_MAX = 8


class Route(Protocol):
    """What a listing needs to know of a route."""

    @property
    def reach(self) -> Reach:
        """What it asks of its callers."""

    def to_mcp(self) -> dict[str, Any]:
        """The definition under its exposed name."""


class Catalog(Protocol):
    """What a listing needs to know of the catalogue."""

    @property
    def version(self) -> int:
        """Another one whenever anything changed."""

    @property
    def routes(self) -> Mapping[str, Route]:
        """By exposed name."""


R = TypeVar("R", bound=Route)


def visible(routes: Iterable[R], grants: Grants) -> list[R]:
    """The routes a caller with these grants is shown, in their order."""
    return [route for route in routes if is_visible(route, grants)]


def is_visible(route: Route, grants: Grants) -> bool:
    """Whether a caller with these grants may know of a tool."""
    return decide(grants, route.reach).is_listed


class Listing:
    """The tools of one version of the catalogue, as callers with the same grants see them."""

    __slots__ = ("_encoded", "_tools")

    def __init__(self, catalog: Catalog, grants: Grants) -> None:
        self._tools = encode([route.to_mcp() for route in visible(catalog.routes.values(), grants)])
        self._encoded: dict[tuple[bool, Sequence[Missing]], bytes] = {}

    def encoded(self, modern: bool, missing: tuple[Missing, ...]) -> bytes:
        """The result of ``tools/list``; a list that lacks servers names them, and is not to be kept for long."""
        listing = self._encoded.get((modern, missing))
        if listing is None:
            meta = encode({server.META_MISSING: [found.to_dict() for found in missing]}) if missing else b""
            listing = server.listing_result(self._tools, modern=modern, meta=meta)
            if len(self._encoded) >= ENCODED_MAX:
                self._encoded.clear()
            self._encoded[modern, missing] = listing
        return listing


class Listings:
    """Listings of the present version of the catalogue, for a bounded number of different grants."""

    __slots__ = ("_everything", "_listings", "_version")

    def __init__(self) -> None:
        self._version = -1
        self._everything: Listing | None = None
        self._listings: dict[Grants, Listing] = {}

    def of(self, catalog: Catalog, grants: Grants) -> Listing:
        """The listing for these grants; the most common ones are not even looked up."""
        if catalog.version != self._version:
            self._version, self._everything = catalog.version, None
            self._listings.clear()
        if grants is not EVERYTHING:
            return self._found(catalog, grants)
        if self._everything is None:
            self._everything = self._found(catalog, grants)
        return self._everything

    def _found(self, catalog: Catalog, grants: Grants) -> Listing:
        listing = self._listings.get(grants)
        if listing is None:
            if len(self._listings) >= GRANTS_MAX:
                self._listings.clear()
            listing = self._listings[grants] = Listing(catalog, grants)
        return listing
