"""Limit: rates of caller, tool and server, then a place on the server; every refusal says when to try again.

A call that is let in may still wait: for its place, for the audit log, for its server. So it carries its admission on
to where it runs (``start``), and is counted anew there if that was too long ago.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import Any, TypeAlias

from toolcrib.calls.gate import Gate, MovingWindow, RateWindows, use_all
from toolcrib.calls.layers.breaker import Breakers, refuse_if_open
from toolcrib.calls.pipeline import Layer, Step, Subject
from toolcrib.core.errors import RateLimited
from toolcrib.core.limits import CommonLimits, Rate, retry_after_s, try_again
from toolcrib.core.requests import Request, RequestContext, Result

Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[object]]
FRESH_S = 0.05
"""For so long a call that was let in may run without being counted anew."""
WAIT_MAX_S = 5.0
"""A call that was let in waits so long for room in its limits; if it takes longer it is refused after all."""


def start(common: CommonLimits, clock: Clock) -> Layer:
    """Count a call anew that was let in a while ago; ``clock`` is that of the limits."""

    def layer(subject: Subject, following: Step) -> Step:
        limits = subject.offer.limits
        if limits.rate is None and limits.server_rate is None and common.caller_rate is None:
            return following

        def step(call: Request) -> Awaitable[Result]:
            context = call.context
            if context.renew is None or clock() - context.admitted_at <= FRESH_S:
                return following(call)
            return _renewed(call, context.renew, following)

        return step

    return layer


async def _renewed(call: Request, renew: Callable[[Request], Awaitable[None]], following: Step) -> Result:
    await renew(call)
    return await following(call)


async def pause(context: RequestContext, refused: RateLimited, sleep: Sleep) -> None:
    """Wait until a limit has room again, unless that takes too long: then it is refused after all."""
    wait_s = float(refused.details["retry_after_s"])
    if wait_s > WAIT_MAX_S:
        raise refused
    context.waits_for = "never ran: its limits had no room for it"
    await sleep(wait_s)
    context.waits_for = ""
    context.waited_s += wait_s


NEVER = float("-inf")


def limit(common: CommonLimits, breakers: Breakers, sleep: Sleep = asyncio.sleep) -> Layer:
    """Refuse what is beyond a rate; hold back what is beyond the places of its server, fairly."""
    book = LimitBook(common, breakers.clock, sleep)

    def layer(subject: Subject, following: Step) -> Step:
        gate, admission = book.gate(subject), book.admission(subject)
        inside = placed(gate, breakers, subject.server, following) if subject.server else native(gate, following)
        return inside if admission is None else _rated(gate, admission, inside)

    return layer


def placed(gate: Gate, breakers: Breakers, server: str, following: Step) -> Step:
    """Take a place of the server first, and wait for one if there is none."""

    async def step(call: Request) -> Result:
        if gate.busy < gate.places:
            gate.busy += 1
        else:
            refuse_if_open(breakers, server)  # nobody waits for a server that is left alone
            await gate.wait(call)
        try:
            return await following(call)
        finally:
            gate.busy -= 1
            if gate.waiting:
                gate.admit()

    return step


Stay: TypeAlias = list[Any]
"""A native call that holds a place: the gate, and the stay of the call it was made from; emptied when it is over, so
that what it left running does not go on under its place. A list, because it is made for every call."""

_stay: ContextVar[Stay | None] = ContextVar("toolcrib_stay", default=None)


def native(gate: Gate, following: Step) -> Step:
    """A native tool may call others: that takes no further place, or those that hold them all would wait for ever."""

    async def step(call: Request) -> Result:
        outer = _stay.get()
        if outer is not None and holds_place(outer, gate):
            return await following(call)
        if gate.busy < gate.places:
            gate.busy += 1
        else:
            await gate.wait(call)
        stay = [gate, outer]
        _stay.set(stay)
        try:
            return await following(call)
        finally:
            stay.clear()
            gate.busy -= 1
            if gate.waiting:
                gate.admit()
            _stay.set(outer)

    return step


def current_stay() -> Stay | None:
    """The native call this one is made from, if it is."""
    return _stay.get()


def holds_place(stay: Stay | None, gate: Gate) -> bool:
    """Whether a place of the gate is held by the native call this one is made from, or one further out."""
    while stay:
        if stay[0] is gate:
            return True
        stay = stay[1]
    return False


def _rated(gate: Gate, admission: "Admission", following: Step) -> Step:
    admit, renew = admission.admit, admission.renew

    def step(call: Request) -> Awaitable[Result]:
        if not holds_place(_stay.get(), gate):
            gate.check_room(call)
        admit(call)
        call.context.renew = renew
        return following(call)

    return step


class Admission:
    """Counts the calls of one tool, or refuses them."""

    __slots__ = ("_callers", "_clock", "_kinds", "_server", "_sleep", "_windows")

    def __init__(
        self, server: str, kinds: dict[MovingWindow, str], callers: RateWindows | None, clock: Clock, sleep: Sleep
    ) -> None:
        """``kinds`` are the windows of the tool and its server, each with what its limit is one of."""
        self._server, self._kinds, self._windows = server, kinds, tuple(kinds)
        self._callers, self._clock, self._sleep = callers, clock, sleep

    def admit(self, call: Request) -> None:
        """Count a call that is about to run, now."""
        now = self._clock()
        full = use_all(self._all(call, now), now)
        if full is not None:
            raise refusal(call, self._server, self._kinds.get(full, "caller"), full.rate, full.wait_s(now))
        call.context.admitted_at, call.context.rate_left = now, self.left

    def left(self, call: Request) -> int:
        """How many more calls are allowed now, by the narrowest of the rates."""
        now = self._clock()
        return min(window.left(now) for window in self._all(call, now))

    async def renew(self, call: Request) -> None:
        """Count it now instead of then, if it was let in too long ago; where there is no room, it waits for that."""
        context = call.context
        while self._clock() - context.admitted_at > FRESH_S:
            if context.admitted_at != NEVER:
                for window in self._all(call, self._clock()):
                    window.take_back(context.admitted_at)
                context.admitted_at = NEVER
            try:
                self.admit(call)
            except RateLimited as refused:
                await pause(context, refused, self._sleep)

    def _all(self, call: Request, now: float) -> Sequence[MovingWindow]:
        callers = self._callers
        return self._windows if callers is None else (_window_of(callers, call, now), *self._windows)


class LimitBook:
    """All counts of one Crib. They outlive a tool's layers, so that a new configuration forgets nothing."""

    def __init__(self, common: CommonLimits, clock: Clock, sleep: Sleep = asyncio.sleep) -> None:
        self._common, self._clock, self._sleep = common, clock, sleep
        self._callers = RateWindows(common.caller_rate) if common.caller_rate else None
        self._windows: dict[str, MovingWindow] = {}
        self._gates: dict[str, Gate] = {}

    def gate(self, subject: Subject) -> Gate:
        """The places of the subject's server, as many as are configured now."""
        places = subject.offer.limits.parallel or self._common.parallel
        gate = self._gates.get(subject.server)
        if gate is None:
            place = f"server {subject.server!r}" if subject.server else "this process"
            gate = self._gates[subject.server] = Gate(place, places, self._common.queue, self._clock)
        elif gate.places != places:
            gate.resize(places)
        return gate

    def admission(self, subject: Subject) -> Admission | None:
        """What counts a call of the subject, or refuses it; ``None`` if there is nothing to count."""
        limits = subject.offer.limits
        fixed = {
            "server": self._window(f"server {subject.server}", limits.server_rate),
            "tool": self._window(f"{subject.offer.kind} {subject.name}", limits.rate),
        }
        kinds = {window: kind for kind, window in fixed.items() if window is not None}
        if self._callers is None and not kinds:
            return None
        return Admission(subject.server, kinds, self._callers, self._clock, self._sleep)

    def _window(self, key: str, rate: Rate | None) -> MovingWindow | None:
        """The counts of a limit; a changed rate goes on with them, one that was taken away ends them."""
        if rate is None:
            self._windows.pop(key, None)
            return None
        window = self._windows.get(key)
        if window is None:
            window = self._windows[key] = MovingWindow(rate)
        window.change(rate)
        return window


def _window_of(callers: RateWindows, call: Request, now: float) -> MovingWindow:
    window = callers.of(call.caller.id, now)
    if window is None:
        wait_s = callers.room_in_s(now)
        raise RateLimited(
            f"{call.name} was refused: too many callers at once.",
            hint=try_again(wait_s),
            details={"limit": "callers", "retry_after_s": retry_after_s(wait_s)},
        )
    return window


def refusal(call: Request, server: str, kind: str, rate: Rate, wait_s: float) -> RateLimited:
    """What is said of a call beyond a rate."""
    whose = {"caller": f"caller {call.caller.id!r}", "tool": "this tool", "server": f"server {server!r}"}[kind]
    calls = "1 call" if rate.count == 1 else f"{rate.count} calls"
    return RateLimited(
        f"{call.name} was refused: {whose} has used up its {calls} per {rate.window_words}.",
        hint=try_again(wait_s),
        details={"limit": kind, "rate": str(rate), "retry_after_s": retry_after_s(wait_s)},
    )
