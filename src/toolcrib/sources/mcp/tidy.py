"""Results of servers as every client can read them."""

import asyncio

from toolcrib.core import links
from toolcrib.core.errors import ProtocolError
from toolcrib.isolate.helpers import Helpers, TookTooLong
from toolcrib.wire import eras, strict
from toolcrib.wire.results import LARGE_BYTES, ResultHead


class ResultTidier:
    """Looks into the results of one server; into large ones in turns of the loop, or in a process beside it."""

    def __init__(self, server: str, helpers: Helpers | None) -> None:
        self._server, self._helpers, self._has_own_helpers = server, helpers or Helpers(), helpers is None

    async def tidy(self, encoded: bytes, head: ResultHead) -> bytes:
        """The result of a call; each look at a large one is a turn of the loop of its own."""
        if len(encoded) <= LARGE_BYTES:
            try:
                return strict.tidy(encoded, head)
            except strict.Unreadable as flaw:
                raise _unreadable(flaw) from None
        for is_suspicious in strict.suspicions(encoded, head):
            if is_suspicious:
                return await self._tidied_beside(strict.TIDY, encoded)
            await asyncio.sleep(0)
        return encoded

    async def tidy_other(self, encoded: bytes, to: links.Translate) -> bytes:
        """What was read, got or completed, with the URIs that clients know."""
        if len(encoded) <= LARGE_BYTES:
            if flaw := strict.flaw_of(encoded):
                raise _unreadable(flaw)
        else:
            for is_suspicious in strict.looks(encoded):
                if is_suspicious:
                    await self._tidied_beside(strict.LOOK, encoded)
                    break
                await asyncio.sleep(0)
        return links.translate_result(encoded, to, is_call=False, reserved=eras.META_RESERVED)

    async def _tidied_beside(self, work: str, encoded: bytes) -> bytes:
        try:
            return strict.tidied(encoded, await self._helpers.run(work, (encoded,), self._server))
        except strict.Unreadable as flaw:
            raise _unreadable(flaw) from None
        except TookTooLong:
            raise _unreadable("it takes too long to look into") from None

    async def close(self) -> None:
        """End the processes that only this server used."""
        if self._has_own_helpers:
            await self._helpers.close()


def _unreadable(flaw: object) -> ProtocolError:
    return ProtocolError(f"The server's answer cannot be read by every client: {flaw}.")
