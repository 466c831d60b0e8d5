"""Streams that clients keep open to hear of changes; one that is not read costs no more than a bounded backlog."""

from toolcrib.doors.mcp.channel import BACKLOG_MAX
from toolcrib.transports.http_server import Exchange
from toolcrib.wire.jsonrpc import encode_notification
from toolcrib.wire.sse import PING, encode_event

STREAM_HEADERS = ((b"cache-control", b"no-cache, no-transform"), (b"x-accel-buffering", b"no"))
TOOLS_CHANGED = "notifications/tools/list_changed"


class StandingStream:
    """One client's open stream; ``params`` are those of its every notice."""

    __slots__ = ("_exchange", "_notice", "_owes_notice")

    def __init__(self, exchange: Exchange, first: bytes, params: bytes = b"{}") -> None:
        self._exchange = exchange
        self._notice = encode_event(encode_notification(TOOLS_CHANGED, params))
        self._owes_notice = False
        exchange.start_stream(200, headers=STREAM_HEADERS)
        exchange.write(first)

    @property
    def _is_readable(self) -> bool:
        return self._exchange.streaming and self._exchange.backlog <= BACKLOG_MAX

    def tell_changed(self) -> None:
        """Tell of changed tools; a client that is far behind is told once, when it reads again."""
        self._owes_notice = not self._is_readable
        if not self._owes_notice:
            self._exchange.write(self._notice)

    def ping(self) -> None:
        """Show that the stream is alive, and say what is owed."""
        if self._is_readable:
            self._exchange.write(self._notice if self._owes_notice else PING)
            self._owes_notice = False

    def end(self, last: bytes = b"") -> None:
        """End the stream, with a last event if there is one."""
        if self._exchange.streaming:
            self._exchange.write(last)
            self._exchange.end()
