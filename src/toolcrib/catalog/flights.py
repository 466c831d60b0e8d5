"""One discovery of a server at a time over all replicas; whoever finds something tells the others."""

import asyncio
import random
import shutil
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from toolcrib.catalog.recorded import fitting_record
from toolcrib.catalog.records import ServerShelf
from toolcrib.config.lock import Record
from toolcrib.core.coordination import Coordination, Lease
from toolcrib.core.errors import CoordinationUnavailable, StoreUnavailable
from toolcrib.core.kinds import DiscoveryStatus, FailureKind
from toolcrib.core.topic import Topic

TOPIC = "catalog"
LOOK_S = 1.0
"""How often the store is looked at while another replica asks: the word that it is done may get lost."""
SLACK_S = 5.0

_UNAVAILABLE = (CoordinationUnavailable, StoreUnavailable)


@dataclass(frozen=True, slots=True)
class Flight:
    """One discovery to make, or to take over from another replica."""

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
        """Subscribe to what other replicas find."""
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
        """Unsubscribe."""
        await self._topic.close()


def follow_record(shelf: ServerShelf, stored: Record | None, adopt: Callable[[ServerShelf, Record], None]) -> bool:
    """Take over a newer discovery of another replica; whether that changed anything people see.

    That a server could not be asked there says nothing of here. A listing of an address is a comparison with the
    pins for all of us; one of a program is not: ours may be another version.
    """
    found = fitting_record(shelf.config, stored)
    is_of_use = _is_newer(found, shelf.record) and found.status is DiscoveryStatus.SUCCESS
    if shelf.config.is_own or not is_of_use:
        return False
    before = (shelf.tools, shelf.others, shelf.held, shelf.is_known, shelf.record.status)
    shelf.record = shelf.stored = found
    adopt(shelf, found)
    shelf.is_compared = shelf.is_compared or bool(shelf.config.url)
    shelf.settled.set()
    return before != (shelf.tools, shelf.others, shelf.held, shelf.is_known, DiscoveryStatus.SUCCESS)


def _is_newer(found: Record, ours: Record) -> bool:
    return bool(found.last_discovery) and found != ours and found.last_discovery >= ours.last_discovery


CHANGE_PAUSE_S = 0.2
"""So that a burst of changes is answered once."""
LONGEST_S = 30.0
CALM_S = 1.0


class ChangePauses:
    """The pause before each server is asked; for one that says so all the time it doubles, up to half a minute."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, float]] = {}
        """Per server, when it last said so, and how long the pause was then."""

    def next_s(self, server: str, now: float) -> float:
        """How long to wait from ``now`` on."""
        said_at, pause_s = self._last.get(server, (now, 0.0))
        is_restless = pause_s > 0 and now - said_at < 2 * pause_s + CALM_S
        pause_s = min(2 * pause_s, LONGEST_S) if is_restless else CHANGE_PAUSE_S
        self._last[server] = now, pause_s
        return pause_s

    def forget(self, server: str) -> None:
        """Forget a server that was removed or replaced."""
        self._last.pop(server, None)


RETRY_FIRST_S = 2.0
RETRY_MOST_S = 300.0
RETRY_JITTER = 0.2
COMMAND_LOOK_S = 15.0


class Retries:
    """When servers that failed are asked again without anybody needing them: after growing pauses, for ever.

    One that failed for a lasting reason waits for a change; that its command is there now is one.
    """

    def __init__(self, ask: Callable[[ServerShelf], object]) -> None:
        self._ask = ask
        self._loop = asyncio.get_running_loop()
        self._failures: dict[str, int] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def note_failure(self, shelf: ServerShelf, kind: FailureKind) -> None:
        """A discovery failed; arranges for the next one, if that is of use."""
        name = shelf.config.name
        self.stop(shelf)
        if kind is FailureKind.COMMAND:
            self._timers[name] = self._loop.call_later(COMMAND_LOOK_S, self._look_for_command, shelf)
        if kind.is_lasting:
            return
        failures = self._failures[name] = self._failures.get(name, 0) + 1
        pause_s = retry_pause_s(failures)
        shelf.retry_at = time.time() + pause_s
        self._timers[name] = self._loop.call_later(pause_s, self._again, shelf)

    def note_success(self, shelf: ServerShelf) -> None:
        """It could be asked."""
        self._failures.pop(shelf.config.name, None)
        self.stop(shelf)

    def stop(self, shelf: ServerShelf) -> None:
        """It is asked now, or is none of ours any more."""
        shelf.retry_at = None
        timer = self._timers.pop(shelf.config.name, None)
        if timer is not None:
            timer.cancel()

    def _again(self, shelf: ServerShelf) -> None:
        self.stop(shelf)
        self._ask(shelf)

    def _look_for_command(self, shelf: ServerShelf) -> None:
        command = shelf.config.command or ""
        if shutil.which(command, path=shelf.config.env.get("PATH")) is not None:
            self._again(shelf)
        else:
            self._timers[shelf.config.name] = self._loop.call_later(COMMAND_LOOK_S, self._look_for_command, shelf)

    def close(self) -> None:
        """Ask nobody any more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()


def retry_pause_s(failures: int) -> float:
    """How long to wait after so many failures; no two servers that failed together come back together."""
    pause_s = min(RETRY_MOST_S, RETRY_FIRST_S * 2.0 ** min(failures - 1, 16))
    return pause_s * random.uniform(1 - RETRY_JITTER, 1 + RETRY_JITTER)  # noqa: S311 - spreads work, keeps no secret
