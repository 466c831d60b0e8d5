"""What an engine does for the replicas: one decision about many wishes at a time, by its own clock.

The engine keeps an **epoch** beside the counts. Whoever finds it missing, or older than what it has seen, knows that
counts were lost; a new epoch begins, and what is limited stays closed until nothing can be exceeded any more:

- a window of up to ``whole_window_s`` stays closed for as long as it is, from when the loss was noticed;
- a longer one, and places, stay closed for ``settle_s``: in that time every replica that lives puts back what it
  counted and holds. A replica's wishes are not looked at before it has.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from secrets import token_hex
from typing import Any, Protocol, TypeAlias

from toolcrib.core.coordination import Listener, Unsubscribe
from toolcrib.core.errors import CoordinationUnavailable
from toolcrib.core.tasks import OnFailure

Wish: TypeAlias = tuple[Any, ...]
"""One of::

    ("use", (key, count, window_us), …)
    ("take", gate, places, ticket)
    ("give", gate, ticket)
    ("leave", gate)
    ("keep", (gate, ticket), …)
    ("back", key, count, window_us, mark, ((stamp_us, uses), …))
"""

FREE = "free"
"""The topic of news about places: the gate, then the replicas whose turn it is."""
PART = "\x1f"
"""Between the parts of a message."""


@dataclass(frozen=True, slots=True)
class Habits:
    """How replicas behave among each other; the same for all of them."""

    replica: str = field(default_factory=lambda: token_hex(6))
    lease_s: float = 10.0
    """How long places stay taken by a replica that says nothing any more."""
    beat_s: float = 3.0
    """How often a replica says that it lives."""
    settle_s: float = 5.0
    """How long replicas have, after a loss, to put back what they know."""
    whole_window_s: float = 60.0
    """Windows up to this length are simply waited out after a loss."""
    patience_s: float = 3.0
    """How long a replica that waits for a place keeps its turn without asking again."""
    poll_s: float = 1.0
    """How often it asks again."""


@dataclass(frozen=True, slots=True)
class EngineMemory:
    """What a replica remembers of the engine."""

    epoch: str = ""
    """Empty: it remembers none."""
    seen: int = 0
    """The highest number of a decision it has seen in that epoch."""
    run: str = ""
    """The engine's own name for the time since it was started; empty if it tells none."""
    is_unsure: bool = False
    """Remembers none, and cannot tell whether there was one: others may."""


@dataclass(frozen=True, slots=True)
class EngineVerdict:
    """What the engine says to a number of wishes."""

    epoch: str
    number: int
    now_us: int
    lost_us: int
    """When a loss was noticed; zero if there was none in this epoch."""
    shut_us: int
    """Until when everything limited is closed."""
    answers: Sequence[int]
    """Two for each wish; none if the replica remembers another epoch. Of a use: the wait in microseconds, and which
    claim it is for; of the others: whether it was done."""


@dataclass(frozen=True, slots=True)
class Heard:
    """A message of another replica, or of the engine itself."""

    sender: str
    topic: str
    body: bytes


class CoordinationEngine(Protocol):
    """All of it raises ``CoordinationUnavailable`` and nothing else."""

    name: str

    async def connect(self) -> EngineMemory:
        """Make a new connection for decisions; what the engine alone can tell."""

    async def decide(self, known: EngineMemory, wishes: Sequence[Wish]) -> EngineVerdict:
        """Fulfil them in order, or say that another epoch has begun; over the connection that was made."""

    def tune(self) -> AbstractAsyncContextManager[AsyncIterator[Heard]]:
        """Listen, from the moment it is entered."""

    async def publish(self, topic: str, body: bytes) -> None:
        """Tell all who listen."""

    async def lease(self, name: str, token: str, for_s: float) -> bool:
        """Take a lease, or keep it; whether it is ours now."""

    async def end_lease(self, name: str, token: str) -> None:
        """Give a lease back, if it is still ours."""

    async def put(self, key: str, value: bytes, ttl_s: float) -> None:
        """Keep a value for a while."""

    async def get(self, key: str) -> bytes | None:
        """The value, if it is still kept."""

    async def forget(self, key: str) -> None:
        """Keep a value no longer."""

    async def close(self) -> None:
        """Let go of all connections."""


RETRY_S = (0.1, 0.2, 0.4, 0.7)
TOPIC = "news "
"""Before the topics of ``publish``, so that none is the engine's own."""

OnGap = Callable[[], None]


class Radio:
    """Hears what others publish, and whose turn it is at a gate."""

    def __init__(
        self, engine: CoordinationEngine, replica: str, on_free: Callable[[str], None], on_failure: OnFailure
    ) -> None:
        self.is_on = asyncio.Event()
        self._engine, self._replica, self._on_free, self._on_failure = engine, replica, on_free, on_failure
        self._listeners: dict[str, list[tuple[Listener, OnGap]]] = {}
        self._waits = iter(RETRY_S)

    async def listen(self) -> None:
        """Until it is cancelled."""
        while True:
            try:
                await self._listen_once()
            except CoordinationUnavailable:
                self.is_on.clear()
            except Exception as error:  # whatever was heard: a replica that is deaf is worse
                self.is_on.clear()
                self._on_failure("listening to other replicas", error)
            await asyncio.sleep(next(self._waits, RETRY_S[-1]))

    async def _listen_once(self) -> None:
        async with self._engine.tune() as station:
            self._waits = iter(RETRY_S)
            self.is_on.set()
            self._tell_of_gap()
            async for heard in station:
                if heard.sender != self._replica:
                    self._hear(heard.topic, heard.body)

    def _tell_of_gap(self) -> None:
        """Whoever listened already may have missed something."""
        for listeners in list(self._listeners.values()):
            for _, on_gap in list(listeners):
                self._safely(on_gap)

    def _hear(self, topic: str, body: bytes) -> None:
        if topic == FREE:
            gate, *turns = body.decode().split(PART)
            if self._replica in turns:
                self._on_free(gate)
            return
        for listener, _ in list(self._listeners.get(topic.removeprefix(TOPIC), ())):
            self._safely(partial(listener, body))

    def _safely(self, listener: Callable[[], None]) -> None:
        try:
            listener()
        except Exception as error:  # one listener's trouble does not deafen the others
            self._on_failure("a listener to other replicas", error)

    async def subscribe(self, topic: str, listener: Listener, on_gap: OnGap, wait_s: float) -> Unsubscribe:
        """Listen from now on; while the engine is away, from when it is back, which begins with ``on_gap``."""
        try:
            async with asyncio.timeout(wait_s):
                await self.is_on.wait()
        except TimeoutError:
            pass
        entry = (listener, on_gap)
        self._listeners.setdefault(topic, []).append(entry)

        async def unsubscribe() -> None:
            listeners = self._listeners.get(topic, [])
            if entry in listeners:
                listeners.remove(entry)
            if not listeners:
                self._listeners.pop(topic, None)

        return unsubscribe
