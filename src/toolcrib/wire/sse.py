"""Server-sent events: one parser for what servers stream to us, one line to stream ourselves."""

from toolcrib.core.errors import ProtocolError

EVENT_LIMIT = 16 * 1024 * 1024
RETRY_DIGITS = 9
PING = b": ping\n\n"


def encode_event(data: bytes) -> bytes:
    """One ``message`` event; ``data`` is JSON and so holds no newline."""
    return b"event: message\ndata: %b\n\n" % data


class SseParser:
    """Bytes in, the ``data`` of each event out; keeps the last event id and the retry time."""

    def __init__(self, limit: int = EVENT_LIMIT) -> None:
        self._limit = limit
        self._unfinished: list[bytes] = []
        self._data: list[bytes] = []
        self._size = 0
        self.last_id = ""
        self.retry_ms: int | None = None

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of every event that ``chunk`` completes."""
        self._count(len(chunk))
        if b"\n" not in chunk:
            self._unfinished.append(chunk)
            return []
        *lines, rest = b"".join((*self._unfinished, chunk)).split(b"\n")
        self._unfinished = [rest] if rest else []
        return [event for line in lines if (event := self._take(line.removesuffix(b"\r")))]

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > self._limit:
            raise ProtocolError(f"The server sent an event of more than {self._limit} bytes.")

    def _take(self, line: bytes) -> bytes:
        """The data of the event that a blank ``line`` ends, nothing otherwise."""
        if not line:
            data, self._data, self._size = b"\n".join(self._data), [], sum(map(len, self._unfinished))
            return data
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"id":
            self.last_id = value.decode(errors="replace")
        elif field == b"retry" and value.isdigit() and len(value) <= RETRY_DIGITS:
            self.retry_ms = int(value)
        return b""
