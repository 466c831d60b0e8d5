"""What replicas agree on, through any engine: the ``Coordination`` of ``core``."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import count
from secrets import token_hex
from typing import TypeVar

from toolcrib.core.coordination import Claim, CoordinationStatus, EpochMemory, Full, Lease, Listener, Unsubscribe
from toolcrib.core.errors import CoordinationUnavailable
from toolcrib.core.tasks import OnFailure, TaskScope
from toolcrib.stores.coordination.deciding import Decisions, refused
from toolcrib.stores.coordination.engine import TOPIC, CoordinationEngine, Habits, Radio

RENEWALS = 3
"""How often a lease is renewed in the time it lasts."""


class KeptLease:
    """One lease; it is renewed until it is let go, or turns out to be somebody else's."""

    def __init__(self, engine: CoordinationEngine, name: str, token: str, for_s: float) -> None:
        self.is_held = True
        self._engine, self._name, self._token, self._for_s = engine, name, token, for_s
        self._renewal: asyncio.Task[None] | None = None

    def keep(self, scope: TaskScope) -> None:
        """Renew it from now on."""
        self._renewal = scope.spawn(self._renew(), f"keeping {self._name}")

    async def _renew(self) -> None:
        while self.is_held:
            await asyncio.sleep(self._for_s / RENEWALS)
            try:
                self.is_held = await self._engine.lease(self._name, self._token, self._for_s)
            except CoordinationUnavailable:
                continue

    async def release(self) -> None:
        """Let another one do it; while the engine is away, it ends by itself."""
        if self._renewal is not None:
            self._renewal.cancel()
        self.is_held = False
        try:
            await self._engine.end_lease(self._name, self._token)
        except CoordinationUnavailable:
            return


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class UsageCount:
    """How a use went: when, by the engine's clock, and what stood against it."""

    at_us: int
    full: Full | None


def report(name: str, error: BaseException) -> None:
    """What went wrong in the background goes where asyncio reports such things."""
    told = {"message": f"{name} failed", "exception": error}
    asyncio.get_running_loop().call_exception_handler(told)


class Coordinator:
    """One replica among others."""

    def __init__(
        self,
        engine: CoordinationEngine,
        habits: Habits,
        memory: EpochMemory | None = None,
        on_failure: OnFailure = report,
    ) -> None:
        self._engine, self._habits = engine, habits
        self._scope = TaskScope(on_failure)
        self._decisions = Decisions(engine, habits, memory, self._scope)
        self._radio = Radio(engine, habits.replica, self._call_in, on_failure)
        self._at_gates: dict[str, set[asyncio.Future[None]]] = {}
        self._tickets = count(1)
        self._longest_s = 0.0

    async def open(self) -> "Coordinator":
        """Make contact, or go on trying; never raises because the engine is away."""
        self._scope.spawn(self._radio.listen(), "listening to replicas")
        await self._decisions.open()
        return self

    async def use(self, claims: Sequence[Claim]) -> Full | None:
        """Count one use of every claim, or of none."""
        return (await self.count(claims)).full

    async def count(self, claims: Sequence[Claim]) -> UsageCount:
        """The same, and when it was."""
        rates = [(claim.key, claim.rate.count, round(claim.rate.window_s * 1e6)) for claim in claims]
        wait_us, which, now_us = await self._decisions.ask(("use", *rates))
        if wait_us > 0:
            self._longest_s = max(self._longest_s, claims[which].rate.window_s)
            return UsageCount(now_us, Full(claims[which], wait_us / 1e6))
        for claim in claims:
            self._decisions.mirror.note(claim, now_us)
        return UsageCount(now_us, None)

    async def take_place(self, gate: str, places: int) -> str | None:
        """A place, or a turn in the line of replicas for one; a cancelled wish leaves neither."""
        ticket = f"{self._habits.replica}.{next(self._tickets)}"
        wish = ("take", gate, places, ticket)
        asked = self._decisions.ask(wish)
        try:
            got, _, _ = await asked
        except asyncio.CancelledError:
            if not asked.cancelled() and asked.exception() is None:  # answered just before
                self._decisions.undo(wish, asked.result()[0])
            raise
        if not got:
            return None
        self._decisions.mirror.held[ticket] = gate
        return ticket

    def give_back(self, gate: str, ticket: str) -> None:
        """Give a place back; whoever waits here may ask in the same breath."""
        self._decisions.mirror.held.pop(ticket, None)
        self._decisions.tell(("give", gate, ticket))
        self._call_in(gate)

    async def on_free(self, gate: str, seconds: float) -> None:
        """Return when it may be our turn; a cancelled wait gives the turn to others."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._at_gates.setdefault(gate, set()).add(turn)
        try:
            await asyncio.wait([turn], timeout=min(seconds, self._habits.poll_s))
        except asyncio.CancelledError:
            self._decisions.tell(("leave", gate))
            raise
        finally:
            self._leave(gate, turn)

    def _leave(self, gate: str, turn: "asyncio.Future[None]") -> None:
        waiting = self._at_gates.get(gate, set())
        waiting.discard(turn)
        if not waiting:
            self._at_gates.pop(gate, None)

    def _call_in(self, gate: str) -> None:
        for turn in self._at_gates.get(gate, ()):
            if not turn.done():
                turn.set_result(None)

    async def lead(self, name: str, for_s: float) -> Lease | None:
        """Be the only one who does something, until it is let go; if this replica dies, for that time at most."""
        token = token_hex(8)
        if not await self._guarded(self._engine.lease(name, token, for_s)):
            return None
        lease = KeptLease(self._engine, name, token, for_s)
        lease.keep(self._scope)
        return lease

    async def publish(self, topic: str, body: bytes) -> None:
        """Tell all other replicas."""
        await self._guarded(self._engine.publish(TOPIC + topic, body))

    async def subscribe(self, topic: str, listener: Listener, on_gap: Callable[[], None]) -> Unsubscribe:
        """Be told of what others publish; this alone does not fail while the engine is away."""
        return await self._radio.subscribe(topic, listener, on_gap, 0.0 if self._decisions.away else 1.0)

    async def put(self, key: str, value: bytes, ttl_s: float) -> None:
        """Keep a value for a while."""
        await self._guarded(self._engine.put(key, value, ttl_s))

    async def get(self, key: str) -> bytes | None:
        """The value, if it is still kept."""
        return await self._guarded(self._engine.get(key))

    async def forget(self, key: str) -> None:
        """Keep a value no longer."""
        await self._guarded(self._engine.forget(key))

    async def _guarded(self, work: Awaitable[T]) -> T:
        """Refuse at once while the engine is known to be away; a failure here makes the next decision find out."""
        away = self._decisions.away
        if away is not None:
            work.close()  # type: ignore[attr-defined]
            raise refused(away.error)
        try:
            return await work
        except CoordinationUnavailable:
            self._decisions.tell(self._decisions.mirror.keeping())
            raise

    def status(self) -> CoordinationStatus:
        """How it is doing."""
        away = self._decisions.away
        now = time.monotonic()
        return CoordinationStatus(
            self._engine.name,
            self._habits.replica,
            problem=away.error.message if away is not None else "",
            away_s=round(now - away.since, 1) if away is not None else 0.0,
            settling_s=self._settling_s(now),
        )

    def _settling_s(self, now: float) -> float:
        if self._decisions.latest is None:
            return 0.0
        decision, at = self._decisions.latest
        until_us = decision.shut_us
        if decision.lost_us:
            waited_out_s = min(self._longest_s, self._habits.whole_window_s)
            until_us = max(until_us, decision.lost_us + round(waited_out_s * 1e6))
        return round(max(0.0, (until_us - decision.now_us) / 1e6 - (now - at)), 1)

    async def close(self) -> None:
        """Give everything back and let go."""
        for ticket, gate in list(self._decisions.mirror.held.items()):
            self.give_back(gate, ticket)
        await self._decisions.close()
        await self._scope.close()
        await self._engine.close()
