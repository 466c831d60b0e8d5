"""What an engine does for the replicas: one decision about many wishes at a time, by its own clock.

The engine keeps an **epoch** beside the counts. Whoever finds it missing, or older than what it has seen, knows that
counts were lost; a new epoch begins, and what is limited stays closed until nothing can be exceeded any more:

- a window of up to ``whole_window_s`` stays closed for as long as it is, from when the loss was noticed;
- a longer one, and places, stay closed for ``settle_s``: in that time every replica that lives puts back what it
  counted and holds. A replica's wishes are not looked at before it has.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any, Protocol, TypeAlias

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
class Known:
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
class Decision:
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


class Engine(Protocol):
    """All of it raises ``CoordinationUnavailable`` and nothing else."""

    name: str

    async def connect(self) -> Known:
        """Make a new connection for decisions; what the engine alone can tell."""

    async def decide(self, known: Known, wishes: Sequence[Wish]) -> Decision:
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


class EpochMemory(Protocol):
    """Where the epoch of an engine is remembered longer than any replica lives. Raises ``StoreUnavailable``."""

    async def recall(self) -> str:
        """The epoch; empty if there never was one."""

    async def remember(self, epoch: str) -> None:
        """Remember this one from now on."""
