"""What clients are shown of each kind, encoded once for all who may see the same."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from toolcrib.catalog.catalog import Catalog, is_for_apps
from toolcrib.core.access import EVERYTHING, Grants, Reach, decide
from toolcrib.core.offers import NAMED_BY, OfferKind
from toolcrib.core.source import ListPage, Missing
from toolcrib.server.mcp.tasks import as_callable, can_be_task
from toolcrib.wire import messages
from toolcrib.wire.jsonrpc import encode

GRANTS_MAX = 64
ENCODED_MAX = 8


class ListedRoute(Protocol):
    """What a listing needs to know of a route."""

    @property
    def reach(self) -> Reach:
        """What it asks of its callers."""

    def to_mcp(self) -> dict[str, Any]:
        """The definition under its exposed name."""


class ListedCatalog(Protocol):
    """What a listing of tools needs to know of the catalogue."""

    @property
    def version(self) -> int:
        """Another one whenever anything changed."""

    @property
    def routes(self) -> Mapping[str, ListedRoute]:
        """By exposed name."""


R = TypeVar("R", bound=ListedRoute)


def visible(routes: Iterable[R], grants: Grants) -> list[R]:
    """The routes a caller with these grants is shown, in their order."""
    return [route for route in routes if is_visible(route, grants)]


def is_visible(route: ListedRoute, grants: Grants) -> bool:
    """Whether a caller with these grants may know of an offer."""
    return decide(grants, route.reach).is_listed


LISTS: Mapping[str, OfferKind] = {
    "tools/list": OfferKind.TOOL,
    "resources/list": OfferKind.RESOURCE,
    "resources/templates/list": OfferKind.TEMPLATE,
    "prompts/list": OfferKind.PROMPT,
    "skills/list": OfferKind.SKILL,
}
_LISTED_AS = {
    OfferKind.TOOL: b"tools",
    OfferKind.RESOURCE: b"resources",
    OfferKind.TEMPLATE: b"resourceTemplates",
    OfferKind.PROMPT: b"prompts",
    OfferKind.SKILL: b"skills",
}


Pages = Callable[[OfferKind], Sequence[ListPage]]


def _one_page(kind: OfferKind) -> Sequence[ListPage]:
    del kind
    return ()


class OfferListing:
    """What is offered of one kind in one version of the catalogue, as callers with the same grants see it."""

    __slots__ = ("_encoded", "_handshake", "_pages", "_what")

    def __init__(
        self,
        routes: Iterable[ListedRoute],
        grants: Grants,
        kind: OfferKind = OfferKind.TOOL,
        long_servers: Container[str] = (),
        pages: Sequence[ListPage] = (),
    ) -> None:
        shown, key = visible(routes, grants), NAMED_BY[kind]
        self._pages = self._handshake = paged([as_callable(route.to_mcp()) for route in shown], key, pages)
        if any(route.reach.server in long_servers for route in shown):
            dressed = ((can_be_task if route.reach.server in long_servers else as_callable, route) for route in shown)
            self._handshake = paged([dress(route.to_mcp()) for dress, route in dressed], key, pages)
        self._what = _LISTED_AS[kind]
        self._encoded: dict[tuple[bytes, Sequence[Missing], int, str], bytes] = {}

    def encoded(
        self, info: bytes, missing: tuple[Missing, ...], ttl_ms: int = messages.LISTING_TTL_MS, cursor: str = ""
    ) -> bytes | None:
        """One page of the list, ``None`` if there is no such one; a list that lacks servers names them, and is not to
        be kept for long."""
        key = info, missing, ttl_ms, cursor
        listing = self._encoded.get(key)
        if listing is None and cursor in self._pages:
            offers, following = (self._pages if info else self._handshake)[cursor]
            hints = messages.ListHints(info, missing, ttl_ms, following)
            listing = messages.listing_result(offers, hints, what=self._what)
            if len(self._encoded) >= ENCODED_MAX:
                self._encoded.clear()
            self._encoded[key] = listing
        return listing


def paged(shown: list[dict[str, Any]], key: str, pages: Sequence[ListPage]) -> dict[str, tuple[bytes, str]]:
    """Encoded pages by the cursor that leads to each, with the cursor of the next; the last has what is in none."""
    left, found = {each[key]: each for each in shown}, dict[str, tuple[bytes, str]]()
    for number, (cursor, names) in enumerate(pages, 1):
        following = pages[number][0] if number < len(pages) else ""
        entries = [left.pop(name) for name in names if name in left]
        found[cursor] = encode(entries if following else [*entries, *left.values()]), following
    return found or {"": (encode(shown), "")}


class Listings:
    """Listings of the present version of the catalogue, for a bounded number of different grants."""

    __slots__ = ("_everything", "_has_apps", "_listings", "_long_servers", "_pages", "_version")

    def __init__(
        self, long_servers: Callable[[], Container[str]] = frozenset, pages: Pages = _one_page, *, has_apps: bool = True
    ) -> None:
        """``long_servers`` are those whose tools can be answered later in the way of the stateless era."""
        self._version, self._has_apps = -1, has_apps
        self._long_servers, self._pages = long_servers, pages
        self._everything: OfferListing | None = None
        self._listings: dict[tuple[Grants, OfferKind, bool], OfferListing] = {}

    def of(self, catalog: ListedCatalog, grants: Grants, more: Sequence[ListedRoute] = ()) -> OfferListing:
        """The tools for these grants, and ``more`` beside them; the most common ones are not even looked up."""
        self._follow(catalog.version)
        if more:
            return self._tools(catalog, grants, more)
        if grants is not EVERYTHING:
            return self._tools(catalog, grants)
        if self._everything is None:
            self._everything = self._tools(catalog, grants)
        return self._everything

    def of_kind(self, catalog: Catalog, grants: Grants, kind: OfferKind) -> OfferListing:
        """What else there is for these grants."""
        self._follow(catalog.version)
        key = grants, kind, False
        return self._listings.get(key) or self._keep(key, catalog.visible_to(grants, kind))

    def _follow(self, version: int) -> None:
        if version != self._version:
            self._version, self._everything = version, None
            self._listings.clear()

    def _tools(self, catalog: ListedCatalog, grants: Grants, more: Sequence[ListedRoute] = ()) -> OfferListing:
        key = grants, OfferKind.TOOL, bool(more)
        found = self._listings.get(key)
        if found is not None:
            return found
        routes = [*catalog.routes.values(), *more]
        shown = routes if self._has_apps else [route for route in routes if not is_for_apps(route.to_mcp())]
        return self._keep(key, shown)

    def _keep(self, key: tuple[Grants, OfferKind, bool], routes: Iterable[ListedRoute]) -> OfferListing:
        if len(self._listings) >= GRANTS_MAX:
            self._listings.clear()
        listing = self._listings[key] = OfferListing(routes, *key[:2], self._long_servers(), self._pages(key[1]))
        return listing
