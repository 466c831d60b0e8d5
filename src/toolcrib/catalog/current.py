"""The catalog of now: merged anew when tools or rules change, swapped in one assignment."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from operator import is_

from toolcrib.catalog.catalog import Catalog
from toolcrib.catalog.lookalikes import LookalikeIndex, new_pairs
from toolcrib.catalog.merge import SourceRoutes, join_routes, refuse_clashes
from toolcrib.catalog.reuse import RouteCache
from toolcrib.catalog.shelf import Shelf
from toolcrib.config.security import SecurityConfig
from toolcrib.core import events
from toolcrib.core.events import Emit, Event
from toolcrib.core.source import LocalSource

MOST_IMITATIONS_TOLD = 20
"""In one change of the catalogue; `toolcrib doctor` shows more."""


class Current:
    """Holds the catalog that counts, and tells whoever listens of another one."""

    def __init__(
        self, native: LocalSource, security: SecurityConfig, emit: Emit, *, prefix: bool, capacity: int
    ) -> None:
        self.catalog = Catalog()
        self.security = security
        """By which tools are dressed; counts from the next merge on."""
        self._emit, self._prefix, self._capacity = emit, prefix, capacity
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

    def merge(self, shelves: Iterable[Shelf], *, first: bool = False) -> None:
        """Make one catalog of all listings; listeners are told only of real changes.

        Costs what changed: routes to servers that are as they were are kept, and of nothing new nothing comes.
        """
        old, catalog = self.catalog, self._merged(shelves)
        if first and not self._prefix:
            refuse_clashes(catalog)
        if not first and catalog.routes == old.routes:
            self.catalog = replace(catalog, version=old.version, lookalikes=old.lookalikes)
            return
        self.catalog = replace(catalog, lookalikes=self._lookalikes.follow(old.routes, catalog.routes))
        self._announce(new_pairs(old.lookalikes, self.catalog.lookalikes))

    def _merged(self, shelves: Iterable[Shelf]) -> Catalog:
        """The catalog of all listings; the one of now if nothing is different."""
        old, self._sources = self._sources, self._routes.routes(shelves, self.security)
        if len(old) == len(self._sources) and all(map(is_, old, self._sources)):
            return self.catalog
        native, *servers = self._sources
        return join_routes(native, servers, self._capacity, self.catalog.version + 1)

    def _announce(self, untold: Sequence[tuple[str, str]]) -> None:
        for name, other in untold[:MOST_IMITATIONS_TOLD]:
            self._emit(Event(events.TOOL_IMITATES, "warning", {"tool": name, "resembles": other}))
        native, mcp = self.catalog.counts()
        self._emit(Event(events.REGISTRY_UPDATED, fields={"native": native, "mcp": mcp}))
        for listener in self._listeners:
            listener()
