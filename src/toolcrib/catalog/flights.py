"""One discovery of a server at a time over all replicas; whoever finds something tells the others."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from toolcrib.config.lock import Record
from toolcrib.core.coordination import Coordination, Lease
from toolcrib.core.errors import CoordinationUnavailable, StoreUnavailable
from toolcrib.core.topic import Topic

TOPIC = "catalog"
LOOK_S = 1.0
"""How often the store is looked at while another replica asks: the word that it is done may get lost."""
SLACK_S = 5.0

_UNAVAILABLE = (CoordinationUnavailable, StoreUnavailable)


@dataclass(frozen=True, slots=True)
class Flight:
    """What one discovery needs."""

    server: str
    limit_s: float
    take: Callable[[], Awaitable[Record | None]]
    """What the shared store has, if that is fresh."""
    ask: Callable[[], Awaitable[Record]]
    """Ask the server, and store what it says."""


class Flights:
    """The discoveries of this replica among those of the others."""

    def __init__(self, coordination: Coordination, on_news: Callable[[], None]) -> None:
        self._coordination, self._on_news = coordination, on_news
        self._done: dict[str, asyncio.Event] = {}
        self._topic = Topic(coordination, TOPIC, self._hear, self._catch_up)

    async def open(self) -> None:
        """Begin to hear of what others find."""
        await self._topic.open()

    def tell(self, server: str) -> None:
        """Say that the store has something new of a server."""
        self._topic.say(server.encode())

    def _hear(self, body: bytes) -> None:
        self._done.pop(body.decode(), asyncio.Event()).set()
        self._on_news()

    def _catch_up(self) -> None:
        self._on_news()
        self.tell("")

    async def fly(self, flight: Flight) -> Record:
        """What the discovery comes to: ours if it is our turn, else what the other one stores.

        Where nobody can be asked whose turn it is, or the other one takes too long, it is ours.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + flight.limit_s
        try:
            while (left_s := until - loop.time()) > 0:
                if (found := await flight.take()) is not None:
                    return found
                lease = await self._coordination.lead(f"discover:{flight.server}", flight.limit_s + SLACK_S)
                if lease is not None:
                    return await self._lead(flight, lease)
                await self._wait(flight.server, min(left_s, LOOK_S))
        except _UNAVAILABLE:
            pass
        return await flight.ask()

    async def _lead(self, flight: Flight, lease: Lease) -> Record:
        try:
            return await self._taken(flight) or await flight.ask()
        finally:
            with suppress(CoordinationUnavailable):  # it expires
                await lease.release()

    async def _taken(self, flight: Flight) -> Record | None:
        """Another one may have finished between our look and our turn."""
        try:
            return await flight.take()
        except _UNAVAILABLE:
            return None

    async def _wait(self, server: str, seconds: float) -> None:
        done = self._done.setdefault(server, asyncio.Event())
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await done.wait()

    async def close(self) -> None:
        """Hear no more."""
        await self._topic.close()
