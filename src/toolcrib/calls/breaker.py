"""The breaker of one server: after failures in a row it is left alone for a while. Pure: the time comes in."""

from collections.abc import Callable
from typing import Any

from toolcrib.core.limits import retry_after_s

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

    def to_dict(self, now: float) -> dict[str, Any]:
        """For the health page."""
        wait_s = self.wait_s(now)
        return {"breaker": self.state(now), "retryAfterSeconds": retry_after_s(wait_s) if wait_s else 0.0}


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

    def health(self, server: str) -> dict[str, Any]:
        """How the breaker of a server stands."""
        return self.of(server).to_dict(self.clock())
