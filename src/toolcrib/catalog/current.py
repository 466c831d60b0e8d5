"""The catalog of now: merged anew when tools or rules change, swapped in one assignment."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from toolcrib.catalog.catalog import Catalog
from toolcrib.catalog.lookalikes import find_lookalikes, pairs
from toolcrib.catalog.merge import Offering, merge, refuse_clashes
from toolcrib.catalog.shelf import Shelf
from toolcrib.catalog.views import configured_view, native_view
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
        self._native, self._emit, self._prefix, self._capacity = native, emit, prefix, capacity
        self._listeners: list[Callable[[], None]] = []

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Have ``listener`` called when the catalogue changed, until what is returned is called."""
        self._listeners = [*self._listeners, listener]

        def forget() -> None:
            self._listeners = [other for other in self._listeners if other != listener]

        return forget

    def merge(self, shelves: Iterable[Shelf], *, first: bool = False) -> None:
        """Make one catalog of all listings; listeners are told only of real changes."""
        old, catalog = self.catalog, self._merged(shelves)
        if first and not self._prefix:
            refuse_clashes(catalog)
        if catalog.routes == old.routes and not first:
            self.catalog = replace(catalog, version=old.version, lookalikes=old.lookalikes)
            return
        self.catalog = replace(catalog, lookalikes=find_lookalikes(catalog.routes.values()))
        self._announce(told=frozenset(pairs(old.lookalikes)))

    def _merged(self, shelves: Iterable[Shelf]) -> Catalog:
        native = Offering(self._native, self._native.listing.tools, native_view(self.security))
        servers = [
            Offering(shelf.source, shelf.tools, configured_view(shelf.config, self.security), shelf.held)
            for shelf in shelves
            if shelf.is_known
        ]
        version = self.catalog.version + 1
        return merge(native, servers, prefix=self._prefix, capacity=self._capacity, version=version)

    def _announce(self, told: frozenset[tuple[str, str]]) -> None:
        untold = [pair for pair in pairs(self.catalog.lookalikes) if pair not in told]
        for name, other in untold[:MOST_IMITATIONS_TOLD]:
            self._emit(Event(events.TOOL_IMITATES, "warning", {"tool": name, "resembles": other}))
        native, mcp = self.catalog.counts()
        self._emit(Event(events.REGISTRY_UPDATED, fields={"native": native, "mcp": mcp}))
        for listener in self._listeners:
            listener()
