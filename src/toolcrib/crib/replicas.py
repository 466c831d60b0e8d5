"""What ties a Crib to those of other replicas; without [store] and [redis] there are none."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from msgspec import structs

from toolcrib.calls.inbox import Inbox
from toolcrib.calls.neighbours import ReplicaInbox
from toolcrib.catalog.refresh import Refresher
from toolcrib.core.coordination import Coordination, SessionBook
from toolcrib.core.errors import CoordinationUnavailable, ToolcribError
from toolcrib.core.events import Emit, Event, drop
from toolcrib.core.tasks import TaskScope
from toolcrib.core.topic import Topic
from toolcrib.stores.local import Backend

CONFIG_TOPIC = "config"
LOOK_S = 3.0


@dataclass(slots=True)
class SharedEngine:
    """Something that replicas share, and whether it can be reached."""

    name: str
    """``store`` or ``coordination``."""
    kind: str
    """``postgresql``, ``redis`` or ``memory``."""
    look: Callable[[], Awaitable[None]]
    """Raises while it is away."""
    problem: str = ""
    away_since: float | None = None
    """In seconds since 1970."""

    async def check(self, emit: Emit) -> None:
        """See whether it is there; coming and going is told once."""
        before, self.problem = self.problem, await _problem_of(self.look)
        if self.problem and self.away_since is None:
            self.away_since = time.time()
            emit(Event(f"{self.name}.away", "warning", {"engine": self.kind, "reason": self.problem}))
        elif not self.problem and before:
            self.away_since = None
            emit(Event(f"{self.name}.back", "info", {"engine": self.kind}))

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {"engine": self.kind, "problem": self.problem, "awaySince": self.away_since}


async def _problem_of(look: Callable[[], Awaitable[None]]) -> str:
    try:
        await look()
    except ToolcribError as error:
        return error.message
    return ""


async def join_fleet(backend: Backend, replica: str, emit: Emit) -> "Fleet | None":
    """This process among the others, if there can be any."""
    coordination, book = backend.coordination, backend.sessions()
    if coordination is None or book is None:
        return None

    async def see_others() -> None:
        if problem := coordination.status().problem:
            raise CoordinationUnavailable(problem)

    engines = [SharedEngine("coordination", coordination.status().engine, see_others)]
    if backend.look is not None:
        engines.insert(0, SharedEngine("store", "postgresql", backend.look))
    return Fleet(replica, coordination, book, engines, emit)


@dataclass(slots=True)
class Fleet:
    """This replica among the others."""

    replica: str
    coordination: Coordination
    book: SessionBook
    engines: Sequence[SharedEngine] = ()
    emit: Emit = drop
    on_config: Callable[[], Awaitable[object]] | None = None
    """What to do when the configuration was edited through another replica."""
    _neighbours: ReplicaInbox | None = None
    _config: Topic | None = None
    _tasks: TaskScope | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def open(self, refresher: Refresher, inbox: Inbox) -> None:
        """Begin to follow the others."""
        self._tasks = TaskScope(self.failed)
        await refresher.share(self.coordination)
        self._neighbours = ReplicaInbox(inbox, self.coordination, time.monotonic, self.failed)
        await self._neighbours.open()
        self._config = Topic(self.coordination, CONFIG_TOPIC, lambda _: self._changed.set(), self._changed.set)
        await self._config.open()
        self._tasks.spawn(self._follow_config(), "config.follow")
        self._tasks.spawn(self._look_again_and_again(), "engines.look")

    def failed(self, name: str, error: BaseException) -> None:
        """Tell of background work that failed."""
        self.emit(Event(f"{name}.failed", "error", {"error": repr(error)}))

    def tell_config(self) -> None:
        """Say that the configuration was edited here."""
        if self._config is not None:
            self._config.say(self.replica.encode())

    async def _follow_config(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self.on_config is not None:
                with suppress(ToolcribError, OSError):  # a broken edit leaves what runs; the watch of the files tells
                    await self.on_config()

    async def _look_again_and_again(self) -> None:
        while True:
            for engine in self.engines:
                await engine.check(self.emit)
            await asyncio.sleep(LOOK_S)

    def troubles(self) -> dict[str, str]:
        """Each engine, and why it cannot be reached; empty if it can."""
        return {engine.name: engine.problem for engine in self.engines}

    def health(self) -> dict[str, Any]:
        """How this replica and what it shares are doing, as plain data."""
        engines = {engine.name: engine.to_dict() for engine in self.engines}
        return {**structs.asdict(self.coordination.status()), "replica": self.replica, "engines": engines}

    async def close(self) -> None:
        """Unsubscribe from the other replicas; does not close the engines."""
        if self._tasks is not None:
            await self._tasks.close()
        if self._config is not None:
            await self._config.close()
        if self._neighbours is not None:
            await self._neighbours.close()
