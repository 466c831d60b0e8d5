"""One request's answer: at once, or as a stream, now or later. The bytes go straight to the transport."""

from asyncio import Transport
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from toolcrib.core.errors import InternalError
from toolcrib.transports.http.message import (
    BODILESS_STATUSES,
    CONNECTION_CLOSE,
    EVENT_STREAM,
    JSON,
    Headers,
    Request,
    encode_head,
    encode_headers,
    encode_stream_head,
)

if TYPE_CHECKING:
    from toolcrib.transports.http.connection import ServerConnection


OPEN, STREAMING, DONE, GONE = range(4)

JOIN_LIMIT = 65_536  # below this, copying head and body together costs less than a second system call
CHUNKED = b"transfer-encoding: chunked\r\n"


class Exchange(msgspec.Struct, eq=False):
    """The way back to whoever sent a request; once the client is gone, what is said here goes nowhere."""

    _connection: "ServerConnection"
    _transport: Transport
    keep_alive: bool
    _head_only: bool = False
    chunked: bool = True
    extra: bytes = b""
    """Ready header lines that go with whatever answer this gets."""
    _state: int = OPEN
    _on_disconnect: Callable[[], object] | None = None

    @property
    def is_open(self) -> bool:
        """Whether nothing has been answered yet, and somebody waits for it."""
        return self._state == OPEN

    @property
    def answered(self) -> bool:
        """Whether the answer is complete."""
        return self._state == DONE

    @property
    def streaming(self) -> bool:
        """Whether a stream was started and has not ended."""
        return self._state == STREAMING

    @property
    def disconnected(self) -> bool:
        """Whether the client went away before the answer was complete."""
        return self._state == GONE

    @property
    def backlog(self) -> int:
        """How many bytes wait for the client to read on."""
        return self._transport.get_write_buffer_size()

    def answer(self, status: int, body: bytes, content_type: bytes = JSON, headers: Headers = ()) -> None:
        """The whole answer in one go."""
        if self._state != OPEN:
            self._check("answer", OPEN)
            return
        extra = self.extra + encode_headers(headers) if headers else self.extra
        if not self.keep_alive:
            extra += CONNECTION_CLOSE
        self._state = DONE
        head = encode_head(status, len(body), content_type, extra)
        if self._head_only or status in BODILESS_STATUSES:
            self._transport.write(head)
        elif len(body) < JOIN_LIMIT:
            self._transport.write(head + body)
        else:
            self._transport.writelines((head, body))
        self._connection.finished(self)

    def start_stream(self, status: int, content_type: bytes = EVENT_STREAM, headers: Headers = ()) -> None:
        """Say that the body comes in pieces; :meth:`write` them, then :meth:`end`."""
        if self._state != OPEN:
            self._check("start_stream", OPEN)
            return
        # HTTP/1.0 knows no chunks: there, the end of the connection is the end of the stream.
        self.keep_alive &= self.chunked
        framing = (CHUNKED if self.chunked else b"") + (b"" if self.keep_alive else CONNECTION_CLOSE)
        head = encode_stream_head(status, content_type, self.extra + encode_headers(headers) + framing)
        self._state = STREAMING
        self._transport.write(head)

    def write(self, chunk: bytes) -> None:
        """One more piece of the stream, sent at once; an empty one is nothing."""
        if self._state != STREAMING:
            self._check("write", STREAMING)
        elif chunk and not self._head_only:
            self._transport.write(b"%x\r\n%b\r\n" % (len(chunk), chunk) if self.chunked else chunk)

    def end(self) -> None:
        """The stream is complete."""
        if self._state != STREAMING:
            self._check("end", STREAMING)
            return
        self._state = DONE
        if self.chunked and not self._head_only:
            self._transport.write(b"0\r\n\r\n")
        self._connection.finished(self)

    async def drain(self) -> None:
        """Wait while the client reads slower than we write; returns as well when it is gone."""
        if self._state == STREAMING:
            await self._connection.writable()

    def on_disconnect(self, callback: Callable[[], object]) -> None:
        """Have ``callback`` called once if the client goes away before the answer is complete."""
        if self._state == GONE:
            callback()
        else:
            self._on_disconnect = callback

    def lose(self) -> None:
        """The client is gone."""
        if self._state == DONE:
            return
        self._state = GONE
        if self._on_disconnect is not None:
            self._on_disconnect()

    def _check(self, deed: str, needed: int) -> None:
        if self._state != GONE:
            names = ("open", "streaming", "done")
            raise InternalError(
                f"{deed}() needs an exchange that is {names[needed]}; this one is {names[self._state]}."
            )


HEADS_MAX = 8
HEAD_BYTES_MAX = 4096  # longer ones are not worth their memory, with a thousand connections
HEAD_END = b"\r\n\r\n"


class KnownHead:
    """What a head was found to say."""

    __slots__ = ("_chunked", "_extra", "_request", "length")

    def __init__(self, request: Request, exchange: Exchange) -> None:
        self._request = request.with_body(b"")  # neither the body nor the exchange may live on with the head
        self._chunked, self._extra = exchange.chunked, exchange.extra
        self.length = len(request.body)

    def request(self, body: bytes) -> Request:
        """The same request with another body."""
        return self._request.with_body(body)

    def exchange(self, connection: "ServerConnection", transport: Transport, keep_alive: bool) -> Exchange:
        """The way back, fit for the head's version of HTTP and its origin."""
        return Exchange(connection, transport, keep_alive, False, self._chunked, self._extra)


class KnownHeads:
    """The first few heads of one connection, by their exact bytes."""

    __slots__ = ("_heads",)

    def __init__(self) -> None:
        self._heads: dict[bytes, KnownHead] = {}

    def recognise(self, data: bytes) -> tuple[KnownHead, bytes] | None:
        """The known head and the body of ``data``, if that is exactly one whole request with such a head."""
        end = data.find(HEAD_END) + len(HEAD_END)
        known = self._heads.get(data[:end])
        if known is None or len(data) != end + known.length:
            return None
        return known, data[end:]

    def learn(self, data: bytes, request: Request, exchange: Exchange) -> None:
        """Remember the head of ``data``, if that is exactly the whole of a POST whose length is stated.

        The first few stay: a client whose heads all differ would otherwise pay for learning each of them.
        """
        if len(self._heads) >= HEADS_MAX or request.method != b"POST" or not exchange.keep_alive:
            return
        end = data.find(HEAD_END) + len(HEAD_END)
        stated = request.header(b"content-length")
        if stated is not None and int(stated) == len(data) - end and end <= HEAD_BYTES_MAX:
            self._heads[data[:end]] = KnownHead(request, exchange)
