"""Lines out of a byte stream, however the stream is cut: stdio speaks one JSON message per line."""

from collections.abc import Callable

LINE_LIMIT = 16 * 1024 * 1024
HEAD_BYTES = 256


def _ignore(head: bytes) -> None:
    """For those who do not ask about overlong lines."""


class LineFramer:
    """Turns chunks into lines, in time linear to their bytes.

    A line longer than ``limit`` is never kept: ``on_overlong`` gets its first bytes as soon as the limit is
    passed, the rest is skipped up to the next newline, and the lines after it come out as if nothing happened.
    """

    __slots__ = ("_limit", "_on_overlong", "_skipping", "_unfinished")

    def __init__(self, limit: int = LINE_LIMIT, on_overlong: Callable[[bytes], None] = _ignore) -> None:
        self._limit = limit
        self._on_overlong = on_overlong
        self._unfinished = bytearray()
        self._skipping = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that ``chunk`` completes: without their line ends, blank ones left out."""
        pieces = chunk.split(b"\n")
        remainder = pieces.pop()
        if pieces and (self._unfinished or self._skipping):
            pieces[0] = self._complete(pieces[0])
        lines = [line for piece in pieces if (line := self._accept(piece))]
        if remainder:
            self._keep(remainder)
        return lines

    def _complete(self, piece: bytes) -> bytes:
        """The whole line that ends with ``piece``; empty if it was given up."""
        self._keep(piece)
        line = bytes(self._unfinished)
        self._unfinished = bytearray()
        self._skipping = False
        return line

    def _accept(self, line: bytes) -> bytes:
        if len(line) > self._limit:
            self._give_up(line)
            return b""
        line = line.removesuffix(b"\r")
        return b"" if line.isspace() else line

    def _keep(self, piece: bytes) -> None:
        if self._skipping:
            return
        self._unfinished += piece
        if len(self._unfinished) > self._limit:
            self._give_up(self._unfinished)
            self._unfinished = bytearray()
            self._skipping = True

    def _give_up(self, line: bytes | bytearray) -> None:
        # Never more than the limit itself, so that the head does not depend on how the stream was cut.
        self._on_overlong(bytes(line[: min(HEAD_BYTES, self._limit)]))
