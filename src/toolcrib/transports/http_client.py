"""An HTTP/1.1 client for one server, over connections that are kept and used again.

Redirects are not followed: a token must not travel to wherever a server points. The proxies that environment variables
like ``HTTPS_PROXY`` name are not used; a server that can only be reached through one cannot be reached from here.
"""

import asyncio
import os
import ssl as tls
from collections import deque
from collections.abc import Callable
from functools import cache
from typing import Final

from toolcrib.core.errors import InternalError
from toolcrib.transports.http_dial import HttpFailure, Origin, dial
from toolcrib.transports.http_message import Headers, encode_headers
from toolcrib.transports.http_response import Choose, ClientConnection, PoolLimits, Receive, Response

__all__ = ["Choose", "HttpFailure", "HttpPool", "PoolLimits", "Receive", "Response"]

REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


def default_context() -> tls.SSLContext:
    """Trusts what this machine trusts, by the variables that say where its certificates are."""
    return _make_context(*(os.environ.get(name, "") for name in ("SSL_CERT_FILE", "SSL_CERT_DIR")))


@cache
def _make_context(_file: str, _folder: str) -> tls.SSLContext:
    """Made once, because reading all certificates takes 20 ms and more."""
    return tls.create_default_context()


class HttpPool:
    """Connections to one server. Cancelling whoever awaits an answer closes that answer's connection, and no other."""

    def __init__(
        self,
        base_url: str,
        *,
        connect_timeout_s: float = 5,
        ssl: tls.SSLContext | None = None,
        limits: PoolLimits | None = None,
        may_reach: Callable[[str], bool] | None = None,
    ) -> None:
        self.origin = Origin.parse(base_url)
        self.limits = limits or PoolLimits()
        self._connect_timeout_s = connect_timeout_s
        self._ssl = ssl
        self._may_reach = may_reach
        self._connections: set[ClientConnection] = set()
        self._idle: list[ClientConnection] = []
        self._waiting: deque[asyncio.Future[ClientConnection | None]] = deque()
        self._places = self.limits.connections
        self._closed = False

    def encode_head(self, method: str, target: bytes, headers: Headers) -> bytes:
        """The part of a request that stays the same from call to call, for :meth:`exchange`."""
        if method in ("HEAD", "CONNECT") or target.split() != [target]:
            raise InternalError(f"A request {method} {target!r} cannot be sent from here.")
        first = b"%b %b HTTP/1.1\r\nhost: %b\r\n" % (method.encode(), target, self.origin.authority)
        return first + encode_headers(headers)

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
        if response.status in REDIRECTS:
            raise self._redirected(response)
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
            connection = await dial(
                self.origin,
                lambda: ClientConnection(self),
                await self._context(),
                self._connect_timeout_s,
                self._may_reach,
            )
        except BaseException:
            self._vacate()
            raise
        self._connections.add(connection)
        if not self._closed and connection.is_usable():
            return connection
        connection.abort()
        self.forget(connection)
        raise self._closed_failure() if self._closed else HttpFailure(f"{self.origin} hung up.", phase="connect")

    async def _context(self) -> tls.SSLContext | None:
        if self.origin.tls and self._ssl is None:
            self._ssl = await asyncio.to_thread(default_context)
        return self._ssl if self.origin.tls else None

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

    def _redirected(self, response: Response) -> HttpFailure:
        where = (response.header(b"location") or b"nowhere").decode("latin-1")
        message = f"{self.origin} answered {response.status} and points to {where!r}; redirects are not followed."
        hint = "If you trust that address, use it as the URL."
        failure = HttpFailure(message, phase="redirect", sent=True, hint=hint)
        failure.details["location"] = where
        return failure
