"""Large results that can be read at another replica than the one where they were made."""

from contextlib import suppress

import msgspec

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

    def __init__(self, own: ResultStore, coordination: Coordination, keep_s: float) -> None:
        self._own, self._coordination, self._keep_s = own, coordination, keep_s

    async def keep(self, raw: bytes, caller: str, tool: str) -> str:
        """Put a result aside for this caller, here and, as far as possible, for the other replicas."""
        handle = await self._own.keep(raw, caller, tool)
        if len(raw) <= SHARED_MAX:
            with suppress(CoordinationUnavailable):
                await self._coordination.put(_key(handle), msgspec.msgpack.encode(_Shared(caller, raw)), self._keep_s)
        return handle

    async def read(self, handle: str, caller: str) -> bytes | None:
        """The whole result; ``None`` if it is nowhere, not any more, or not this caller's."""
        found = await self._own.read(handle, caller)
        if found is not None:
            return found
        with suppress(CoordinationUnavailable):
            packed = await self._coordination.get(_key(handle))
            shared = _shared.decode(packed) if packed is not None else None
            return shared.raw if shared is not None and shared.caller == caller else None
        return None


def _key(handle: str) -> str:
    return f"result:{handle[:64]}"
