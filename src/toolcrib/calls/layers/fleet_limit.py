"""Fleet limit: the rates, and the places of servers that say how many they have, hold over all replicas together.

What is said of no server in particular (``[limits] parallel``) protects each process, as do the places of native tools.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from toolcrib.calls.gate import Gate
from toolcrib.calls.layers.breaker import Breakers, refuse_if_open
from toolcrib.calls.layers.limit import (
    FRESH_S,
    Clock,
    LimitBook,
    Sleep,
    current_stay,
    holds_place,
    native,
    pause,
    placed,
    refusal,
)
from toolcrib.calls.pipeline import Layer, Step, Subject
from toolcrib.core.coordination import Claim, Coordination
from toolcrib.core.errors import CoordinationUnavailable, RateLimited
from toolcrib.core.limits import CommonLimits
from toolcrib.core.requests import Request, Result

ASK_AGAIN_S = 1.0
PASS_ON_S = 0.1
"""How long a place may go from hand to hand within a replica before the others have their turn."""


class FleetGate(Gate):
    """A gate whose ``places`` are the tickets this replica holds at the moment.

    Whoever finds nobody waiting asks the fleet itself. Everybody else waits in the fair queue of this replica, for
    which one task stands in the line of the fleet; it lives for as long as somebody waits.
    """

    __slots__ = ("_fleet", "_name", "_runner", "_tickets", "most")

    def __init__(self, fleet: Coordination, server: str, most: int, queue_max: int, clock: Callable[[], float]) -> None:
        super().__init__(f"server {server!r}", 0, queue_max, clock)
        self.most = most
        self._fleet, self._name = fleet, f"server {server}"
        self._tickets: deque[tuple[str, float]] = deque()
        self._runner: asyncio.Task[None] | None = None

    def resize(self, places: int) -> None:
        """Have another number of places over all replicas from now on; who is in stays in."""
        self.most = places

    def check_room(self, call: Request) -> None:
        """Refuse a call for which there is no room in the queue, if it would have to join it."""
        if self.waiting >= max(1, self._queue_max) and self._longer_line(call.caller.id) is None:
            raise self._refusal(call.name)

    async def enter(self, call: Request) -> None:
        """Take a place, at once or after waiting for it."""
        if not self.waiting:
            ticket = await self._fleet.take_place(self._name, self.most)
            if ticket is not None:
                self._hold(ticket)
                self.busy += 1
                return
        if self._runner is None:
            self._runner = asyncio.get_running_loop().create_task(self._run(), name=f"places of {self.place}")
        await self.wait(call)

    def leave(self) -> None:
        """Pass a place on to the next who waits here, or give it back; never waits."""
        self.busy -= 1
        if self.waiting and self._clock() - self._tickets[0][1] < PASS_ON_S:
            self.admit()
        self._return_spare()

    async def _run(self) -> None:
        """Bring tickets to those who wait, until nobody does."""
        try:
            while self.waiting:
                ticket = await self._fleet.take_place(self._name, self.most)
                if ticket is None:
                    await self._fleet.on_free(self._name, ASK_AGAIN_S)
                else:
                    self._hold(ticket)
                    self.admit()
                    self._return_spare()
        except CoordinationUnavailable as error:
            self._refuse_all(error)
        finally:
            if self._runner is asyncio.current_task():
                self._runner = None

    def _hold(self, ticket: str) -> None:
        self._tickets.append((ticket, self._clock()))
        self.places += 1

    def _return_spare(self) -> None:
        while self.places > self.busy:
            self.places -= 1
            self._fleet.give_back(self._name, self._tickets.popleft()[0])

    def _refuse_all(self, error: CoordinationUnavailable) -> None:
        while self.waiting:
            future = self._next()
            if not future.done():
                future.set_exception(CoordinationUnavailable(error.message, hint=error.hint, details=error.details))

    def _step_out(self, caller: str, future: "asyncio.Future[None]") -> None:
        super()._step_out(caller, future)
        self._return_spare()
        if not self.waiting and self._runner is not None:
            self._runner.cancel()
            self._runner = None


Claims = Callable[[Request], Sequence[Claim]]


def fleet_limit(common: CommonLimits, breakers: Breakers, fleet: Coordination, sleep: Sleep = asyncio.sleep) -> Layer:
    """Refuse what is beyond a rate of the fleet; hold back what is beyond the places of its server, fairly."""
    book = FleetBook(common, breakers, fleet)

    def layer(subject: Subject, following: Step) -> Step:
        gate, inside = book.placed(subject, following)
        claims = book.claims(subject)
        if claims is None:
            return inside
        return _rated(gate, FleetAdmission(subject.server, fleet, claims, breakers.clock, sleep), inside)

    return layer


def _shared(gate: FleetGate, breakers: Breakers, server: str, following: Step) -> Step:
    async def step(call: Request) -> Result:
        refuse_if_open(breakers, server)  # nobody takes a place of the fleet for a server that is left alone
        await gate.enter(call)
        try:
            return await following(call)
        finally:
            gate.leave()

    return step


def _rated(gate: Gate, admission: "FleetAdmission", following: Step) -> Step:
    async def step(call: Request) -> Result:
        if not holds_place(current_stay(), gate):
            gate.check_room(call)
        await admission.admit(call)
        call.context.renew = admission.renew
        return await following(call)

    return step


class FleetAdmission:
    """Counts the calls of one tool over all replicas, or refuses them."""

    __slots__ = ("_claims", "_clock", "_fleet", "_server", "_sleep")

    def __init__(self, server: str, fleet: Coordination, claims: Claims, clock: Clock, sleep: Sleep) -> None:
        self._server, self._fleet, self._claims, self._clock, self._sleep = server, fleet, claims, clock, sleep

    async def admit(self, call: Request) -> None:
        """Count a call that is about to run, now."""
        full = await self._fleet.use(self._claims(call))
        if full is not None:
            kind = full.claim.key.partition(" ")[0]
            raise refusal(call, self._server, kind, full.claim.rate, full.wait_s)
        call.context.admitted_at = self._clock()

    async def renew(self, call: Request) -> None:
        """Count it once more if it was let in too long ago: what the fleet has counted cannot be taken back."""
        while self._clock() - call.context.admitted_at > FRESH_S:
            try:
                await self.admit(call)
            except RateLimited as refused:
                await pause(call.context, refused, self._sleep)


class FleetBook:
    """What of the limits is counted where."""

    def __init__(self, common: CommonLimits, breakers: Breakers, fleet: Coordination) -> None:
        self._common, self._breakers, self._fleet = common, breakers, fleet
        self._own = LimitBook(common, breakers.clock)
        self._gates: dict[str, FleetGate] = {}

    def placed(self, subject: Subject, following: Step) -> tuple[Gate, Step]:
        """The gate of the subject's server, and the step through it."""
        if not subject.server:
            gate = self._own.gate(subject)
            return gate, native(gate, following)
        if subject.offer.limits.parallel is None:
            gate = self._own.gate(subject)
            return gate, placed(gate, self._breakers, subject.server, following)
        shared = self._shared_gate(subject.server, subject.offer.limits.parallel)
        return shared, _shared(shared, self._breakers, subject.server, following)

    def _shared_gate(self, server: str, places: int) -> FleetGate:
        gate = self._gates.get(server)
        if gate is None:
            queue, clock = self._common.queue, self._breakers.clock
            gate = self._gates[server] = FleetGate(self._fleet, server, places, queue, clock)
        gate.resize(places)
        return gate

    def claims(self, subject: Subject) -> Claims | None:
        """What a call of the subject uses; ``None`` if nothing of it is counted."""
        limits, caller_rate = subject.offer.limits, self._common.caller_rate
        own = f"{subject.offer.kind} {subject.name}"
        named = ((f"server {subject.server}", limits.server_rate), (own, limits.rate))
        fixed = tuple(Claim(key, rate) for key, rate in named if rate is not None)
        if caller_rate is not None:
            return lambda call: (Claim(f"caller {call.caller.id}", caller_rate), *fixed)
        return (lambda _: fixed) if fixed else None
