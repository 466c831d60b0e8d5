"""The answer to one POST: plain JSON, or an event stream as soon as there is more to say than the result."""

import asyncio

from msgspec import UNSET

from toolcrib.core.access import Caller
from toolcrib.core.errors import NotImplementedHere
from toolcrib.server.mcp.channel import ClientChannel
from toolcrib.server.mcp.news import BACKLOG_MAX, STREAM_HEADERS, NewsClient
from toolcrib.server.mcp.parking import Parked, ParkingLot
from toolcrib.server.mcp.sessions import McpSession
from toolcrib.transports.http.server import Exchange, HttpRequest, error_body
from toolcrib.wire.http import PING, encode_event
from toolcrib.wire.jsonrpc import (
    INVALID_REQUEST,
    REQUEST_CANCELLED,
    Inbound,
    RpcError,
    encode,
    encode_error,
    encode_notification,
)


class HttpReply(ClientChannel):
    """One request's way back over HTTP."""

    _exchange: Exchange
    session: McpSession | None
    caller: Caller
    log_level: str = ""
    message: Inbound | None = None
    lot: ParkingLot | None = None
    parked: Parked | None = None
    task: asyncio.Task[None] | None = None
    _silent_for: int = 0
    request: HttpRequest | None = None

    @property
    def traceparent(self) -> str:
        """What its header says."""
        said = None if self.request is None else self.request.header(b"traceparent")
        return "" if said is None else said.decode("latin-1")

    @property
    def client(self) -> NewsClient | None:
        """Its session, if it has one."""
        return self.session

    @property
    def backlog(self) -> int:
        """What waits on the client's connection."""
        return self._exchange.backlog

    @property
    def is_over(self) -> bool:
        """Whether the exchange has ended."""
        return not self._exchange.is_open and not self._exchange.streaming

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

    def park(self, lot: ParkingLot) -> None:
        """Take a place."""
        self.parked = lot.park(self)

    async def ask_now(self, method: str, params: bytes) -> bytes:
        """Ask the client on this stream, or once it has ended on the standing one; the answer comes in a request of
        its own."""
        session = self.session
        if session is None or not (self._stream() or (self.is_over and session.stream is not None)):
            raise NotImplementedHere(f"A client without an event stream cannot be asked {method!r}.")
        return await session.questions.ask(session.send if self.is_over else self.send, method, params)

    def end(self, body: bytes, status: int) -> None:
        """The result, to whichever request waits for it."""
        if self.parked is None:
            self.finish(body, status)
        else:
            self.parked.finish(body, status)

    def finish(self, body: bytes, status: int) -> None:
        """Answer the request."""
        exchange = self._exchange
        if self.session is not None and self.session.owed:
            self._pay(self.session)
        if exchange.is_open:
            exchange.answer(status, body)
        elif exchange.streaming:
            exchange.write(encode_event(body))
            exchange.end()

    def _pay(self, session: McpSession) -> None:
        """Tell a client without a standing stream what it does not know yet, before its answer."""
        for method, params in session.settle():
            self.send(encode_notification(method, encode(params)))

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
        """The call was cancelled: nobody waits for an answer, but a request over HTTP ends with one.

        As an event where the client takes those: the official Python client may have left by then, and ends with a
        traceback over a body that comes so late, but not over an event.
        """
        if self.parked is not None:
            self.parked.abandon()
        self._stream()
        request_id = None if self.message is None or self.message.id is UNSET else self.message.id
        self.finish(encode_error(request_id, RpcError(REQUEST_CANCELLED, "Request cancelled")), 200)

    def ping(self) -> None:
        """Show that the call still runs; the first time around it may yet be quick."""
        self._silent_for += 1
        if self._silent_for > 1 and self._stream() and self.backlog <= BACKLOG_MAX:
            self._exchange.write(PING)


class PlainReply(HttpReply):
    """The way back to a client that takes JSON only: the result, and nothing before it."""

    def _stream(self) -> bool:
        return False

    def _pay(self, session: McpSession) -> None:
        """Here is no place for more than the result."""


JSON = b"application/json"
EVENT_STREAM = b"text/event-stream"
USUAL_ACCEPT = b"application/json, text/event-stream"


def count(request: HttpRequest, name: bytes) -> int:
    """How often a header was sent."""
    return sum(1 for key, _ in request.headers if key == name)


def is_usual(request: HttpRequest) -> bool:
    """Whether a request says of itself what nearly all do: the three questions below need not be asked then."""
    return request.header(b"accept") == USUAL_ACCEPT and request.header(b"content-type") == JSON


def is_json(request: HttpRequest) -> bool:
    """Whether the body is said to be JSON."""
    stated = request.header(b"content-type") or b""
    return stated == JSON or stated.partition(b";")[0].strip().lower() == JSON


def accepts_json(request: HttpRequest) -> bool:
    """Whether the answer may be JSON."""
    accept = request.header(b"accept")
    return accept is None or any(kind in accept for kind in (JSON, b"*/*", b"application/*"))


def accepts_stream(request: HttpRequest) -> bool:
    """Whether the answer may be an event stream."""
    accept = request.header(b"accept")
    return accept is None or any(kind in accept for kind in (EVENT_STREAM, b"*/*", b"text/*"))


def want_stream(exchange: Exchange) -> None:
    """Refuse a request that does not accept an event stream where only that is offered."""
    exchange.answer(406, error_body("HTTP_NOT_ACCEPTABLE", "This opens an event stream: accept text/event-stream."))


def not_allowed(exchange: Exchange, allowed: bytes = b"GET, POST, DELETE") -> None:
    """Refuse a method."""
    body = error_body("HTTP_METHOD_NOT_ALLOWED", f"Use {allowed.decode()}.")
    exchange.answer(405, body, headers=((b"allow", allowed),))


def sessions_away(exchange: Exchange) -> None:
    """Whether the session goes on cannot be said now: not an end, so that the client comes back with it."""
    message = "The sessions of all replicas cannot be looked up right now. Try again in a moment."
    exchange.answer(503, error_body("HTTP_SESSIONS_UNAVAILABLE", message), headers=((b"retry-after", b"1"),))


def session_ended(exchange: Exchange) -> None:
    """There is no such session (any more): the client begins a new one."""
    exchange.answer(
        404, encode_error(None, RpcError(INVALID_REQUEST, "This session has ended: send initialize again."))
    )


def answer_delete(exchange: Exchange, *, was_there: bool) -> None:
    """Say whether there was a session to end."""
    if was_there:
        exchange.answer(204, b"")
    else:
        exchange.answer(404, error_body("HTTP_NO_SESSION", "There is no such session."))
