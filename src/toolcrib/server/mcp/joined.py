"""MCP over a Unix socket, for a ``toolcrib stdio`` that joined this process: the same door as on stdin and stdout.

The other end is our own pipe, so there are words between it and this door that no client sees: lines that begin with
``CONTROL``, which begins no JSON. When the process before this one was killed, the pipe replays what its client had
said, and names the requests that may have been run already.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec

from toolcrib.core.access import Caller
from toolcrib.core.errors import OutcomeUnknown
from toolcrib.core.events import Stay
from toolcrib.core.offers import RequestKind
from toolcrib.core.requests import Result
from toolcrib.server.mcp.channel import ClientChannel
from toolcrib.server.mcp.news import LIST_CHANGED, subscription_meta, wanted_notices
from toolcrib.server.mcp.outcomes import encode_outcome, told
from toolcrib.server.mcp.service import McpService
from toolcrib.server.mcp.sessions import client_name, public_id
from toolcrib.server.mcp.stdio import StdioDoor
from toolcrib.wire import messages
from toolcrib.wire.jsonrpc import INTERNAL_ERROR, Inbound, RequestId, RpcError, encode_error, encode_result
from toolcrib.wire.messages import Asker

CONTROL = b"\x01"
HARM = {
    "tools/call": (RequestKind.CALL, "name"),
    "resources/read": (RequestKind.READ, "uri"),
    "prompts/get": (RequestKind.GET, "name"),
}
"""What is run by a server, and could do something twice."""


class FromPipe(msgspec.Struct, frozen=True):
    """A word of the pipe's own."""

    end: bool = False
    """The client said all it has to say; what is under way is still answered."""
    repeated: tuple[RequestId, ...] = ()
    """Requests that follow, and that may have been run by the process before this one."""


class ToPipe(msgspec.Struct, frozen=True, omit_defaults=True):
    """A word to the pipe."""

    bye: bool = False
    """This process ends; nothing more is taken, what is under way is still answered."""
    again: bool = False
    """Another one follows at once."""


class JoinedDoor(StdioDoor):
    """One joined client."""

    def __init__(
        self, mcp: McpService, caller: Caller, *, is_again: bool, on_end: Callable[["JoinedDoor"], None]
    ) -> None:
        super().__init__(mcp, caller)
        self._is_again, self._on_end = is_again, on_end
        self._repeated: set[RequestId] = set()
        self._said_all = False
        self._began = self._last = asyncio.get_running_loop().time()
        self._transport: asyncio.Transport | None = None

    def take_over(self, transport: asyncio.Transport) -> None:
        """Go on with a connection whose first line was read."""
        self._transport = transport
        self.out.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Take what came through the pipe."""
        self._last = asyncio.get_running_loop().time()
        super().data_received(data)

    def eof_received(self) -> bool:
        """The pipe says no more: in good order, or because it was killed with its client."""
        if not self._said_all:
            for request_id in list(self._running):
                self.cancel(request_id)
        self.finish()
        return True

    def finish(self) -> None:
        """Take no more; end when what is under way is answered."""
        StdioDoor.connection_lost(self, None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is there any more who would read an answer."""
        for request_id in list(self._running):
            self.cancel(request_id)
        self.out.connection_lost(exc)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """asyncio: the client is behind."""

    def resume_writing(self) -> None:
        """asyncio: the client reads again."""
        self.out.resume_writing()

    def _end_if_done(self) -> None:
        super()._end_if_done()
        if self.ended.is_set():
            self._on_end(self)

    async def finished(self) -> None:
        """Take no more; returns when what is under way is answered."""
        self.finish()
        await self.ended.wait()

    def say(self, word: ToPipe) -> None:
        """Tell the pipe something."""
        self.out.send(CONTROL + msgspec.json.encode(word))

    def stay(self) -> Stay:
        """This client, for display."""
        now, asker = asyncio.get_running_loop().time(), self._asker
        idle_s = 0.0 if self._running or self._subscriptions else now - self._last
        name, version = (client_name(asker), asker.version) if asker is not None else ("", "")
        return Stay(public_id(self.caller.session), name, version, self.caller, now - self._began, idle_s, self.dismiss)

    def dismiss(self) -> None:
        """End the connection."""
        if self._transport is not None:
            self._transport.abort()

    def _receive(self, line: bytes) -> None:
        if not line.startswith(CONTROL):
            super()._receive(line)
            return
        word = msgspec.json.decode(line[1:], type=FromPipe)
        self._said_all = self._said_all or word.end
        self._repeated.update(word.repeated)

    async def _greet(self, request_id: RequestId, asker: Asker) -> None:
        """Answer a handshake; one that is repeated for the client is followed by what may have changed meanwhile."""
        await super()._greet(request_id, asker)
        if self._is_again:
            for method in dict.fromkeys(LIST_CHANGED.values()):
                self.tell(method, {})

    async def _respond(self, message: Inbound, asker: Asker, channel: ClientChannel) -> bytes:
        """Answer a request; one that may have been run already is only run again if that does no harm."""
        if message.id not in self._repeated or message.method not in HARM:
            return await super()._respond(message, asker, channel)
        kind, field = HARM[str(message.method)]
        name = str(messages.request_params(message).get(field))
        if await self._may_repeat(kind, name):
            return await super()._respond(message, asker, channel)
        return _unknown(message, asker, name)

    async def _may_repeat(self, kind: RequestKind, name: str) -> bool:
        """Whether it does no harm to do it twice, by what its server or the configuration says of it now."""
        front = self.mcp.front
        await front.current()
        route = front.catalog.find(kind, front.crib.resource_name(name) if kind is RequestKind.READ else name)
        return route is not None and route.offer.is_replayable

    def _acknowledge(self, request_id: RequestId, honoured: Mapping[str, Any]) -> None:
        """Begin a subscription: a repeated one was acknowledged before, and is told what may have changed since."""
        if request_id not in self._repeated:
            super()._acknowledge(request_id, honoured)
            return
        for method in wanted_notices(honoured):
            self.tell(method, {"_meta": subscription_meta(request_id)})


def _unknown(message: Inbound, asker: Asker, name: str) -> bytes:
    error = OutcomeUnknown(
        f"The toolcrib that was asked for {name} ended before it answered. The outcome is unknown.",
        hint="Check whether it took effect before asking again.",
        details={"outcome": "unknown"},
    )
    failed, request_id = Result.failed(error), cast("RequestId", message.id)
    if message.method == "tools/call":
        return encode_result(request_id, encode_outcome(failed, asker))
    assert failed.error is not None
    return encode_error(request_id, RpcError(INTERNAL_ERROR, failed.error.message, told(failed.error)))
