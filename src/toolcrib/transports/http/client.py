"""An HTTP/1.1 client for one server, over connections that are kept and used again.

Redirects are not followed: a token must not travel to wherever a server points. Everything toolcrib asks of others goes
out here, so that proxies and certificate authorities count everywhere: see
``core.network``.
"""

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

import httptools

from toolcrib.core.errors import InternalError
from toolcrib.core.network import Network
from toolcrib.transports.http.dial import (
    HttpFailure,
    HttpOrigin,
    check_addresses,
    dial,
    dial_through,
    parse_proxy,
    refused_by,
    resolve,
    tls_context,
)
from toolcrib.transports.http.message import MOST_REPEATS, Headers, Repeated, encode_headers, head_size, list_headers

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
        return HttpFailure(f"{self._pool} {deed}.", phase="answer", sent=True)


def idle_allowance(keep_alive: bytes | None, otherwise_s: float) -> float:
    """How long a connection may rest: what ``Keep-Alive: timeout=5`` promises, less a second for the way."""
    if keep_alive is None:
        return otherwise_s
    for field in keep_alive.split(b","):
        name, _, value = field.strip().partition(b"=")
        if name.lower() == b"timeout" and value.isdigit():
            return min(otherwise_s, int(value) - 1)
    return otherwise_s


__all__ = ["Choose", "HttpFailure", "HttpPool", "PoolLimits", "Receive", "Response"]

REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
PROXY_AUTHENTICATION: Final = 407
UNUSABLE: Final = REDIRECTS | {PROXY_AUTHENTICATION}


class HttpPool:
    """Connections to one server. Cancelling whoever awaits an answer closes that answer's connection, and no other."""

    def __init__(
        self,
        base_url: str,
        *,
        connect_timeout_s: float = 5,
        network: Network | None = None,
        limits: PoolLimits | None = None,
        may_reach: Callable[[str], bool] | None = None,
    ) -> None:
        """Without ``network``, the environment of this process says which proxy and certificates count."""
        self.origin = HttpOrigin.parse(base_url)
        self.limits = limits or PoolLimits()
        self._connect_timeout_s = connect_timeout_s
        self._network = network or Network.of(os.environ)
        proxy_url = self._network.proxy_url(self.origin.host, self.origin.port, tls=self.origin.tls)
        self._proxy = parse_proxy(proxy_url) if proxy_url else None
        self._forwarder = None if self.origin.tls else self._proxy
        """The proxy that is sent the requests themselves, not only asked for a tunnel."""
        self._may_reach = may_reach
        self._connections: set[ClientConnection] = set()
        self._idle: list[ClientConnection] = []
        self._waiting: deque[asyncio.Future[ClientConnection | None]] = deque()
        self._places = self.limits.connections
        self._closed = False

    def __str__(self) -> str:
        return f"{self.origin} (through the proxy {self._proxy})" if self._proxy is not None else str(self.origin)

    def encode_head(self, method: str, target: bytes, headers: Headers) -> bytes:
        """The part of a request that stays the same from call to call, for :meth:`exchange`."""
        if method in ("HEAD", "CONNECT") or target.split() != [target]:
            raise InternalError(f"A request {method} {target!r} cannot be sent from here.")
        authority, more = self.origin.authority, b""
        if self._forwarder is not None:
            target, more = b"http://%b%b" % (authority, target), self._forwarder.authorization
        return b"%b %b HTTP/1.1\r\nhost: %b\r\n%b" % (
            method.encode(),
            target,
            authority,
            more + encode_headers(headers),
        )

    async def request(self, method: str, target: bytes, headers: Headers = (), body: bytes = b"") -> Response:
        """Send one request and read the whole answer, whatever its status."""
        return await self.exchange(self.encode_head(method, target, headers), body)

    async def exchange(
        self, head: bytes, body: bytes, choose: Choose | None = None, *, replayable: bool = False
    ) -> Response:
        """Send one request; where ``choose`` names a receiver, it gets the body's pieces as they arrive.

        A kept connection can turn out to be closed only once the request is written. Then a ``replayable`` request is
        sent again on a new one, and any other fails with ``sent`` true: it may have had its effect.
        """
        head = b"%bcontent-length: %d\r\n\r\n" % (head, len(body))
        connection = self._take() or await self._acquire()
        try:
            response = await self._send(connection, head, body, choose)
        except HttpFailure:
            if not replayable or connection.uses == 1 or connection.got_bytes or self._closed:
                raise
            self._drop_idle()  # they are as old as the one that failed, and would keep a place from us
            response = await self._send(await self._acquire(), head, body, choose)
        if response.status in UNUSABLE:
            self._check(response)
        return response

    async def close(self) -> None:
        """Close every connection; what is unanswered fails."""
        self._closed = True
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(self._closed_failure())
        for connection in tuple(self._connections):
            connection.fail(self._closed_failure(sent=True))
        await asyncio.sleep(0)

    def release(self, connection: ClientConnection) -> None:
        """A connection is free: for whoever waits longest, or for later."""
        if not self._hand_over(connection):
            self._idle.append(connection)

    def forget(self, connection: ClientConnection) -> None:
        """A connection is gone; another may take its place."""
        if connection in self._connections:
            self._connections.remove(connection)
            self._vacate()
        if connection in self._idle:
            self._idle.remove(connection)

    async def _send(self, connection: ClientConnection, head: bytes, body: bytes, choose: Choose | None) -> Response:
        answer = connection.send(head, body, choose)
        try:
            return await answer
        except asyncio.CancelledError:
            connection.abandon(answer)
            raise

    def _take(self) -> ClientConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable():
                return connection
            connection.abort()
        return None

    async def _acquire(self) -> ClientConnection:
        """A new connection if there is a place for one, otherwise the next that becomes free, in order of asking."""
        if self._closed:
            raise self._closed_failure()
        if self._places > 0:
            self._places -= 1
            return await self._dial()
        connection = await self._wait_for_turn()
        if connection is None:
            return await self._dial()
        return connection if connection.is_usable() else await self._acquire()

    async def _wait_for_turn(self) -> ClientConnection | None:
        """A free connection, or ``None``: the right to open one."""
        waiter: asyncio.Future[ClientConnection | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._give_back(waiter.result())
            raise

    def _give_back(self, connection: ClientConnection | None) -> None:
        if connection is None:
            self._vacate()
        elif connection.is_usable():
            self.release(connection)

    async def _dial(self) -> ClientConnection:
        try:
            connection = await self._connect()
        except BaseException:
            self._vacate()
            raise
        self._connections.add(connection)
        if not self._closed and connection.is_usable():
            return connection
        connection.abort()
        self.forget(connection)
        raise self._closed_failure() if self._closed else HttpFailure(f"{self.origin} hung up.", phase="connect")

    async def _connect(self) -> ClientConnection:
        proxy, timeout_s = self._proxy, self._connect_timeout_s
        is_tls = self.origin.tls or (proxy is not None and proxy.origin.tls)
        files = self._network.ca_file, self._network.ca_dir
        context = await asyncio.to_thread(tls_context, *files) if is_tls else None
        if proxy is None:
            return await dial(self.origin, self._build, context, timeout_s, self._may_reach)
        if self._may_reach is not None:
            # The proxy resolves the name anew: one that is not known here cannot be judged, so it is not asked for.
            check_addresses(self.origin, await resolve(self.origin, timeout_s), self._may_reach)
        return await dial_through(proxy, self.origin, self._build, context, timeout_s)

    def _build(self) -> ClientConnection:
        return ClientConnection(self)

    def _hand_over(self, connection: ClientConnection | None) -> bool:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return True
        return False

    def _vacate(self) -> None:
        if not self._hand_over(None):
            self._places += 1

    def _drop_idle(self) -> None:
        while self._idle:
            self._idle.pop().abort()

    def _closed_failure(self, *, sent: bool = False) -> HttpFailure:
        return HttpFailure(f"The connections to {self.origin} were closed.", phase="closed", sent=sent)

    def _check(self, response: Response) -> None:
        if response.status in REDIRECTS:
            raise self._redirected(response)
        if self._forwarder is not None:
            raise refused_by(self._forwarder, self.origin, response.status)

    def _redirected(self, response: Response) -> HttpFailure:
        where = (response.header(b"location") or b"nowhere").decode("latin-1")
        message = f"{self.origin} answered {response.status} and points to {where!r}; redirects are not followed."
        hint = "If you trust that address, use it as the URL."
        failure = HttpFailure(message, phase="redirect", sent=True, hint=hint)
        failure.details["location"] = where
        return failure
