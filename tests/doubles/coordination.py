"""Coordination between members of one process: the reference for the engines that do it between processes."""

import asyncio
import itertools
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from toolcrib.core.coordination import (
    IDLE_S,
    Claim,
    CoordinationStatus,
    Full,
    Lease,
    Listener,
    SessionEntry,
    Unsubscribe,
)
from toolcrib.core.errors import CoordinationUnavailable

Clock = Callable[[], float]
OnGap = Callable[[], None]


@dataclass(slots=True)
class MemoryHub:
    """What the members have in common."""

    clock: Clock = time.monotonic
    members: "list[MemoryCoordination]" = field(default_factory=list)
    uses: dict[str, deque[float]] = field(default_factory=dict)
    places: dict[str, dict[str, str]] = field(default_factory=dict)
    """Gate → ticket → who holds it."""
    leases: dict[str, tuple[str, float]] = field(default_factory=dict)
    """What is done → by whom, and until when at most."""
    values: dict[str, tuple[bytes, float]] = field(default_factory=dict)
    tickets: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))
    freed: dict[str, asyncio.Event] = field(default_factory=dict)

    def join(self, replica: str) -> "MemoryCoordination":
        """One more member."""
        self.members.append(member := MemoryCoordination(self, replica))
        return member


@dataclass(slots=True, eq=False)
class MemoryLease:
    """A lease of one member."""

    hub: MemoryHub
    name: str
    holding: tuple[str, float]

    async def release(self) -> None:
        """Let another one do it; one that has expired is another's by now."""
        if self.hub.leases.get(self.name) is self.holding:
            del self.hub.leases[self.name]


class MemoryCoordination:
    """One member's view of the hub."""

    def __init__(self, hub: MemoryHub, replica: str) -> None:
        self._hub, self._replica = hub, replica
        self._listeners: dict[str, list[tuple[Listener, OnGap]]] = {}
        self._problem = ""

    def cut(self, problem: str = "it does not answer") -> None:
        """Be unable to reach the others."""
        self._problem = problem

    def mend(self) -> None:
        """Reach them again; whoever listens may have missed something."""
        self._problem = ""
        for _, on_gap in [pair for pairs in self._listeners.values() for pair in pairs]:
            on_gap()

    def die(self) -> None:
        """Disconnect as if killed: places are freed as an engine would, leases expire."""
        if self in self._hub.members:
            self._hub.members.remove(self)
        self._listeners.clear()
        self._problem = "it was closed"
        for gate, held in self._hub.places.items():
            for ticket in [ticket for ticket, holder in held.items() if holder == self._replica]:
                del held[ticket]
                self._tell_free(gate)

    def _check(self) -> None:
        if self._problem:
            raise CoordinationUnavailable(f"The other replicas cannot be reached: {self._problem}.")

    async def use(self, claims: Sequence[Claim]) -> Full | None:
        """Count one use of every claim, or of none."""
        self._check()
        now = self._hub.clock()
        waits = [Full(claim, self._wait_s(claim, now)) for claim in claims]
        longest = max(waits, key=lambda full: full.wait_s, default=None)
        if longest is not None and longest.wait_s > 0:
            return longest
        for claim in claims:
            self._hub.uses.setdefault(claim.key, deque()).append(now)
        return None

    def _wait_s(self, claim: Claim, now: float) -> float:
        uses = self._hub.uses.setdefault(claim.key, deque())
        recent = [at for at in uses if at > now - claim.rate.window_s]
        if len(recent) < claim.rate.count:
            return 0.0
        return recent[-claim.rate.count] + claim.rate.window_s - now

    async def take_place(self, gate: str, places: int) -> str | None:
        """A place out of so many, if one is free."""
        self._check()
        held = self._hub.places.setdefault(gate, {})
        if len(held) >= places:
            return None
        held[ticket := f"{self._replica}-{next(self._hub.tickets)}"] = self._replica
        return ticket

    def give_back(self, gate: str, ticket: str) -> None:
        """Give a place back."""
        self._hub.places.get(gate, {}).pop(ticket, None)
        self._tell_free(gate)

    def _tell_free(self, gate: str) -> None:
        self._hub.freed.pop(gate, asyncio.Event()).set()

    async def on_free(self, gate: str, seconds: float) -> None:
        """Return when a place may have become free."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._hub.freed.setdefault(gate, asyncio.Event()).wait()

    async def lead(self, name: str, for_s: float) -> Lease | None:
        """Be the only one who does something for a while."""
        self._check()
        held, now = self._hub.leases.get(name), self._hub.clock()
        if held is not None and held[1] > now:
            return None
        holding = self._hub.leases[name] = (self._replica, now + for_s)
        return MemoryLease(self._hub, name, holding)

    async def publish(self, topic: str, body: bytes) -> None:
        """Tell all other members that listen."""
        self._check()
        loop = asyncio.get_running_loop()
        for member in self._hub.members:
            if member is not self:
                loop.call_soon(member.hear, topic, body)

    def hear(self, topic: str, body: bytes) -> None:
        """Take what another member said; who is cut off hears nothing."""
        for listener, _ in [] if self._problem else list(self._listeners.get(topic, [])):
            listener(body)

    async def subscribe(self, topic: str, listener: Listener, on_gap: OnGap) -> Unsubscribe:
        """Be told of what other members publish."""
        self._check()
        entry = (listener, on_gap)
        self._listeners.setdefault(topic, []).append(entry)

        async def unsubscribe() -> None:
            if entry in self._listeners.get(topic, []):
                self._listeners[topic].remove(entry)

        return unsubscribe

    async def put(self, key: str, value: bytes, ttl_s: float) -> None:
        """Keep a value for a while."""
        self._check()
        self._hub.values[key] = (value, self._hub.clock() + ttl_s)

    async def get(self, key: str) -> bytes | None:
        """The value, if it is still kept."""
        self._check()
        value, until = self._hub.values.get(key, (None, 0.0))
        return value if until > self._hub.clock() else None

    async def forget(self, key: str) -> None:
        """Keep a value no longer."""
        self._check()
        self._hub.values.pop(key, None)

    def status(self) -> CoordinationStatus:
        """How it is doing."""
        return CoordinationStatus("memory", self._replica, self._problem)

    async def close(self) -> None:
        """Let go of everything, leases too."""
        self._hub.leases = {
            name: held for name, held in self._hub.leases.items() if held[0] != self._replica or not self._is_member
        }
        self.die()

    @property
    def _is_member(self) -> bool:
        return self in self._hub.members


class MemorySessionBook:
    """Sessions for as long as the program runs; several doors may share one."""

    def __init__(self, clock: Callable[[], float], idle_s: float = IDLE_S) -> None:
        self._clock, self._idle_s = clock, idle_s
        self._entries: dict[str, tuple[SessionEntry, float]] = {}

    async def open(self, entry: SessionEntry) -> None:
        """Write a new session down."""
        self._entries[entry.key] = entry, self._clock()

    async def find(self, key: str) -> SessionEntry | None:
        """The session, while it lasts."""
        entry, used = self._entries.get(key, (None, 0.0))
        if entry is None or used < self._clock() - self._idle_s:
            return None
        self._entries[key] = entry, self._clock()
        return entry

    async def touch(self, keys: Collection[str]) -> set[str]:
        """Note that these are in use; those that have ended are returned."""
        return {key for key in keys if await self.find(key) is None}

    async def end(self, key: str) -> bool:
        """End a session."""
        return self._entries.pop(key, None) is not None

    async def sweep(self) -> None:
        """Forget what was unused for too long."""
        oldest = self._clock() - self._idle_s
        self._entries = {key: kept for key, kept in self._entries.items() if kept[1] >= oldest}
