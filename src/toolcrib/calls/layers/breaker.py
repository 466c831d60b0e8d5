"""Breaker: a server that keeps failing is left alone for a while, instead of making every caller wait for it."""

import asyncio
from collections.abc import Callable

from toolcrib.calls.pipeline import Layer, Step, Subject
from toolcrib.core import events
from toolcrib.core.errors import (
    CallTimeout,
    ConnectionLost,
    OutcomeUnknown,
    ProtocolError,
    RemoteError,
    SignInNeeded,
    SourceUnavailable,
    ToolcribError,
    ToolFailed,
)
from toolcrib.core.events import Emit, Event
from toolcrib.core.limits import retry_after_s, try_again
from toolcrib.core.requests import Request, Result

FAILURES_MAX = 5
PAUSE_FIRST_S = 1.0
PAUSE_MAX_S = 60.0
WORDS_MAX = 300

CLOSED, OPEN, HALF_OPEN = "closed", "open", "half-open"


class Breaker:
    """Counts failures of the server itself; ``FAILURES_MAX`` in a row open it, one success closes it."""

    __slots__ = ("_is_trying", "_pause_s", "_until", "failures", "last", "round")

    def __init__(self) -> None:
        self.failures = 0
        self.last = ""
        """The latest failure, in its own words."""
        self.round = 0
        """Grows with each failure; a call remembers it, so that one loss is not counted for each call it ended."""
        self._is_trying = False
        self._pause_s = PAUSE_FIRST_S
        self._until = 0.0

    @property
    def is_closed(self) -> bool:
        """Whether calls pass without being looked at."""
        return self.failures < FAILURES_MAX

    def state(self, now: float) -> str:
        """``closed``, ``open``, or ``half-open`` when one call is, or would be, let through to see."""
        if self.is_closed:
            return CLOSED
        return HALF_OPEN if now >= self._until else OPEN

    def wait_s(self, now: float) -> float:
        """How long until a call would be let through; while one is trying, nobody knows, so a first pause."""
        if self.is_closed:
            return 0.0
        return PAUSE_FIRST_S if self._is_trying else max(0.0, self._until - now)

    def begin_try(self, now: float) -> bool:
        """Whether this call may be the one that is let through; it then has to say how it ended."""
        if self._is_trying or now < self._until:
            return False
        self._is_trying = True
        return True

    def end_try(self) -> None:
        """The call that was let through ended without telling anything of the server; the next one may try."""
        self._is_trying = False

    def succeed(self) -> None:
        """The server did what it was asked."""
        self.failures, self._pause_s, self._until, self._is_trying = 0, PAUSE_FIRST_S, 0.0, False

    def fail(self, words: str, now: float, *, was_try: bool = False) -> bool:
        """Count a failure; whether it opened the breaker. Stragglers of an open one change nothing."""
        self.last = words[:WORDS_MAX]
        self.round += 1
        if not self.is_closed and not was_try:
            return False
        if not self.is_closed:
            self._is_trying = False
            self._pause_s = min(PAUSE_MAX_S, self._pause_s * 2)
        self.failures += 1
        self._until = now + self._pause_s
        return not self.is_closed

    def standing(self, now: float) -> tuple[str, float]:
        """Its state, and for how many seconds it still keeps calls away."""
        wait_s = self.wait_s(now)
        return self.state(now), retry_after_s(wait_s) if wait_s else 0.0


class Breakers:
    """The breakers of all servers, by name; the names are those of the configuration."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._breakers: dict[str, Breaker] = {}

    def of(self, server: str) -> Breaker:
        """The breaker of one server, closed at first."""
        found = self._breakers.get(server)
        if found is None:
            found = self._breakers[server] = Breaker()
        return found

    def forgive(self, server: str) -> None:
        """Forget what happened: the next call passes."""
        if server in self._breakers:
            self._breakers[server].succeed()

    def standing(self, server: str) -> tuple[str, float]:
        """The state of a server's breaker, and for how many seconds it still keeps calls away."""
        return self.of(server).standing(self.clock())


FAULTS = (SourceUnavailable, ProtocolError, CallTimeout)
LOSSES = (ConnectionLost, OutcomeUnknown)
"""A server that went away makes nobody wait here: it is started again, and how soon is decided there."""
ANSWERS = (RemoteError, ToolFailed, SignInNeeded)
"""What a server that works says of a call it cannot do."""


def breaker(breakers: Breakers, emit: Emit) -> Layer:
    """Count what a server itself does wrong; native tools have no breaker."""

    def layer(subject: Subject, following: Step) -> Step:
        if not subject.server:
            return following
        watch = BreakerWatch(subject, breakers, emit)
        own = watch.breaker

        async def step(call: Request) -> Result:
            is_try = own.failures >= FAILURES_MAX and watch.begin_try()
            began = own.round
            try:
                result = await following(call)
            except BaseException as error:
                watch.judge(call, error, began, is_try=is_try)
                raise
            if own.failures:
                watch.note_success()
            return result

        return step

    return layer


def refuse_if_open(breakers: Breakers, server: str) -> None:
    """Refuse a call that would be refused anyway once it had its place."""
    found = breakers.of(server)
    if found.wait_s(breakers.clock()) > 0:
        raise refusal(server, found, breakers.clock())


def refusal(server: str, found: Breaker, now: float) -> SourceUnavailable:
    """What is said instead of asking the server."""
    wait_s = found.wait_s(now)
    return SourceUnavailable(
        f"Server {server!r} failed {found.failures} times in a row and is left alone; last: {found.last}",
        hint=try_again(wait_s),
        details={"server": server, "breaker": found.state(now), "retry_after_s": retry_after_s(wait_s)},
    )


class BreakerWatch:
    """Judges how the calls of one tool ended, for the breaker of its server."""

    def __init__(self, subject: Subject, breakers: Breakers, emit: Emit) -> None:
        self._server, self._usual_s = subject.server, subject.offer.timeout_s or 0.0
        self._clock, self._emit = breakers.clock, emit
        self.breaker = breakers.of(subject.server)

    def begin_try(self) -> bool:
        """Be the one call that is let through, or be refused."""
        now = self._clock()
        if not self.breaker.begin_try(now):
            raise refusal(self._server, self.breaker, now)
        return True

    def note_success(self) -> None:
        """The server answered; even the tool's own failure is an answer."""
        was_closed = self.breaker.is_closed
        self.breaker.succeed()
        if not was_closed:
            self._emit(Event(events.SERVER_RESUMED, fields={"server": self._server}))

    def judge(self, call: Request, error: BaseException, began: int, *, is_try: bool) -> None:
        """Whose fault it was: the server's, or not. What goes wrong in a lane that others do not share keeps nobody
        away: its own supervisor knows when to try again."""
        if call.context.is_in_lane:
            if is_try:
                self.breaker.end_try()
        elif isinstance(error, asyncio.CancelledError) and call.context.is_late and self._had_its_time(call):
            self._note_failure(f"it did not answer {call.target} in time.", is_try=is_try)
        elif isinstance(error, ANSWERS):
            self.note_success()
        elif isinstance(error, FAULTS) and not isinstance(error, LOSSES) and self._is_news(error, began, is_try=is_try):
            self._note_failure(error.message, is_try=is_try)
        elif is_try:
            self.breaker.end_try()

    def _is_news(self, error: ToolcribError, began: int, *, is_try: bool) -> bool:
        """Not a refusal by somebody who knows better when to try again; and not one loss for every call it ended."""
        return "retry_after_s" not in error.details and (is_try or began == self.breaker.round)

    def _had_its_time(self, call: Request) -> bool:
        """A caller in a hurry, or one that waited long for its place, proves nothing against the server."""
        return (call.timeout_s or self._usual_s) - call.context.waited_s >= self._usual_s / 2

    def _note_failure(self, words: str, *, is_try: bool) -> None:
        now = self._clock()
        if self.breaker.fail(words, now, was_try=is_try):
            fields = {
                "server": self._server,
                "failures": self.breaker.failures,
                "seconds": retry_after_s(self.breaker.wait_s(now)),
                "error": self.breaker.last,
            }
            self._emit(Event(events.SERVER_PAUSED, "warning", fields))
