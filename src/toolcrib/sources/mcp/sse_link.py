"""A link over HTTP+SSE, the transport of 2024-11-05: questions are POSTs, and all answers come on one stream."""

import asyncio
from typing import Any
from urllib.parse import urljoin

from msgspec import Raw

from toolcrib.config.model import ServerConfig
from toolcrib.core.errors import ConfigError, ConnectionLost, ProtocolError, ToolcribError
from toolcrib.core.network import Network
from toolcrib.core.tasks import TaskScope
from toolcrib.credentials.accounts import ServerAccount
from toolcrib.sources.mcp.http_status import (
    NOTICE_TIMEOUT_S,
    check_status,
    discard,
    is_stream,
    send_again,
    standing_headers,
)
from toolcrib.sources.mcp.link import UNREACHABLE, ExitTrace, LinkEvents, ServerRequest
from toolcrib.sources.mcp.stdio_link import StreamLink
from toolcrib.transports.http.client import Choose, HttpFailure, HttpPool, Receive, Response
from toolcrib.transports.http.dial import HttpOrigin, encode_own_headers
from toolcrib.wire import http
from toolcrib.wire.http import SseParser
from toolcrib.wire.jsonrpc import RequestId, encode_notification, encode_request

INITIALIZED = "notifications/initialized"
ENDPOINT_MAX = 4096
PATIENCES = 0.8
"""Times the limit for reaching a server: so long its stream may be silent before its first event. Less than all of it,
so that who looks at the attempt learns what was missing."""
WRITES_MAX = 200
"""Messages without an answer that may be on their way at once: a server that asks more is not answered."""
FORGOTTEN = frozenset({404, 410})
"""What a server says of a session that it does not know any more."""


class SseLink(StreamLink):
    """One server behind a URL whose stream it opens with the address to post to."""

    discover_patience_s = 0.0
    gone = "The server ended its event stream."

    def __init__(
        self,
        server: ServerConfig,
        events: LinkEvents,
        tasks: TaskScope,
        network: Network | None = None,
        account: ServerAccount | None = None,
    ) -> None:
        super().__init__(events, tasks)
        self._account = account
        self._bearer: bytes | None = None
        self._server = server
        self._pool = HttpPool(server.url or "", connect_timeout_s=server.connect_timeout_s, network=network)
        self._own = encode_own_headers(server.name, server.headers)
        self._parser = SseParser()
        self._target = b""
        self._endpoint: asyncio.Future[None] = self._loop.create_future()
        self._reader: asyncio.Task[Any] | None = None
        self._gate: asyncio.Task[Any] | None = None
        """The notification that ends the handshake, while it is on its way: nothing overtakes it."""
        self._sending: dict[RequestId, asyncio.Task[Any]] = {}
        self._writes = 0

    @classmethod
    async def open(
        cls,
        server: ServerConfig,
        events: LinkEvents,
        tasks: TaskScope,
        network: Network | None = None,
        account: ServerAccount | None = None,
    ) -> "SseLink":
        """Open the stream and wait for the address that the server wants to be written to."""
        link = cls(server, events, tasks, network, account)
        link._reader = tasks.spawn(link._read(), f"stream-{server.name}")
        try:
            async with asyncio.timeout(PATIENCES * server.connect_timeout_s):
                await link._endpoint
        except TimeoutError:  # many a stream is opened by a GET, and most are not of this transport
            await link.close()
            raise ProtocolError("The server opened a stream, and did not say where to send messages.") from None
        except BaseException:
            await link.close()
            raise
        link.is_open = not link._lost
        return link

    async def _read(self) -> None:
        """Follow the stream to its end; whoever waits for its first event hears why there is none."""
        error: ToolcribError = ConnectionLost(self.gone)
        try:
            response = await self._exchange("GET", self._pool.origin.target, b"", self._choose)
            if not is_stream(response):
                error = self._refusal(response)
        except ToolcribError as failure:
            error = failure
        if not self._endpoint.done():
            self._endpoint.set_exception(error)
        else:
            self.gone = f"{self.gone[:-1]}: {error.message}" if isinstance(error, ProtocolError) else self.gone
            self._end()

    def _refusal(self, response: Response) -> ToolcribError:
        """What to say of an answer that is no stream."""
        try:
            check_status(self._server, "GET", response, None)
        except ToolcribError as error:
            return error
        return ProtocolError("The server answered with something that is no event stream.")

    def _choose(self, response: Response) -> Receive | None:
        return self._receive if is_stream(response) else None

    def _receive(self, chunk: bytes) -> None:
        """Take a piece of the stream. Only it says that the server is there: what takes POSTs may be another one."""
        self._heard_at = self._loop.time()
        messages = self._parser.feed(chunk)
        if self._parser.endpoint and not self._endpoint.done():
            self._target = self._checked_target(self._parser.endpoint)
            self._endpoint.set_result(None)
        for data in messages:
            self.message_received(data)

    def _checked_target(self, endpoint: bytes) -> bytes:
        """The path to post to; one on another origin is refused, or our headers would go wherever a server points."""
        said = endpoint.decode(errors="replace")
        try:
            origin = HttpOrigin.parse(urljoin(self._server.url or "", said))
        except (ConfigError, ValueError):
            origin = None
        own = self._pool.origin
        if origin is None or len(said) > ENDPOINT_MAX:
            raise ProtocolError("The server names no address to send messages to that can be used.")
        if (origin.host, origin.port, origin.tls) != (own.host, own.port, own.tls):
            raise ProtocolError(
                f"The server wants messages to be sent to {origin}, not to {own}: another origin is not trusted.",
                hint="If you trust that address, use it as the URL.",
            )
        return origin.target

    def _head(self, method: str, target: bytes) -> bytes:
        lines = standing_headers(self._own)
        if self._bearer is not None:
            lines.append((b"authorization", self._bearer))
        if self._version:
            lines.append((http.VERSION, self._version.encode()))
        return self._pool.encode_head(method, target, lines)

    async def _exchange(self, method: str, target: bytes, body: bytes, choose: Choose) -> Response:
        """Send a request; with an account, whatever it takes to have it accepted."""

        async def send(bearer: bytes | None) -> Response:
            self._bearer = bearer
            return await self._pool.exchange(self._head(method, target), body, choose)

        account = self._account
        if account is None:
            return await send(None)
        used = account.usable() or await account.ready()
        return await send_again(account, await send(used), used, send)

    async def ask(self, question: ServerRequest) -> Raw:
        """Send the question and wait for its answer on the stream; a POST that is not answered itself is then left."""
        try:
            return await super().ask(question)
        finally:
            sending = self._sending.pop(question.id, None)
            if sending is not None and not sending.done():
                self._loop.call_later(NOTICE_TIMEOUT_S, sending.cancel)

    def _hand_over(self, question: ServerRequest) -> None:
        question.sent = True
        body = encode_request(question.id, question.method, question.params)
        self._sending[question.id] = self._tasks.spawn(self._send(question, body), f"ask-{self._server.name}")

    async def _send(self, question: ServerRequest, body: bytes) -> None:
        """Deliver a question; that it was taken says nothing, its answer comes on the stream."""
        if self._gate is not None:
            await asyncio.wait([self._gate])
        try:
            await self._post(body, question.method)
        except HttpFailure as failure:
            question.sent = failure.sent
            self._refute(question.id, ConnectionLost(failure.message, hint=failure.hint, details=failure.details))
            if failure.phase in UNREACHABLE:
                self._lose()
        except ConnectionLost as error:
            question.sent = False
            self._refute(question.id, error)
            self._lose()
        except ToolcribError as error:
            self._refute(question.id, error)

    async def _post(self, body: bytes, method: str) -> None:
        response = await self._exchange("POST", self._target, body, lambda _: discard)
        if response.status in FORGOTTEN:
            raise ConnectionLost("The server has forgotten our session.")
        check_status(self._server, method, response, None)

    def tell(self, method: str, params: bytes) -> None:
        """Send a notification; the one that ends a handshake holds back later questions."""
        task = self._launch(encode_notification(method, params))
        if method == INITIALIZED:
            self._gate = task

    def _write(self, message: bytes) -> None:
        self._launch(message)

    def _launch(self, message: bytes) -> asyncio.Task[Any] | None:
        if self._lost or self._writes >= WRITES_MAX:
            return None
        self._writes += 1
        return self._tasks.spawn(self._deliver(message), f"tell-{self._server.name}")

    async def _deliver(self, message: bytes) -> None:
        try:
            async with asyncio.timeout(NOTICE_TIMEOUT_S):
                await self._post(message, "")
        except (ToolcribError, TimeoutError):
            pass
        finally:
            self._writes -= 1

    def _lose(self) -> None:
        """The server cannot be used over this stream any more: end it, which tells everybody."""
        if self._reader is not None:
            self._reader.cancel()
        if not self._lost:
            self._end()

    def remains(self) -> ExitTrace:
        """When the server was last heard, and what it said that was no message; more is not known of one elsewhere."""
        return ExitTrace(noise=tuple(self._noise), heard_at=self._heard_at)

    async def close(self) -> None:
        """End the stream, and with it the session; safe to call twice."""
        self.is_open = False
        if self._reader is not None:
            self._reader.cancel()
        await self._pool.close()
        if not self._lost:
            self._end()
