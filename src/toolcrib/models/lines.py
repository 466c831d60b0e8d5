"""Bytes of a stream as they arrive, as the JSON documents in them."""

from collections.abc import Iterator

from toolcrib.core.errors import ProtocolError

LINE_MAX = 4_000_000


class Lines:
    """Bytes as they arrive, as the JSON texts in them: lines, or the ``data:`` of server-sent events."""

    def __init__(self, *, is_lines: bool) -> None:
        self._is_lines = is_lines
        self._rest = b""

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """The documents that are complete now."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if len(self._rest) > LINE_MAX:
            raise ProtocolError(f"The model's server sent a line of more than {LINE_MAX} bytes.")
        for line in lines:
            text = line.strip() if self._is_lines else line.strip().removeprefix(b"data:").strip()
            if text.startswith(b"{") and (self._is_lines or line.startswith(b"data:")):
                yield text
