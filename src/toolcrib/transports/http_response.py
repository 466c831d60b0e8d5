"""The client's end of one connection: a request out, its answer in, then the next. One future per request, no task."""

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import httptools

from toolcrib.transports.http_dial import HttpFailure
from toolcrib.transports.http_message import MOST_REPEATS, Repeated, head_size, list_headers

if TYPE_CHECKING:
    from toolcrib.transports.http_client import HttpPool

JOIN_LIMIT = 65_536


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """What a client takes from one server, and how many connections it opens to it."""

    connections: int = 100
    head_bytes: int = 64 * 1024
    body_bytes: int = 16 * 1024 * 1024
    idle_s: float = 60
    """How long an unused connection is trusted to be still open; a server that says less is believed."""


class Response:
    """An answer; its body is empty where the pieces went to a receiver."""

    __slots__ = ("_headers", "body", "header", "status")

    def __init__(self, status: int, headers: dict[bytes, bytes]) -> None:
        self.status = status
        self._headers = headers
        self.header = headers.get
        self.body = b""

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """All headers, names in lowercase; one that was sent twice is there twice."""
        return list_headers(self._headers)


Receive = Callable[[bytes], None]
Choose = Callable[[Response], Receive | None]
"""Asked once the head is there: who takes the body's pieces as they arrive, or ``None`` to have it whole."""


class ClientConnection(asyncio.Protocol):
    """One connection of a pool."""

    def __init__(self, pool: "HttpPool") -> None:
        self._pool, self._limits = pool, pool.limits
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[bytes, bytes] = {}
        self._body: bytes | bytearray = b""
        self._reading = self._head_bytes = 0
        self._response: Response | None = None
        self._receive: Receive | None = None
        self._choose: Choose | None = None
        self._answer: asyncio.Future[Response] | None = None
        self._expires = 0.0
        self._lost = False
        self.uses = 0
        self.got_bytes = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ready for the first request."""
        self._transport = cast("asyncio.Transport", transport)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def is_usable(self) -> bool:
        """Whether a request can be sent with good hope that the server still listens."""
        return (
            not self._lost and not self._transport.is_closing() and (not self.uses or self._loop.time() < self._expires)
        )

    def send(self, head: bytes, body: bytes, choose: Choose | None) -> asyncio.Future[Response]:
        """Write one request; the future has its answer once that is complete."""
        self.uses += 1
        self.got_bytes = False
        self._choose = choose
        self._answer = answer = self._loop.create_future()
        if len(body) < JOIN_LIMIT:
            self._transport.write(head + body)
        else:
            self._transport.writelines((head, body))
        return answer

    def abort(self) -> None:
        """Close at once; whoever waits for an answer is told."""
        self._transport.abort()

    def abandon(self, answer: asyncio.Future[Response]) -> None:
        """Nobody waits for ``answer`` any more; if it is still to come, it ends with the connection."""
        if self._answer is answer:
            self._answer = None
            self._transport.abort()

    def fail(self, error: Exception) -> None:
        """The answer will not come."""
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(error)
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Feed the parser; a complete answer is handed over from inside it."""
        self.got_bytes = True
        self._reading = len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._reject(error)
        if self._response is None and self._answer is not None:
            self._head_bytes += len(data)
            if self._head_bytes > self._limits.head_bytes:
                self.fail(self._failure("sent more headers than allowed"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Settle what is unanswered; an answer without a length is complete only now."""
        self._lost = True
        if self._answer is not None and exc is None and self._ends_with_connection():
            self._complete(self._answer, keep_alive=False)
        reason = "broke the connection" if exc else "closed the connection"
        self.fail(self._failure(f"{reason} before its answer was complete"))
        self._pool.forget(self)
        del self._parser  # it holds our bound methods: a cycle otherwise

    def on_message_begin(self) -> None:
        """The first byte of an answer, which somebody must have asked for."""
        if self._answer is None:
            raise self._failure("sent an answer to nothing")
        self._headers = {}
        self._body = b""
        self._response = self._receive = None
        self._head_bytes = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header, complete."""
        name = name.lower()
        headers = self._headers
        headers[name] = value if name not in headers else self._join(headers[name], value)

    def on_headers_complete(self) -> None:
        """Learn who wants the body; an interim answer (1xx) has none and counts for nothing."""
        headers, most = self._headers, self._limits.head_bytes
        if self._head_bytes + self._reading > most and head_size(b"", headers) > most:
            raise self._failure("sent more headers than allowed")
        status = self._parser.get_status_code()
        if status >= 200:
            self._headers = {}  # from here on, headers are trailers
            self._response = response = Response(status, headers)
            self._receive = self._choose(response) if self._choose is not None else None

    def on_body(self, part: bytes) -> None:
        """A piece of the body, most often all of it."""
        if self._receive is not None:
            self._receive(part)
        elif len(self._body) + len(part) > self._limits.body_bytes:
            raise self._failure("sent a larger body than allowed")
        elif not self._body:
            self._body = part
        elif isinstance(self._body, bytes):
            self._body = bytearray(self._body) + part
        else:
            self._body += part

    def on_message_complete(self) -> None:
        """Hand the answer over and be free for the next request."""
        if self._response is not None and self._answer is not None:
            self._complete(self._answer, keep_alive=self._parser.should_keep_alive())

    def _complete(self, answer: asyncio.Future[Response], *, keep_alive: bool) -> None:
        response, self._response, self._answer = cast("Response", self._response), None, None
        response.body = bytes(self._body)
        if not answer.done():
            answer.set_result(response)
        if not keep_alive:
            self._transport.close()
            return
        self._expires = self._loop.time() + idle_allowance(response.header(b"keep-alive"), self._limits.idle_s)
        self._pool.release(self)

    def _ends_with_connection(self) -> bool:
        response = self._response
        if response is None:
            return False
        return response.header(b"content-length") is None and response.header(b"transfer-encoding") is None

    def _reject(self, error: Exception) -> None:
        """Fail with what stopped the parser: our verdict or the caller's error as it is, all else as bad HTTP."""
        cause = error.__context__
        own = isinstance(error, httptools.HttpParserCallbackError) and isinstance(cause, Exception)
        self.fail(cast("Exception", cause) if own else self._failure(f"did not answer in HTTP/1.1 ({error})"))

    def _join(self, first: bytes, second: bytes) -> Repeated:
        joined = Repeated.of(first, second)
        if len(joined.parts) > MOST_REPEATS:
            raise self._failure("sent one header too often")
        return joined

    def _failure(self, deed: str) -> HttpFailure:
        return HttpFailure(f"{self._pool.origin} {deed}.", phase="answer", sent=True)


def idle_allowance(keep_alive: bytes | None, otherwise_s: float) -> float:
    """How long a connection may rest: what ``Keep-Alive: timeout=5`` promises, less a second for the way."""
    if keep_alive is None:
        return otherwise_s
    for field in keep_alive.split(b","):
        name, _, value = field.strip().partition(b"=")
        if name.lower() == b"timeout" and value.isdigit():
            return min(otherwise_s, int(value) - 1)
    return otherwise_s
