"""Who wants to hear that a resource changed: each is watched once at its server, however many want to know."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

from toolcrib.catalog.catalog import Route
from toolcrib.catalog.records import ServerShelf
from toolcrib.core.errors import NotImplementedHere, ToolcribError
from toolcrib.core.events import Emit, Event
from toolcrib.core.names import SEPARATOR
from toolcrib.core.source import ServerSource
from toolcrib.core.tasks import TaskScope

OnUpdate = Callable[[str], None]
"""Told the name of a resource that changed, as toolcrib calls it."""


class _Watched:
    """What is watched at one server."""

    def __init__(self) -> None:
        self.listeners: dict[str, list[OnUpdate]] = {}
        """By the server's own URI."""
        self.names: dict[str, str] = {}
        self.source: ServerSource | None = None
        self.turn = asyncio.Lock()
        self.is_due = False
        """Whether the server is about to be told what is watched now."""


class Subscriptions:
    """All subscriptions of one Crib, taken up again when a server is replaced."""

    def __init__(self, shelves: Callable[[], Mapping[str, ServerShelf]], emit: Emit, *, prefix: bool) -> None:
        self._shelves, self._emit, self._prefix = shelves, emit, prefix
        self._servers: dict[str, _Watched] = {}
        self._tasks = TaskScope(self._failed)

    async def add(self, route: Route, name: str, listener: OnUpdate) -> Callable[[], None]:
        """Have ``listener`` told whenever the resource of a route changes, until what is returned is called; raises
        what its server says against it."""
        shelf = self._shelves().get(route.server)
        if shelf is None:
            raise NotImplementedHere(f"Nobody can tell when {name} changes.")
        uri = name.removeprefix(f"{route.server}{SEPARATOR}") if self._prefix else name
        watched = self._servers.setdefault(route.server, _Watched())
        watched.listeners.setdefault(uri, []).append(listener)
        watched.names[uri] = name
        try:
            await self._apply(watched, shelf)
        except BaseException:
            self._remove(watched, uri, listener)
            raise
        return partial(self._forget, route.server, uri, listener)

    async def _apply(self, watched: _Watched, shelf: ServerShelf) -> None:
        """Have the server watch just what somebody wants to know of."""
        async with watched.turn:
            if watched.source is not shelf.source:
                watched.source = shelf.source
                shelf.source.on_update(partial(self._tell, shelf.config.name))
            await shelf.source.watch(frozenset(watched.listeners))

    def _tell(self, server: str, uri: str) -> None:
        watched = self._servers.get(server)
        for listener in tuple(watched.listeners.get(uri, ())) if watched is not None else ():
            listener(watched.names[uri])  # type: ignore[union-attr]  # there are listeners only where something is watched

    def _remove(self, watched: _Watched, uri: str, listener: OnUpdate) -> bool:
        """Whether that was the last who wanted to know of it."""
        listeners = watched.listeners.get(uri, [])
        with suppress(ValueError):
            listeners.remove(listener)
        if listeners or uri not in watched.listeners:
            return False
        del watched.listeners[uri], watched.names[uri]
        return True

    def _forget(self, server: str, uri: str, listener: OnUpdate) -> None:
        watched = self._servers.get(server)
        if watched is not None and self._remove(watched, uri, listener):
            self._apply_soon(server, watched)

    def _apply_soon(self, server: str, watched: _Watched) -> None:
        """Have the server follow; a client that leaves with a thousand subscriptions is one change."""
        if not watched.is_due:
            watched.is_due = True
            self._tasks.spawn(self._quietly(server, watched), f"watch-{server}")

    def follow(self) -> None:
        """A server may have been changed or removed while something of it was watched."""
        for name, watched in list(self._servers.items()):
            shelf = self._shelves().get(name)
            if shelf is not None and shelf.source is not watched.source and watched.listeners:
                self._apply_soon(name, watched)

    async def _quietly(self, server: str, watched: _Watched) -> None:
        watched.is_due = False
        shelf = self._shelves().get(server)
        if shelf is not None:
            with suppress(ToolcribError):
                await self._apply(watched, shelf)

    async def close(self) -> None:
        """Tell nobody any more."""
        await self._tasks.close()

    def _failed(self, name: str, error: BaseException) -> None:
        self._emit(Event("subscription.failed", "error", {"task": name, "error": type(error).__name__}))
