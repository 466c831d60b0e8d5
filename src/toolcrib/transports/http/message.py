"""HTTP messages as values and bytes; what both ends of a connection share. Nothing here waits or opens a socket."""

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec

from toolcrib.core.errors import InternalError

if TYPE_CHECKING:
    from toolcrib.transports.http.exchange import Exchange

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


class Request:
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

    def with_body(self, body: bytes) -> "Request":
        """The same request with another body, from nobody yet: who sends it is found out each time."""
        again = Request.__new__(Request)
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
