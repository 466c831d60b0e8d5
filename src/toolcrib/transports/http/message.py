"""HTTP messages as values and bytes, what both ends of a connection share, and a request's way back: opens nothing."""

from asyncio import Transport
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol

import msgspec

from toolcrib.core.errors import InternalError

Headers = Sequence[tuple[bytes, bytes]]

JSON = b"application/json"
PROBLEM = b"application/problem+json"
EVENT_STREAM = b"text/event-stream"
CONNECTION_CLOSE = b"connection: close\r\n"
MOST_REPEATS = 32  # joining takes time that grows with the square
BODILESS_STATUSES = frozenset({204, 304})


class _StatusLines(dict[int, bytes]):
    """First lines of answers, by status; one without a registered phrase has none."""

    def __missing__(self, status: int) -> bytes:
        return b"HTTP/1.1 %d \r\n" % status


STATUS_LINES = _StatusLines(
    (status.value, f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode()) for status in HTTPStatus
)


class Repeated(bytes):
    """A header that was sent more than once: all values joined by commas, and each of them in ``parts``."""

    parts: tuple[bytes, ...]

    @classmethod
    def of(cls, first: bytes, second: bytes) -> "Repeated":
        """``first``, which may be several already, and one more."""
        joined = cls(b"%b, %b" % (first, second))
        joined.parts = (*(first.parts if isinstance(first, Repeated) else (first,)), second)
        return joined


def list_headers(headers: dict[bytes, bytes]) -> list[tuple[bytes, bytes]]:
    """Headers by name as pairs, one for each time a header was sent."""
    return [(name, part) for name, value in headers.items() for part in getattr(value, "parts", (value,))]


class HttpRequest:
    """One request, complete with its body; path and query are as they were sent, nothing is decoded.

    ``header(name)`` is the value of the header of that lowercase name, or ``None``. ``identity`` is what the guard's
    ``identify`` made of the token, ``None`` where none is asked for.
    """

    __slots__ = ("_headers", "body", "exchange", "header", "identity", "method", "path", "peer", "query")

    exchange: "Exchange"

    def __init__(self, method: bytes, target: bytes, headers: dict[bytes, bytes], peer: Any) -> None:
        self.method = method
        self.path, _, self.query = target.partition(b"?")
        self._headers = headers
        self.header = headers.get
        self.body = b""
        self.peer = peer
        self.identity: object | None = None

    def with_body(self, body: bytes) -> "HttpRequest":
        """The same request with another body, from nobody yet: who sends it is found out each time."""
        again = HttpRequest.__new__(HttpRequest)
        again.method, again.path, again.query, again.peer = self.method, self.path, self.query, self.peer
        again._headers, again.header = self._headers, self.header
        again.body = body
        again.identity = None
        return again

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """All headers, names in lowercase; one that was sent twice is there twice."""
        return list_headers(self._headers)


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer given before any route is asked; the connection ends with it."""

    status: int
    code: str
    message: str
    headers: tuple[tuple[bytes, bytes], ...] = ()

    def encode(self) -> bytes:
        """The whole answer, as it goes over the wire."""
        body = b"" if self.status in BODILESS_STATUSES else self.problem()
        return encode_head(self.status, len(body), PROBLEM, encode_headers(self.headers) + CONNECTION_CLOSE) + body

    def problem(self) -> bytes:
        """Problem details (RFC 9457), and beside them what every other error status says."""
        told = {"type": "about:blank", "title": HTTPStatus(self.status).phrase, "status": self.status}
        error = {"code": self.code, "message": self.message}
        return msgspec.json.encode({**told, "code": self.code, "detail": self.message, "error": error})


class RequestRefused(Exception):
    """Stops the parser in the middle of a request that will not be served."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


def error_body(code: str, message: str) -> bytes:
    """The JSON that goes with every error status."""
    return msgspec.json.encode({"error": {"code": code, "message": message}})


def encode_headers(headers: Headers) -> bytes:
    """Header lines; a line break hidden in a name or value is refused, for it would forge another header."""
    lines = b"".join([b"%b: %b\r\n" % pair for pair in headers])
    if lines.count(b"\n") != len(headers) or lines.count(b"\r") != len(headers):
        raise InternalError("A header name or value contains a line break.")
    return lines


def encode_head(status: int, length: int, content_type: bytes, extra: bytes) -> bytes:
    """Status line and headers of an answer whose length is known; ``extra`` is ready header lines."""
    if status in BODILESS_STATUSES:
        return b"%b%b\r\n" % (STATUS_LINES[status], extra)
    size = b"%d" % length
    return b"".join(
        (STATUS_LINES[status], b"content-type: ", content_type, b"\r\ncontent-length: ", size, b"\r\n", extra, b"\r\n")
    )


def encode_stream_head(status: int, content_type: bytes, extra: bytes) -> bytes:
    """Status line and headers of an answer whose end is not known yet; ``extra`` says how it is framed."""
    return b"%bcontent-type: %b\r\n%b\r\n" % (STATUS_LINES[status], content_type, extra)


def head_size(target: bytes, headers: dict[bytes, bytes]) -> int:
    """How many bytes a head took on the wire, the fixed parts of its first line left out."""
    return len(target) + sum(len(name) + len(value) + 4 for name, value in headers.items())


def plain_target(target: bytes, headers: dict[bytes, bytes]) -> bytes:
    """The path and query of a target in absolute form, whose authority then stands for Host (RFC 9112, 3.2.2)."""
    scheme, mark, rest = target.partition(b"://")
    if not mark or scheme.lower() not in (b"http", b"https"):
        return target
    authority, slash, path = rest.partition(b"/")
    headers[b"host"] = authority
    return slash + path if slash else b"/"


OPEN, STREAMING, DONE, GONE = range(4)

JOIN_LIMIT = 65_536  # below this, copying head and body together costs less than a second system call
CHUNKED = b"transfer-encoding: chunked\r\n"


class Answering(Protocol):
    """A connection, as far as its exchanges are concerned."""

    def finished(self, exchange: "Exchange", /) -> None:
        """The answer is complete."""

    async def writable(self) -> None:
        """Wait until the client has read enough for more to be written."""


class Exchange(msgspec.Struct, eq=False):
    """The way back to whoever sent a request; once the client is gone, what is said here goes nowhere.

    A Struct because there is one for each request: making it takes 0.1 µs, a class with slots 0.6 and more.
    """

    _connection: Answering
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

    def __init__(self, request: HttpRequest, exchange: Exchange) -> None:
        self._request = request.with_body(b"")  # neither the body nor the exchange may live on with the head
        self._chunked, self._extra = exchange.chunked, exchange.extra
        self.length = len(request.body)

    def request(self, body: bytes) -> HttpRequest:
        """The same request with another body."""
        return self._request.with_body(body)

    def exchange(self, connection: Answering, transport: Transport, keep_alive: bool) -> Exchange:
        """The way back, fit for the head's version of HTTP and its origin."""
        return Exchange(connection, transport, keep_alive, False, self._chunked, self._extra)


class KnownHeads:
    """The first few heads of one connection, by their exact bytes.

    Clients send the same head with every call. One that is known needs no parser: a request is handed to its route in
    10 µs instead of 23 (seven headers, body of 100 bytes).
    """

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

    def learn(self, data: bytes, request: HttpRequest, exchange: Exchange) -> None:
        """Remember the head of ``data``, if that is exactly the whole of a POST whose length is stated.

        The first few stay: a client whose heads all differ would otherwise pay for learning each of them.
        """
        if len(self._heads) >= HEADS_MAX or request.method != b"POST" or not exchange.keep_alive:
            return
        end = data.find(HEAD_END) + len(HEAD_END)
        stated = request.header(b"content-length")
        if stated is not None and int(stated) == len(data) - end and end <= HEAD_BYTES_MAX:
            self._heads[data[:end]] = KnownHead(request, exchange)
