"""Wishes to the engine, gathered: whatever arrives in one turn, or while a decision is under way, goes together."""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from toolcrib.core.coordination import Claim, EpochMemory
from toolcrib.core.errors import CoordinationUnavailable, StoreUnavailable
from toolcrib.core.tasks import TaskScope
from toolcrib.stores.coordination.engine import RETRY_S, CoordinationEngine, EngineMemory, EngineVerdict, Habits, Wish

KEYS_MAX = 4096
PARTS = 30
"""A window is remembered in this many parts; the uses of one part count as made at the latest of them."""


@dataclass(slots=True)
class _Trace:
    count: int
    window_us: int
    parts: deque[list[int]] = field(default_factory=deque)
    """The stamp of the latest use, and how many uses, oldest part first."""


class Mirror:
    """One replica's own uses and places, to be put back after the engine lost them."""

    def __init__(self, whole_window_s: float, keys_max: int = KEYS_MAX) -> None:
        self.held: dict[str, str] = {}
        """The gate of each ticket."""
        self._whole_window_s, self._keys_max = whole_window_s, keys_max
        self._traces: OrderedDict[str, _Trace] = OrderedDict()

    def note(self, claim: Claim, stamp_us: int) -> None:
        """Remember a use that was counted; one in a short window need not be."""
        if claim.rate.window_s <= self._whole_window_s:
            return
        trace = self._traces.setdefault(claim.key, _Trace(0, 0))
        trace.count, trace.window_us = claim.rate.count, round(claim.rate.window_s * 1e6)
        self._traces.move_to_end(claim.key)
        if len(self._traces) > self._keys_max:
            self._traces.popitem(last=False)
        self._add(trace, stamp_us)

    def _add(self, trace: _Trace, stamp_us: int) -> None:
        width_us = trace.window_us // PARTS
        parts = trace.parts
        if parts and parts[-1][0] // width_us == stamp_us // width_us:
            parts[-1] = [stamp_us, parts[-1][1] + 1]
        else:
            parts.append([stamp_us, 1])
        while parts[0][0] + trace.window_us <= stamp_us:
            parts.popleft()

    def wishes(self, replica: str) -> Iterator[Wish]:
        """What puts all of it back; each can be sent twice without harm."""
        for key, trace in self._traces.items():
            parts = tuple((stamp, uses) for stamp, uses in trace.parts)
            yield ("back", key, trace.count, trace.window_us, f"{replica} {key}", parts)
        yield self.keeping()

    def keeping(self) -> Wish:
        """What renews the places."""
        return ("keep", *((gate, ticket) for ticket, gate in self.held.items()))


MOVES_MAX = 8
"""How often the epoch may change under one decision before the engine counts as away."""
TOGETHER_MAX = 500

Answer = tuple[int, int, int]
"""Two numbers of the engine, and its time in microseconds."""
Pending = tuple[Wish, "asyncio.Future[Answer] | None"]


@dataclass(frozen=True, slots=True)
class Away:
    """Why the engine cannot be asked, and since when, by a clock that only goes forward."""

    error: CoordinationUnavailable
    since: float


class Decisions:
    """One replica's conversation with the engine; while that is away everything is refused at once."""

    def __init__(
        self, engine: CoordinationEngine, habits: Habits, memory: EpochMemory | None, scope: TaskScope
    ) -> None:
        self.mirror = Mirror(habits.whole_window_s)
        self.away: Away | None = None
        self.latest: tuple[EngineVerdict, float] | None = None
        """The latest decision, and when it arrived."""
        self._engine, self._habits, self._memory, self._scope = engine, habits, memory, scope
        self._known = EngineMemory()
        self._pending: list[Pending] = []
        self._flight: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Make the first contact; without any, go on trying."""
        try:
            await self._greet()
        except CoordinationUnavailable as error:
            self._lose(error)
        self._scope.spawn(self._beat(), "replica's heartbeat")

    def ask(self, wish: Wish) -> "asyncio.Future[Answer]":
        """The engine's answer to a wish; a place that is granted to nobody any more is given back."""
        if self.away is not None:
            raise refused(self.away.error)
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._pending.append((wish, future))
        if self._flight is None:
            self._start()
        return future

    def tell(self, wish: Wish) -> None:
        """A wish nobody waits for; lost while the engine is away."""
        if self.away is None:
            self._pending.append((wish, None))
            if self._flight is None:
                self._start()

    def undo(self, taking: Wish, got: int) -> None:
        """The caller was cancelled: give its place back, or leave the queue for it."""
        self.tell(("give", taking[1], taking[3]) if got else ("leave", taking[1]))

    async def close(self) -> None:
        """Wait until everything was said; then say nothing more."""
        if self._flight is not None:
            await asyncio.wait([self._flight])
        self.away = Away(CoordinationUnavailable("This replica is closing."), time.monotonic())

    def _start(self) -> None:
        self._flight = self._scope.spawn(self._decide_all(), "decisions of the fleet")

    async def _decide_all(self) -> None:
        try:
            while self._pending:
                together, self._pending = self._pending[:TOGETHER_MAX], self._pending[TOGETHER_MAX:]
                await self._decide([entry for entry in together if entry[1] is None or not entry[1].done()])
        finally:
            self._flight = None

    async def _decide(self, wanted: list[Pending]) -> None:
        try:
            decision = await self._insist([wish for wish, _ in wanted])
            numbers = iter(decision.answers)
            for (wish, future), first, second in zip(wanted, numbers, numbers, strict=True):
                if future is None:
                    continue
                if not future.done():
                    future.set_result((first, second, decision.now_us))
                elif wish[0] == "take":
                    self.undo(wish, first)
        except CoordinationUnavailable as error:
            self._lose(error, wanted)
        finally:
            fail(wanted, CoordinationUnavailable("This replica is closing."))

    async def _insist(self, wishes: list[Wish]) -> EngineVerdict:
        """A connection that was cut is made anew once: counting twice what nobody used harms nobody."""
        try:
            return await self._decided(wishes)
        except CoordinationUnavailable as error:
            if not error.details.get("was_cut"):
                raise
        await self._greet()
        return await self._decided(wishes)

    async def _decided(self, wishes: list[Wish]) -> EngineVerdict:
        """What the engine says, after this replica has followed it into its epoch."""
        for _ in range(MOVES_MAX):
            decision = await self._engine.decide(self._known, wishes)
            if decision.epoch == self._known.epoch:
                self._note(decision)
                return decision
            await self._move(decision.epoch)
        raise CoordinationUnavailable("The engine that replicas agree through loses its data again and again.")

    def _note(self, decision: EngineVerdict) -> None:
        self._known = replace(self._known, seen=decision.number)
        self.latest = decision, time.monotonic()

    async def _move(self, epoch: str) -> None:
        """Put back what this replica knows; only then is it in the new epoch."""
        there = replace(self._known, epoch=epoch, seen=0, is_unsure=False)
        known = list(self.mirror.wishes(self._habits.replica))
        for start in range(0, len(known), TOGETHER_MAX):
            decision = await self._engine.decide(there, known[start : start + TOGETHER_MAX])
            if decision.epoch != epoch:
                return
            there = replace(there, seen=decision.number)
        self._known = there
        await self._remember(epoch)

    async def _greet(self) -> None:
        """A new connection, and what is known on it."""
        told = await self._engine.connect()
        remembered, is_sure = self._known.epoch, True
        if not remembered:
            remembered, is_sure = await self._recall(is_sure=not told.is_unsure)
        self._known = replace(self._known, epoch=remembered, run=told.run, is_unsure=not is_sure)
        await self._decided([self.mirror.keeping()])

    async def _recall(self, *, is_sure: bool) -> tuple[str, bool]:
        if self._memory is None:
            return "", is_sure
        try:
            return await self._memory.recall(), True
        except StoreUnavailable:
            return "", False

    async def _remember(self, epoch: str) -> None:
        """Without the store, each replica's own memory has to do; the next one to start is careful then."""
        if self._memory is not None:
            try:
                await self._memory.remember(epoch)
            except StoreUnavailable:
                return

    def _lose(self, error: CoordinationUnavailable, wanted: Sequence[Pending] = ()) -> None:
        """Refuse everything from now on, and look for the engine meanwhile."""
        if self.away is None:
            self.away = Away(error, time.monotonic())
            self._scope.spawn(self._come_back(), "looking for the engine")
        pending, self._pending = [*wanted, *self._pending], []
        fail(pending, error)

    async def _come_back(self) -> None:
        waits = iter(RETRY_S)
        while self.away is not None:
            await asyncio.sleep(next(waits, RETRY_S[-1]))
            try:
                await self._greet()
            except CoordinationUnavailable as error:
                self.away = Away(error, self.away.since)
            else:
                self.away = None

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._habits.beat_s)
            self.tell(self.mirror.keeping())


def fail(pending: Sequence[Pending], error: CoordinationUnavailable) -> None:
    """Tell all who still wait."""
    for _, future in pending:
        if future is not None and not future.done():
            future.set_exception(refused(error))


def refused(error: CoordinationUnavailable) -> CoordinationUnavailable:
    """The same trouble for each who meets it."""
    return CoordinationUnavailable(error.message, hint=error.hint, details={**error.details, "retry_after_s": 1.0})
