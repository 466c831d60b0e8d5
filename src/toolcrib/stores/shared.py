"""What another replica must find: large results, and sessions of clients; and the backend of replicas that have no more
in common than an engine through which they agree."""

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import Self

import msgspec

from toolcrib.config.model import Config, ResultsConfig
from toolcrib.core.coordination import IDLE_S, Coordination, EpochMemory, SessionBook, SessionEntry
from toolcrib.core.errors import CoordinationUnavailable
from toolcrib.stores.local import Backend
from toolcrib.stores.paths import Environment
from toolcrib.stores.results import Results

PERCENT = "Percent-encode what is special in the password: / is %2F, % is %25, @ is %40."
"""For an address that cannot be taken apart: what is left over may be a password, so it is not repeated."""
SHARED_MAX = 4 * 1024 * 1024
"""Larger ones stay where they are: what replicas share is no place for them."""


class _Shared(msgspec.Struct, array_like=True):
    caller: str
    raw: bytes


_shared = msgspec.msgpack.Decoder(_Shared)


class SharedResults:
    """The results of this program, and those that others passed on."""

    def __init__(
        self, own: Results, coordination: Coordination, config: ResultsConfig, clock: Callable[[], float]
    ) -> None:
        self._own, self._coordination, self._config, self._clock = own, coordination, config, clock
        self._passed_on: deque[tuple[float, int]] = deque()
        """When each of those that others still hold ends, and its size."""
        self._space = config.space

    async def keep(self, raw: bytes, caller: str, tool: str) -> str:
        """Put a result aside for this caller, here and, as far as possible, for the other replicas."""
        handle = await self._own.keep(raw, caller, tool)
        packed = msgspec.msgpack.encode(_Shared(caller, raw)) if len(raw) <= SHARED_MAX else None
        if packed is not None and self._has_space(len(packed)):
            with suppress(CoordinationUnavailable):
                await self._coordination.put(_key(handle), packed, self._config.keep_s)
        return handle

    def _has_space(self, size: int) -> bool:
        """Take the space a result needs for as long as it is kept, if there is that much."""
        now = self._clock()
        while self._passed_on and self._passed_on[0][0] <= now:
            self._space += self._passed_on.popleft()[1]
        if size > self._space:
            return False
        self._space -= size
        self._passed_on.append((now + self._config.keep_s, size))
        return True

    async def read(self, handle: str, caller: str) -> bytes | None:
        """The whole result; ``None`` if it is nowhere, not any more, or not this caller's.

        Raises ``CoordinationUnavailable`` while nobody can say whether another replica has it.
        """
        found = await self._own.read(handle, caller)
        if found is not None:
            return found
        packed = await self._coordination.get(_key(handle))
        shared = _shared.decode(packed) if packed is not None else None
        return shared.raw if shared is not None and shared.caller == caller else None


def _key(handle: str) -> str:
    return f"result:{handle[:64]}"


SECRET_S = 90 * 86_400.0
LEAD_S = 5.0
AGAIN_S = 0.05

_entry = msgspec.json.Decoder(SessionEntry)


class SharedSessionBook:
    """Sessions among the values that replicas keep for each other; these forget what is unused by themselves."""

    def __init__(self, coordination: Coordination, idle_s: float = IDLE_S) -> None:
        self._kept, self._idle_s = coordination, idle_s

    async def open(self, entry: SessionEntry) -> None:
        """Write a new session down."""
        await self._kept.put(_name(entry.key), msgspec.json.encode(entry), self._idle_s)

    async def find(self, key: str) -> SessionEntry | None:
        """The session, while it lasts."""
        found = await self._kept.get(_name(key))
        # The mark of the end is another value, so that a use at the same moment cannot undo it.
        if found is None or await self._kept.get(_end_of(key)) is not None:
            return None
        await self._kept.put(_name(key), found, self._idle_s)
        return _entry.decode(found)

    async def touch(self, keys: Collection[str]) -> set[str]:
        """Note that these are in use; those that have ended are returned."""
        return {key for key in keys if await self.find(key) is None}

    async def end(self, key: str) -> bool:
        """End a session for all replicas."""
        found = await self.find(key)
        await self._kept.put(_end_of(key), b"1", self._idle_s)
        await self._kept.forget(_name(key))
        return found is not None

    async def sweep(self) -> None:
        """There is nothing to do."""


async def agree_on_secret(coordination: Coordination, name: str) -> bytes:
    """What only the replicas know, made by the first that asks; kept for as long as one of them was started lately."""
    key = f"secret:{name}"
    while (found := await coordination.get(key)) is None:
        lease = await coordination.lead(key, LEAD_S)
        if lease is None:
            await asyncio.sleep(AGAIN_S)
            continue
        try:
            if await coordination.get(key) is None:
                await coordination.put(key, secrets.token_bytes(32), SECRET_S)
        finally:
            await lease.release()
    await coordination.put(key, found, SECRET_S)
    return found


def _name(key: str) -> str:
    return f"session:{key}"


def _end_of(key: str) -> str:
    return f"session-end:{key}"


SEAL = "seal"
Coordinate = Callable[[EpochMemory | None], Awaitable[Coordination]]
"""Opens an engine that replicas agree through, with a memory that survives it if there is one."""


class SharedBackend(Backend):
    """For replicas with files of their own, which agree through an engine."""

    def __init__(self, config: Config, around: Environment, coordinate: Coordinate) -> None:
        super().__init__(config, around)
        self._coordinate = coordinate

    async def open(self) -> Self:
        """Reach the database, if there is one, and the engine."""
        try:
            await self.reach_store()
            self.coordination = await self._coordinate(self.epoch_memory())
        except BaseException:
            await self.close()
            raise
        return self

    def epoch_memory(self) -> EpochMemory | None:
        """What remembers the engine's epoch for longer than any replica lives."""
        return None

    async def results(self) -> Results | None:
        """Large results; replicas read each other's."""
        own = await super().results()
        if own is None or self.coordination is None:
            return own
        return SharedResults(own, self.coordination, self.config.results, time.monotonic)

    def sessions(self) -> SessionBook | None:
        """Where the sessions of all replicas are written down, once the engine is there."""
        return None if self.coordination is None else SharedSessionBook(self.coordination)

    async def secret(self) -> bytes:
        """What only the replicas know, made by the first of them."""
        if self.coordination is None:
            return b""
        try:
            return await agree_on_secret(self.coordination, SEAL)
        except CoordinationUnavailable:  # then nothing that another replica sealed is taken here
            return b""

    async def close(self) -> None:
        """Let go of everything."""
        try:
            if self.coordination is not None:
                await self.coordination.close()
        finally:
            await super().close()
