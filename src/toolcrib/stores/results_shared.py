"""Large results that can be read at another replica than the one where they were made."""

from collections import deque
from collections.abc import Callable
from contextlib import suppress

import msgspec

from toolcrib.config.model import ResultsConfig
from toolcrib.core.coordination import Coordination
from toolcrib.core.errors import CoordinationUnavailable
from toolcrib.stores.results import ResultStore

SHARED_MAX = 4 * 1024 * 1024
"""Larger ones stay where they are: what replicas share is no place for them."""


class _Shared(msgspec.Struct, array_like=True):
    caller: str
    raw: bytes


_shared = msgspec.msgpack.Decoder(_Shared)


class SharedResults:
    """The results of this program, and those that others passed on."""

    def __init__(
        self, own: ResultStore, coordination: Coordination, config: ResultsConfig, clock: Callable[[], float]
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
