"""Servers that are found elsewhere, such as on a tooling platform: asked for when needed, renewed when stale."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from toolcrib.config.model import ServerConfig
from toolcrib.core.errors import ToolcribError
from toolcrib.core.events import Emit, Event
from toolcrib.core.tasks import TaskScope

Servers = Mapping[str, ServerConfig]
Fetch = Callable[[], Awaitable[Servers]]
RETRY_S = 30.0
"""How soon somebody who failed is asked again."""


class Supply:
    """One flight at a time; whoever needs the servers first waits for it, later ones take what is known."""

    def __init__(self, fetch: Fetch, ttl_s: float) -> None:
        self._fetch, self._ttl_s = fetch, ttl_s
        self.found: Servers = {}
        self.error: ToolcribError | None = None
        """Why they could not be asked for, the last time."""
        self._fresh_until = 0.0
        self._flight: asyncio.Task[None] | None = None
        self._is_settled = False
        self._shadowed: frozenset[str] = frozenset()

    def open(self, take: Callable[[], Awaitable[object]], emit: Emit) -> None:
        """Start; ``take`` is called with the servers that were found."""
        self._take, self._emit = take, emit
        self._tasks = TaskScope(
            lambda name, error: emit(Event(f"{name}.failed", "error", {"error": type(error).__name__}))
        )

    def beside(self, written: Servers) -> Servers:
        """What is written down, and what was found beside it: of two with one name, the written one counts."""
        shadowed = frozenset(written) & frozenset(self.found)
        for name in sorted(shadowed - self._shadowed):
            self._emit(Event("platform.server.shadowed", "warning", {"server": name}))
        self._shadowed = shadowed
        return {**self.found, **written}

    async def need(self, grace_s: float) -> None:
        """Begin what is due; the first time, wait for it, but not longer than the grace."""
        flight = self.wake()
        if flight is not None and not self._is_settled and grace_s > 0:
            await asyncio.wait([flight], timeout=grace_s)
            self._is_settled = True

    def wake(self) -> asyncio.Task[None] | None:
        """Begin what is due, without waiting for it."""
        if self._flight is None and asyncio.get_running_loop().time() >= self._fresh_until:
            self._flight = self._tasks.spawn(self._renew(), "platform.renew")
        return self._flight

    async def renew(self) -> None:
        """Ask now, and wait for what comes of it."""
        self._fresh_until = 0.0
        flight = self.wake()
        if flight is not None:
            await asyncio.wait([flight])

    async def _renew(self) -> None:
        loop = asyncio.get_running_loop()
        self._fresh_until = loop.time() + min(RETRY_S, self._ttl_s)
        try:
            self.found, self.error = await self._fetch(), None
            self._fresh_until = loop.time() + self._ttl_s
            await self._take()
        except ToolcribError as error:
            self.error = error
            self._emit(Event("platform.failed", "warning", {"error": str(error), "kept": len(self.found)}))
        finally:
            self._flight, self._is_settled = None, True

    async def close(self) -> None:
        """Cancel a request under way."""
        await self._tasks.close()
