"""When a server that went away, or never came up, is tried again, and whether calls wait for that."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from toolcrib.sources.mcp.installing import Fetch, InstallQueue
from toolcrib.sources.mcp.link import Link, LinkEvents
from toolcrib.sources.mcp.redactor import NO_SECRETS, Redactor

STABLE_AFTER_S = 10.0
BACKOFF_FIRST_S = 0.5
BACKOFF_MAX_S = 30.0
GRACE_S = 20.0
"""For so long calls wait for a server that answered calls before it went away."""
PAUSE_WAITED_S = 5.0
"""A pause up to this long is waited out by the calls that meet it, if the server had come up at all."""
RESTART_DELAYS_S = (0.0, 0.0, 0.2, 0.5)
"""Pauses before the attempts to bring back a server that is known to be good."""


Dial = Callable[[LinkEvents], Awaitable[Link]]


@dataclass(frozen=True, slots=True)
class SupervisorSettings:
    """How patiently a server is brought up and how long it may idle."""

    delays_s: tuple[float, ...] = (0.0, 2.0, 4.0)
    """Pause before each attempt; as many attempts as entries."""
    handshake_timeout_s: float = 30.0
    idle_timeout_s: float = 600.0
    redactor: Redactor = NO_SECRETS
    """Takes the secrets out of everything the server says."""
    fallback: Dial | None = None
    """Another way to the server, for one that refuses messages on the first; kept as long as it works."""
    fetch: Fetch | None = None
    """What its command fetches before it runs."""
    installs: InstallQueue | None = None
    """Whose turn it is to do so."""
    first_answer_timeout_s: float | None = None
    """How long an attempt waits for the first answer; ``None``: as for the whole handshake."""


class Comeback:
    """What one server's losses and failed attempts say about the next attempt.

    A server that answered a call is good: it is started again at once, as often as it takes, and calls wait for it.
    Pauses grow only for one that cannot be started, or that dies without having answered.
    """

    __slots__ = ("_blocked_until", "_failures", "_good_until", "_was_lost", "has_answered")

    def __init__(self) -> None:
        self.has_answered = False
        """Whether a call was answered over the present connection; set for every answer, so a plain attribute."""
        self._failures = 0
        self._blocked_until = self._good_until = 0.0
        self._was_lost = False
        """Whether it was last seen to go away, rather than not to come up."""

    def wait_s(self, now: float) -> float:
        """How long until it may be tried again."""
        return max(0.0, self._blocked_until - now)

    def is_awaited(self, now: float) -> bool:
        """Whether calls wait for it rather than being refused."""
        return now < self._good_until or (self._was_lost and self.wait_s(now) <= PAUSE_WAITED_S)

    def is_known_good(self, now: float) -> bool:
        """Whether it answered calls until lately."""
        return now < self._good_until

    def note_connected(self) -> None:
        """There is a new connection, over which nothing was answered yet."""
        self.has_answered = False

    def note_loss(self, now: float, lasted_s: float) -> None:
        """A connection ended by itself; one that was of use, or that held for a while, leaves no record behind."""
        self._was_lost = True
        if self.has_answered:
            self._good_until = now + GRACE_S
        if self.has_answered or lasted_s >= STABLE_AFTER_S:
            self._failures, self._blocked_until = 0, 0.0
            return
        is_first = self._failures == 0
        self._back_off(now)
        if is_first:
            self._blocked_until = 0.0

    def note_failed_attempts(self, now: float, *, is_final: bool) -> None:
        """It could not be brought up; ``is_final``: nor will it be before somebody changes something."""
        self._was_lost = False
        if is_final:
            self._good_until = 0.0
        self._back_off(now)

    def forgive(self) -> None:
        """Forget past failures."""
        self._failures, self._blocked_until = 0, 0.0

    def _back_off(self, now: float) -> None:
        self._blocked_until = now + min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2**self._failures)
        self._failures += 1
