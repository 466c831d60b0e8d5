"""What must be known of a client's session so that another replica can go on with it."""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

IDLE_S = 1800.0
"""How long a session may go unused before it ends."""


@dataclass(frozen=True, slots=True)
class SessionEntry:
    """One session between ``initialize`` and its end; ``key`` opens no door."""

    key: str
    caller: str
    """The id of the caller that opened it: nobody else may go on with it."""
    address: str
    """Where it was opened; what is shown there is what it may use."""
    version: str
    """The protocol revision both sides speak."""
    opened_at: float
    """In seconds since 1970."""
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    info: Any = None
    """What the client says of itself."""


def session_key(session_id: str) -> str:
    """The name of a session where others could read it; its id lets a client in, so that is kept nowhere."""
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
