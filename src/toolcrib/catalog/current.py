"""The catalog of now: merged anew when tools or rules change, swapped in one assignment."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import is_

from toolcrib.catalog.catalog import Catalog, LeftOut
from toolcrib.catalog.lookalikes import LookalikeIndex, new_pairs
from toolcrib.catalog.merge import (
    Offering,
    Room,
    SourceRoutes,
    configured_view,
    join_routes,
    native_routes,
    native_view,
    refuse_clashes,
    server_routes,
)
from toolcrib.catalog.records import ServerShelf
from toolcrib.config.model import ServerConfig
from toolcrib.config.sections import SecurityConfig
from toolcrib.core import events
from toolcrib.core.events import Emit, Event
from toolcrib.core.kinds import HoldReason
from toolcrib.core.offers import Offer, OfferKind
from toolcrib.core.source import LocalSource, Source


@dataclass(frozen=True, slots=True)
class _Made:
    """Routes, and what they were made of."""

    source: Source
    offers: Sequence[Offer]
    config: ServerConfig | None
    held: Mapping[str, HoldReason]
    routes: SourceRoutes
    listed: int = -1
    """How many of the offers are listed, where some may not be."""

    def fits(self, offers: Sequence[Offer], shelf: ServerShelf | None) -> bool:
        """Whether they would be made the same again.

        Offers are compared by identity: definitions that differ in 1 and true are equal to Python, not to a model.
        """
        if offers is not self.offers and (len(offers) != len(self.offers) or not all(map(is_, offers, self.offers))):
            return False
        if shelf is None:
            return True
        is_configured_alike = shelf.config is self.config or shelf.config == self.config
        return is_configured_alike and shelf.source is self.source and shelf.held == self.held


class RouteCache:
    """Makes the routes to a source's tools anew when the tools or the rules for them changed."""

    def __init__(self, native: LocalSource, *, prefix: bool) -> None:
        self._native, self._prefix = native, prefix
        self._made: dict[str, _Made] = {}
        self._security: SecurityConfig | None = None

    def routes(self, shelves: Iterable[ServerShelf], security: SecurityConfig) -> list[SourceRoutes]:
        """The routes of every source, native ones first; the very same objects where nothing changed."""
        if security != self._security:
            self._made, self._security = {}, security
        made = {"": self._of_native(security)}
        made |= {shelf.config.name: self._of_server(shelf, security) for shelf in shelves if shelf.is_known}
        self._made = made
        return [kept.routes for kept in made.values()]

    def _of_native(self, security: SecurityConfig) -> _Made:
        listing, kept = self._native.listing, self._made.get("")
        offers = listing.offers
        listed = len(offers) - len(listing.quiet)
        if kept is not None and kept.listed == listed and kept.fits(offers, None):
            return kept
        offering = Offering(
            self._native, listing.tools, native_view(security), others=listing.others, quiet=listing.quiet
        )
        return _Made(self._native, offers, None, {}, native_routes(offering), listed)

    def _of_server(self, shelf: ServerShelf, security: SecurityConfig) -> _Made:
        kept = self._made.get(shelf.config.name)
        offers = shelf.offers
        if kept is not None and kept.fits(offers, shelf):
            return kept
        view = configured_view(shelf.config, security)
        offering = Offering(shelf.source, shelf.tools, view, shelf.held, shelf.others)
        made = server_routes(offering, prefix=self._prefix)
        return _Made(shelf.source, offers, shelf.config, shelf.held, made)


MOST_IMITATIONS_TOLD = 20
"""In one change of the catalogue; `toolcrib doctor` shows more."""


MOST_HIDDEN_TOLD = 20
"""In one change of the catalogue; `toolcrib why` tells of each."""


class Current:
    """Holds the current catalog and notifies listeners when it changes."""

    def __init__(self, native: LocalSource, security: SecurityConfig, emit: Emit, *, prefix: bool, room: Room) -> None:
        self.catalog = Catalog()
        self.security = security
        """By which tools are dressed; counts from the next merge on."""
        self._emit, self._prefix, self._room = emit, prefix, room
        self._routes, self._lookalikes = RouteCache(native, prefix=prefix), LookalikeIndex()
        self._sources: list[SourceRoutes] = []
        """What the catalog was merged of."""
        self._listeners: list[Callable[[], None]] = []

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Have ``listener`` called when the catalogue changed, until what is returned is called."""
        self._listeners = [*self._listeners, listener]

        def forget() -> None:
            self._listeners = [other for other in self._listeners if other != listener]

        return forget

    def merge(self, shelves: Iterable[ServerShelf], *, first: bool = False, trace_id: str = "") -> None:
        """Make one catalog of all listings; listeners are told only of real changes. ``trace_id`` is that of the
        discovery that found something new.

        Costs what changed: routes to servers that are as they were are kept, and of nothing new nothing comes.
        """
        old, catalog = self.catalog, self._merged(shelves)
        if first and not self._prefix:
            refuse_clashes(catalog)
        if catalog.left_out is not old.left_out:
            self._tell_clashes(old.left_out, catalog.left_out)
        is_same = catalog.routes == old.routes and catalog.others == old.others and catalog.quiet == old.quiet
        if not first and is_same:
            self.catalog = replace(catalog, version=old.version, lookalikes=old.lookalikes, stamps=old.stamps)
            return
        lookalikes = self._lookalikes.follow(old.routes, catalog.routes)
        self.catalog = replace(catalog, lookalikes=lookalikes, stamps=_stamps(old, catalog))
        self._announce(new_pairs(old.lookalikes, self.catalog.lookalikes), trace_id)

    def _merged(self, shelves: Iterable[ServerShelf]) -> Catalog:
        """The catalog of all listings; the one of now if nothing is different."""
        old, self._sources = self._sources, self._routes.routes(shelves, self.security)
        if len(old) == len(self._sources) and all(map(is_, old, self._sources)):
            return self.catalog
        native, *servers = self._sources
        return join_routes(native, servers, self._room, self.catalog.version + 1)

    def _tell_clashes(self, old: Mapping[str, LeftOut], new: Mapping[str, LeftOut]) -> None:
        """Say which tools are hidden by others of their name, each when that begins."""
        untold = [(name, why) for name, why in new.items() if why.is_clash and old.get(name) != why]
        for name, why in untold[:MOST_HIDDEN_TOLD]:
            self._emit(Event(events.TOOL_HIDDEN, "warning", {"tool": name, "reason": f"{why.reason}."}))

    def _announce(self, untold: Sequence[tuple[str, str]], trace_id: str) -> None:
        for name, other in untold[:MOST_IMITATIONS_TOLD]:
            self._emit(Event(events.TOOL_IMITATES, "warning", {"tool": name, "resembles": other}))
        native, mcp = self.catalog.counts()
        traced = {"trace_id": trace_id} if trace_id else {}
        self._emit(Event(events.REGISTRY_UPDATED, fields={"native": native, "mcp": mcp, **traced}))
        for listener in self._listeners:
            listener()


def _stamps(old: Catalog, new: Catalog) -> dict[OfferKind, int]:
    """The version in which something of each kind last changed."""
    changed = {OfferKind.TOOL} if new.routes != old.routes else set[OfferKind]()
    if new.others != old.others:
        keys = old.others.keys() | new.others.keys()
        differing = (key for key in keys if old.others.get(key) != new.others.get(key))
        changed |= {OfferKind(key.partition(" ")[0]) for key in differing}
    return {kind: new.version if kind in changed else old.stamps.get(kind, 0) for kind in OfferKind}
