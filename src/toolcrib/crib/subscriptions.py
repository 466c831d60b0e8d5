"""Who wants to hear that a resource changed: each is watched once in a server's lane, however many want to know."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from toolcrib.catalog.catalog import Route
from toolcrib.catalog.records import ServerShelf
from toolcrib.core.access import Caller
from toolcrib.core.errors import CallTimeout, NotImplementedHere, ToolcribError
from toolcrib.core.events import Emit, Event
from toolcrib.core.names import SEPARATOR
from toolcrib.core.source import Lane, ServerSource
from toolcrib.core.tasks import TaskScope

Place = tuple[str, Lane]
"""A server and one of its lanes."""
OnUpdate = Callable[[str], None]
"""Told the name of a resource that changed, as toolcrib calls it."""


class Watcher(NamedTuple):
    """Who wants to know, and is told."""

    caller: Caller
    listener: OnUpdate


class _Watched:
    """What is watched in one lane of a server."""

    def __init__(self) -> None:
        self.watchers: dict[str, list[Watcher]] = {}
        """By the server's own URI."""
        self.names: dict[str, str] = {}
        self.turn = asyncio.Lock()
        self.told: frozenset[str] | None = None
        """What the server was last told to watch; ``None`` if that is not known."""
        self.is_due = False
        """Whether the server is about to be told what is watched now."""


class Subscriptions:
    """All subscriptions of one Crib, taken up again when a server is replaced."""

    def __init__(self, shelves: Callable[[], Mapping[str, ServerShelf]], emit: Emit, *, prefix: bool) -> None:
        self._shelves, self._emit, self._prefix = shelves, emit, prefix
        self._lanes: dict[Place, _Watched] = {}
        self._sources: dict[str, ServerSource] = {}
        """Who was told where to say that something changed."""
        self._tasks = TaskScope(self._failed)

    async def add(self, route: Route, name: str, watcher: Watcher) -> Callable[[], None]:
        """Have a watcher told whenever the resource of a route changes, until what is returned is called; raises
        what its server says against it."""
        shelf = self._shelves().get(route.server)
        if shelf is None:
            raise NotImplementedHere(f"Nobody can tell when {name} changes.")
        uri = name.removeprefix(f"{route.server}{SEPARATOR}") if self._prefix else name
        self._listen(shelf)
        place = route.server, shelf.source.lane_of(watcher.caller)
        self._put(place, uri, name, watcher)
        try:
            await self._apply(place, shelf)
        except BaseException:
            self._remove(place, uri, watcher)
            raise
        return partial(self._forget, route.server, uri, watcher)

    def _listen(self, shelf: ServerShelf) -> None:
        """Hear what the server's present source says; what was watched at the one before is watched there."""
        name = shelf.config.name
        if self._sources.get(name) is not shelf.source:
            self._sources[name] = shelf.source
            shelf.source.on_update(partial(self._tell, name))
            self._move(name, shelf.source)

    def _put(self, place: Place, uri: str, name: str, watcher: Watcher) -> None:
        watched = self._lanes.setdefault(place, _Watched())
        watched.watchers.setdefault(uri, []).append(watcher)
        watched.names[uri] = name

    async def _apply(self, place: Place, shelf: ServerShelf) -> None:
        """Have the server watch, in a lane, just what somebody wants to know of."""
        watched, limit_s = self._lanes.setdefault(place, _Watched()), shelf.config.call_timeout_s
        try:
            async with asyncio.timeout(limit_s), watched.turn:
                if self._lanes.get(place) is watched:
                    await self._watch(watched, shelf, place)
        except TimeoutError:
            words = f"Server {place[0]!r} did not take a subscription within {limit_s:g} s."
            raise CallTimeout(words, details={"server": place[0]}) from None

    async def _watch(self, watched: _Watched, shelf: ServerShelf, place: Place) -> None:
        """Of many who come at once, the first tells for all who wait."""
        wanted = frozenset(watched.watchers)
        if wanted != watched.told:
            watched.told = None
            await shelf.source.watch(wanted, place[1])
            watched.told = wanted
        if not watched.watchers:
            self._lanes.pop(place, None)

    def _tell(self, server: str, lane: Lane, uri: str) -> None:
        watched = self._lanes.get((server, lane))
        for watcher in tuple(watched.watchers.get(uri, ())) if watched is not None else ():
            watcher.listener(watched.names[uri])  # type: ignore[union-attr]  # there are watchers only where something is watched

    def _remove(self, place: Place, uri: str, watcher: Watcher) -> bool:
        """Whether that was the last who wanted to know of it."""
        watched = self._lanes.get(place)
        watchers = watched.watchers.get(uri, []) if watched is not None else []
        with suppress(ValueError):
            watchers.remove(watcher)
        if watchers or watched is None or uri not in watched.watchers:
            return False
        del watched.watchers[uri], watched.names[uri]
        return True

    def _forget(self, server: str, uri: str, watcher: Watcher) -> None:
        """Wherever it is by now: who shares a server may have changed since."""
        for place, watched in list(self._lanes.items()):
            if place[0] == server and watcher in watched.watchers.get(uri, ()) and self._remove(place, uri, watcher):
                self._apply_soon(place)

    def _apply_soon(self, place: Place) -> None:
        """Have the server follow; a client that leaves with a thousand subscriptions is one change."""
        watched = self._lanes.get(place)
        if watched is not None and not watched.is_due:
            watched.is_due = True
            self._tasks.spawn(self._quietly(place, watched), f"watch-{place[0]}")

    def follow(self) -> None:
        """A server may have been changed or removed while something of it was watched: its new source is told."""
        for name in {server for server, _ in self._lanes}:
            shelf = self._shelves().get(name)
            if shelf is not None:
                self._listen(shelf)

    def _move(self, server: str, source: ServerSource) -> None:
        """Watch at a new source, for everybody in their lane there."""
        before = {place: self._lanes.pop(place) for place in list(self._lanes) if place[0] == server}
        for watched in before.values():
            for uri, watchers in watched.watchers.items():
                for watcher in watchers:
                    self._put((server, source.lane_of(watcher.caller)), uri, watched.names[uri], watcher)
        for place in [place for place in self._lanes if place[0] == server]:
            self._apply_soon(place)

    async def _quietly(self, place: Place, watched: _Watched) -> None:
        watched.is_due = False
        shelf = self._shelves().get(place[0])
        if shelf is not None:
            with suppress(ToolcribError):
                await self._apply(place, shelf)

    async def close(self) -> None:
        """Tell nobody any more."""
        await self._tasks.close()

    def _failed(self, name: str, error: BaseException) -> None:
        self._emit(Event("subscription.failed", "error", {"task": name, "error": type(error).__name__}))
