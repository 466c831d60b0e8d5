"""What one client may take from a server, and what it is told when it takes more."""

from dataclasses import dataclass

from toolcrib.transports.http_message import Refusal


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Bytes, seconds and connections; the defaults suit a server that strangers can reach."""

    head_bytes: int = 32 * 1024
    body_bytes: int = 4 * 1024 * 1024
    head_s: float = 10
    body_idle_s: float = 15
    body_total_s: float = 60
    keep_alive_s: float = 75
    write_idle_s: float = 60
    """How long a client may leave what we write unread."""
    linger_s: float = 5
    """How much longer a refused client is listened to, so that it reads the refusal instead of a reset."""
    linger_bytes: int = 32 * 1024 * 1024
    connections: int = 1000
    sweep_s: float = 1
    """How often times are checked; nothing ends later than its limit, but up to this much earlier."""

    @property
    def raw_body_bytes(self) -> int:
        """The most bytes a body may take on the wire: framing of chunks is not content, but is not free either."""
        return 2 * self.body_bytes + 1024 * 1024


BODY_TOO_LARGE = Refusal(413, "HTTP_BODY_TOO_LARGE", "The body is larger than this server takes.")
BODY_TOO_SLOW = Refusal(408, "HTTP_BODY_TOO_SLOW", "The body did not arrive in time.")
CLOSING = Refusal(503, "HTTP_CLOSING", "This connection is being closed.")
HEAD_TOO_LARGE = Refusal(431, "HTTP_HEADERS_TOO_LARGE", "The headers are larger than this server takes.")
HEAD_TOO_SLOW = Refusal(408, "HTTP_HEADERS_TOO_SLOW", "The headers did not arrive in time.")
OLD_CODING = Refusal(400, "HTTP_BAD_REQUEST", "HTTP/1.0 has no Transfer-Encoding; send Content-Length, or HTTP/1.1.")
TOO_MANY = Refusal(
    503, "HTTP_TOO_MANY_CONNECTIONS", "All connections are taken. Try again later.", ((b"retry-after", b"5"),)
)
UNKNOWN_CODING = Refusal(501, "HTTP_UNKNOWN_CODING", "Of the transfer codings, only `chunked` is understood.")
UNKNOWN_EXPECTATION = Refusal(
    417, "HTTP_UNKNOWN_EXPECTATION", "Of the expectations, only `100-continue` is understood."
)
UNKNOWN_METHOD = Refusal(501, "HTTP_UNKNOWN_METHOD", "That is not a method of HTTP.")
