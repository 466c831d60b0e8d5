"""What the replicas of one fleet agree on while they run: quick, shared, and never the only copy."""

import hashlib
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from toolcrib.core.limits import Rate

Listener = Callable[[bytes], None]
Unsubscribe = Callable[[], Awaitable[None]]


class Claim(msgspec.Struct, frozen=True):
    """One use of something that is limited: whose count it goes to, and how much there may be."""

    key: str
    rate: Rate


class Full(msgspec.Struct, frozen=True):
    """The claim that could not be met, and how long it takes until it might be."""

    claim: Claim
    wait_s: float


class CoordinationStatus(msgspec.Struct, frozen=True):
    """How it is doing."""

    engine: str = "none"
    """``redis``, ``postgresql``, ``memory`` or ``none``."""
    replica: str = ""
    """What this process is called among the others."""
    problem: str = ""
    """Why the others cannot be reached right now; empty if they can."""
    away_s: float = 0.0
    """For how long they could not be reached."""
    settling_s: float = 0.0
    """How long limits stay closed because what was counted got lost."""


class Lease(Protocol):
    """Something only one replica does at a time; it ends when it is let go, or when its holder dies."""

    async def release(self) -> None:
        """Let another one do it."""


class Coordination(Protocol):
    """What replicas share. All of it raises ``CoordinationUnavailable`` while the engine cannot be reached."""

    async def use(self, claims: Sequence[Claim]) -> Full | None:
        """Count one use of every claim, or of none: then the one that takes longest to have room is returned.

        In no stretch of a claim's window, wherever it begins and by the engine's own clock, are more uses counted
        than its rate allows, over all replicas and also after the engine has lost its data.
        """

    async def take_place(self, gate: str, places: int) -> str | None:
        """A place out of so many, as a ticket; ``None`` if all are taken, or it is another replica's turn.

        Whoever gets none stands in a line of replicas from then on, in which ``on_free`` waits; asking again does not
        lose the turn. A replica that dies gives its places back after a while; one that lives keeps them, however long
        it takes. A wish that is cancelled leaves neither a place nor a turn.
        """

    def give_back(self, gate: str, ticket: str) -> None:
        """Give a place back; never waits."""

    async def on_free(self, gate: str, seconds: float) -> None:
        """Return when a place may have become free, at the latest after that time; it may be sooner, and in vain.

        Whoever is cancelled in it leaves the line.
        """

    async def lead(self, name: str, for_s: float) -> Lease | None:
        """Be the only one who does something; ``None`` if another replica does it now.

        The lease is kept until it is let go; if its holder dies it ends after that time. When the engine lost its data,
        or was away for longer than that, two may do it at once: for saving work, not for safety.
        """

    async def publish(self, topic: str, body: bytes) -> None:
        """Tell all other replicas that listen; none is told twice, and those that are away are not told."""

    async def subscribe(self, topic: str, listener: Listener, on_gap: Callable[[], None]) -> Unsubscribe:
        """Be told of what other replicas publish; ``on_gap`` is called when something may have been missed.

        It alone does not fail while the engine is away: then ``on_gap`` says when it begins.
        """

    async def put(self, key: str, value: bytes, ttl_s: float) -> None:
        """Keep a value for a while, for all replicas."""

    async def get(self, key: str) -> bytes | None:
        """The value, if it is still kept."""

    async def forget(self, key: str) -> None:
        """Keep a value no longer."""

    def status(self) -> CoordinationStatus:
        """How it is doing; asks nobody."""

    async def close(self) -> None:
        """Let go of everything."""


class EpochMemory(Protocol):
    """Where the epoch of an engine is remembered longer than any replica lives. Raises ``StoreUnavailable``."""

    async def recall(self) -> str:
        """The epoch; empty if there never was one."""

    async def remember(self, epoch: str) -> None:
        """Remember this one from now on."""


IDLE_S = 1800.0
"""How long a session may go unused before it ends."""


class SessionEntry(msgspec.Struct, frozen=True):
    """One MCP session; ``key`` names it, but cannot be used to enter it."""

    key: str
    caller: str
    """The id of the caller that opened it: nobody else may go on with it."""
    address: str
    """Where it was opened; what is shown there is what it may use."""
    version: str
    """The protocol revision both sides speak."""
    opened_at: float
    """In seconds since 1970."""
    capabilities: Mapping[str, Any] = {}
    info: Any = None
    """What the client says of itself."""


def session_key(session_id: str) -> str:
    """A hash that names a session in shared storage; the id itself is a credential and is never stored."""
    return hashlib.sha256(session_id.encode()).hexdigest()[:40]


class SessionBook(Protocol):
    """The sessions of all replicas; raises ``StoreUnavailable`` or ``CoordinationUnavailable`` while it cannot tell."""

    async def open(self, entry: SessionEntry) -> None:
        """Write a new session down; returns when every replica can find it."""

    async def find(self, key: str) -> SessionEntry | None:
        """The session, unless it has ended or was unused for too long; being looked for is being used."""

    async def touch(self, keys: Collection[str]) -> set[str]:
        """Note that these are in use; those that have ended are returned."""

    async def end(self, key: str) -> bool:
        """End a session for all replicas; whether there was one."""

    async def sweep(self) -> None:
        """Forget what was unused for too long."""
