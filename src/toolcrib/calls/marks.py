"""Small facts that hold for a while at every replica: what was used up, what was allowed for a session."""

import hashlib
from contextlib import suppress
from dataclasses import dataclass, field

from toolcrib.core.access import Caller
from toolcrib.core.coordination import IDLE_S, Claim, Coordination
from toolcrib.core.errors import CoordinationUnavailable
from toolcrib.core.limits import Rate


@dataclass(frozen=True, slots=True)
class Marks:
    """What replicas remember for each other; what cannot be looked up does not hold, so a person is asked again."""

    coordination: Coordination
    secret: bytes = field(repr=False)
    """What only the replicas know, to sign with."""

    async def spend(self, name: str, for_s: float) -> bool:
        """Consume a one-time value; true if this was the first time. Raises while the engine is away."""
        return await self.coordination.use([Claim(f"once:{name}", Rate(1, for_s))]) is None

    async def note(self, name: str, for_s: float) -> None:
        """Let something hold, as far as the others can be told."""
        with suppress(CoordinationUnavailable):
            await self.coordination.put(f"mark:{name}", b"1", for_s)

    async def holds(self, name: str) -> bool:
        """Whether something holds."""
        try:
            return await self.coordination.get(f"mark:{name}") is not None
        except CoordinationUnavailable:
            return False

    async def allow_session(self, caller: Caller, tool: str) -> None:
        """A person allowed a tool for as long as this session lasts."""
        if caller.session:
            await self.note(_session(caller, tool), IDLE_S)

    async def is_allowed(self, caller: Caller, tool: str) -> bool:
        """Whether a person did; while it is used it does not end."""
        if not caller.session or not await self.holds(_session(caller, tool)):
            return False
        await self.allow_session(caller, tool)
        return True


def _session(caller: Caller, tool: str) -> str:
    """The id of a session lets its client in, so only a hash goes out."""
    return "session:" + hashlib.sha256(f"{caller.id}\0{caller.session}\0{tool}".encode()).hexdigest()
