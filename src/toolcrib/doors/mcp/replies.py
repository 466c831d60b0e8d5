"""The answer to one POST: plain JSON, or an event stream as soon as there is more to say than the result."""

import asyncio

from toolcrib.core.access import Caller
from toolcrib.core.errors import NotImplementedHere
from toolcrib.doors.mcp.channel import BACKLOG_MAX, ClientChannel
from toolcrib.doors.mcp.sessions import Session
from toolcrib.doors.mcp.streams import STREAM_HEADERS
from toolcrib.transports.http_server import Exchange
from toolcrib.wire.sse import PING, encode_event


class Reply(ClientChannel):
    """One request's way back over HTTP."""

    _exchange: Exchange
    session: Session | None
    caller: Caller
    task: asyncio.Task[None] | None = None
    _silent_for: int = 0

    @property
    def backlog(self) -> int:
        """What waits on the client's connection."""
        return self._exchange.backlog

    def send(self, message: bytes) -> None:
        """A message before the result: from now on this is a stream."""
        if self._stream():
            self._exchange.write(encode_event(message))

    def _stream(self) -> bool:
        """Make this a stream, if it still can be one; whether it is."""
        exchange = self._exchange
        if exchange.is_open:
            exchange.start_stream(200, headers=STREAM_HEADERS)
        return exchange.streaming

    async def ask(self, method: str, params: bytes) -> bytes:
        """Ask the client on this stream; the answer comes in a request of its own."""
        if self.session is None:
            raise NotImplementedHere(f"A stateless client cannot be asked {method!r} in the middle of a call.")
        if not self._stream():
            raise NotImplementedHere(f"A client without an event stream cannot be asked {method!r}.")
        return await self.session.questions.ask(self.send, method, params)

    def finish(self, body: bytes, status: int) -> None:
        """The result."""
        exchange = self._exchange
        if exchange.is_open:
            exchange.answer(status, body)
        elif exchange.streaming:
            exchange.write(encode_event(body))
            exchange.end()

    @property
    def is_running(self) -> bool:
        """Whether the work on the request has not ended."""
        return self.task is not None and not self.task.done()

    def cancel(self) -> None:
        """Stop the work; the exchange ends here, because work that has not begun yet never gets to end it."""
        self.abandon()
        if self.task is not None:
            self.task.cancel()

    def abandon(self) -> None:
        """The call was cancelled: there is nothing to answer, but the exchange must end."""
        if self._exchange.streaming:
            self._exchange.end()
        elif self._exchange.is_open:
            self._exchange.answer(202, b"")

    def ping(self) -> None:
        """Show that the call still runs; the first time around it may yet be quick."""
        self._silent_for += 1
        if self._silent_for > 1 and self._stream() and self.backlog <= BACKLOG_MAX:
            self._exchange.write(PING)


class PlainReply(Reply):
    """The way back to a client that takes JSON only: the result, and nothing before it."""

    def _stream(self) -> bool:
        return False
