"""The routes to each source's tools, kept from one merge to the next: another listing costs only its own server's."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import is_

from toolcrib.catalog.merge import Offering, SourceRoutes, native_routes, server_routes
from toolcrib.catalog.shelf import Shelf
from toolcrib.catalog.views import configured_view, native_view
from toolcrib.config.model import ServerConfig
from toolcrib.config.security import SecurityConfig
from toolcrib.core.source import LocalSource, ToolSource
from toolcrib.core.tool import Tool


@dataclass(frozen=True, slots=True)
class _Made:
    """Routes, and what they were made of."""

    source: ToolSource
    tools: Sequence[Tool]
    config: ServerConfig | None
    held: Mapping[str, str]
    routes: SourceRoutes

    def fits(self, tools: Sequence[Tool], shelf: Shelf | None) -> bool:
        """Whether they would be made the same again.

        Tools are compared by identity: definitions that differ in 1 and true are equal to Python, not to a model.
        """
        if tools is not self.tools and (len(tools) != len(self.tools) or not all(map(is_, tools, self.tools))):
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

    def routes(self, shelves: Iterable[Shelf], security: SecurityConfig) -> list[SourceRoutes]:
        """The routes of every source, native ones first; the very same objects where nothing changed."""
        if security != self._security:
            self._made, self._security = {}, security
        made = {"": self._of_native(security)}
        made |= {shelf.config.name: self._of_server(shelf, security) for shelf in shelves if shelf.is_known}
        self._made = made
        return [kept.routes for kept in made.values()]

    def _of_native(self, security: SecurityConfig) -> _Made:
        tools, kept = self._native.listing.tools, self._made.get("")
        if kept is not None and kept.fits(tools, None):
            return kept
        offer = Offering(self._native, tools, native_view(security))
        return _Made(self._native, tools, None, {}, native_routes(offer))

    def _of_server(self, shelf: Shelf, security: SecurityConfig) -> _Made:
        kept = self._made.get(shelf.config.name)
        if kept is not None and kept.fits(shelf.tools, shelf):
            return kept
        offer = Offering(shelf.source, shelf.tools, configured_view(shelf.config, security), shelf.held)
        made = server_routes(offer, prefix=self._prefix)
        return _Made(shelf.source, shelf.tools, shelf.config, shelf.held, made)
