"""Deadline: a call that takes too long is cancelled. Replay: one whose connection was lost is made again if safe.
Freshen: behind a call, its server is asked for its tools again if that was long ago."""

import asyncio
import math
from collections.abc import Awaitable, Callable

import msgspec

from toolcrib.calls.pipeline import Layer, Step, Subject
from toolcrib.core.errors import CallTimeout, ConnectionLost, OutcomeUnknown
from toolcrib.core.limits import retry_after_s, try_again
from toolcrib.core.offers import RequestKind
from toolcrib.core.requests import Request, RequestContext, Result

SWEEP_S = 0.25
PRECISE_BELOW_S = 2.0


def deadline(default_s: float, total_s: float = math.inf) -> Layer:
    """The caller's own limit counts first, then the tool's, then ``default_s``.

    A call that tells how far it is may go on for as long again each time, up to ``total_s``; not beyond a limit that
    its caller set.
    """
    alarms = Alarms()

    def layer(subject: Subject, following: Step) -> Step:
        usual_s = subject.offer.timeout_s or default_s
        is_default, patience = usual_s == default_s, (usual_s, total_s)

        async def step(call: Request) -> Result:
            call.context.time_limit_s = timeout_s = call.timeout_s or usual_s
            alarm = alarms.set(timeout_s, call.context)
            if call.timeout_s is None:
                alarm.is_default, alarm.patience = is_default, patience
            try:
                return await following(call)
            except asyncio.CancelledError:
                if not alarm.settles_cancellation():
                    raise
                raise _late(call, timeout_s) from None
            finally:
                alarms.clear(alarm)

        return step

    return layer


def _late(call: Request, timeout_s: float) -> CallTimeout:
    """A call that ran too long; or one that waited in vain, which has to be said: its tool can do nothing for it."""
    waits_for = call.context.waits_for
    if not waits_for and call.timeout_s is None and call.context.progressed_at:
        return CallTimeout(
            f"{call.name} told how far it was, and then did not finish within its time and was cancelled.",
            hint="Ask for less at once, or raise the timeouts ([calls] timeout and timeout_total).",
            details={"timeout_s": timeout_s},
        )
    if call.context.runs_on:
        return CallTimeout(
            f"{call.name} did not finish within {timeout_s:g} s. Nobody waits for it any more, but its thread runs on"
            " until the function returns: it may still have its effect.",
            hint="Look whether it had, before you call it again. An async function, or an isolated one, can be ended.",
            details={"timeout_s": timeout_s, "runs_on": True},
        )
    if not waits_for:
        return CallTimeout(
            f"{call.name} did not finish within {timeout_s:g} s and was cancelled.",
            hint="Ask for less at once, or raise the timeout.",
            details={"timeout_s": timeout_s},
        )
    return CallTimeout(
        f"{call.name} {waits_for} within {timeout_s:g} s.",
        hint=try_again(timeout_s),
        details={"timeout_s": timeout_s, "retry_after_s": retry_after_s(timeout_s)},
    )


class Alarm(msgspec.Struct, eq=False):
    """One deadline of one call and the task that runs it."""

    _task: asyncio.Task[object]
    _context: RequestContext
    _earlier: int
    """How often the task was cancelled before."""
    due: float
    timer: asyncio.TimerHandle | None = None
    rang: bool = False
    _granted_s: float = 0.0
    """By how much it was put off already."""
    is_default: bool = False
    """Whether nobody set this limit for the tool: it is about how long a caller waits, and some do not."""
    patience: tuple[float, float] | None = None
    """How long it may go on after each word of how far it is, and in all; ``None``: no longer for that."""
    _latest: float = 0.0

    def is_put_off(self, now: float) -> bool:
        """Whether it is not due yet after all: the call waits, or waited, for people to answer its server; or its
        caller does not wait for it, and asks for its result later."""
        context = self._context
        if self.is_default and context.may_last_until > now:
            return True
        if context.asked_s > self._granted_s:
            self.due += context.asked_s - self._granted_s
            self._granted_s = context.asked_s
        if self.patience is not None and context.progressed_at:
            self._follow_progress(context.progressed_at, *self.patience)
        return context.asking > 0 or self.due > now

    def _follow_progress(self, at: float, idle_s: float, total_s: float) -> None:
        self._latest = self._latest or self.due - idle_s + total_s
        self.due = max(self.due, min(at + idle_s, self._latest))

    def ring_when_due(self, loop: asyncio.AbstractEventLoop) -> None:
        """Ring, or look again later."""
        now = loop.time()
        if self.is_put_off(now):
            self.timer = loop.call_later(max(SWEEP_S, self.due - now), self.ring_when_due, loop)
        else:
            self.ring()

    def ring(self) -> None:
        """Cancel the task that runs the call."""
        self.rang = self._context.is_late = True
        self._task.cancel()

    def settles_cancellation(self) -> bool:
        """Take our own cancellation back, once; whether it was the only one: one from outside as well goes on."""
        if not self.rang:
            return False
        self.rang = False
        return self._task.uncancel() <= self._earlier


class Alarms:
    """All deadlines under way. ``asyncio.timeout`` does the same at many times the cost, on every call: here, long
    deadlines share one timer and ring up to a quarter of a second late; short ones have their own."""

    def __init__(self) -> None:
        self._set: set[Alarm] = set()
        self._sweeping = False

    def set(self, timeout_s: float, context: RequestContext) -> Alarm:
        """An alarm for a call, in the task that is running now."""
        # Asking for the running loop, as `current_task` does, is a system call before Python 3.12: 5 % of a call.
        task = context.task or asyncio.current_task()
        assert task is not None
        loop = task.get_loop()
        alarm = Alarm(task, context, task.cancelling(), loop.time() + timeout_s)
        if timeout_s < PRECISE_BELOW_S:
            alarm.timer = loop.call_at(alarm.due, alarm.ring_when_due, loop)
            return alarm
        self._set.add(alarm)
        if not self._sweeping:
            self._sweeping = True
            loop.call_later(SWEEP_S, self._sweep, loop)
        return alarm

    def clear(self, alarm: Alarm) -> None:
        """The call is over, and a cancellation that comes from here with it."""
        self._set.discard(alarm)
        if alarm.timer is not None:
            alarm.timer.cancel()
        if alarm.rang:
            alarm.settles_cancellation()

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for alarm in [alarm for alarm in self._set if alarm.due <= now and not alarm.is_put_off(now)]:
            self._set.discard(alarm)
            alarm.ring()
        self._sweeping = bool(self._set)
        if self._sweeping:
            loop.call_later(SWEEP_S, self._sweep, loop)


Sleep = Callable[[float], Awaitable[object]]
PAUSE_FIRST_S = 0.05
PAUSE_MAX_S = 4.0


def replay(sleep: Sleep = asyncio.sleep) -> Layer:
    """Again, until its time is over, if the request was never sent or the tool is read-only or idempotent; otherwise
    say that the outcome is unknown."""

    def layer(subject: Subject, following: Step) -> Step:
        if not subject.server:
            return following
        # To ask twice how work stands, or to end it, changes nothing; it forgets no answer that it was given twice.
        may_repeat = subject.offer.is_replayable or subject.kind is RequestKind.TASK

        async def step(call: Request) -> Result:
            try:
                return await following(call)
            except ConnectionLost as lost:
                if call.context.sent and not may_repeat:
                    raise _unknown(call, lost) from lost
            return await _repeat(call, call.context)

        async def _repeat(call: Request, context: RequestContext) -> Result:
            """At once at first, then with pauses: a call that is the end of every server it meets does not get many."""
            pause_s = 0.0
            while True:
                context.sent = False
                try:
                    return await following(call)
                except ConnectionLost as lost:
                    if context.sent and not may_repeat:
                        raise _unknown(call, lost) from lost
                    context.waits_for = (
                        f"got no answer: {lost.message.rstrip('.')}, again and again, and no answer came"
                    )
                pause_s = min(PAUSE_MAX_S, max(PAUSE_FIRST_S, pause_s * 2))
                await sleep(pause_s)
                context.waits_for = ""

        return step

    return layer


def freshen() -> Layer:
    """Renew the listing behind the calls, for clients that call and never list; a call does not wait for it."""

    def layer(subject: Subject, following: Step) -> Step:
        renew = subject.renew
        if renew is None:
            return following

        def step(call: Request) -> Awaitable[Result]:
            renew()
            return following(call)

        return step

    return layer


def _unknown(call: Request, lost: ConnectionLost) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"The connection was lost while {call.name} was running: {lost.message} Its outcome is unknown.",
        hint="Check whether it took effect before calling it again.",
        details=lost.details | {"outcome": "unknown"},
    )
