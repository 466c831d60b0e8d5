"""Messages out of a byte stream, and how much work it is to read one."""

import gc
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LINE_LIMIT = 16 * 1024 * 1024
HEAD_BYTES = 256
PIECES_MAX = 4096
SPACE, NEWLINE = ord(" "), ord("\n")


def _ignore(head: bytes) -> None:
    """For those who do not ask about overlong lines."""


class LineFramer:
    """Turns chunks into lines, in time linear to their bytes.

    A line longer than ``limit`` is never kept: ``on_overlong`` gets its first bytes as soon as the limit is
    passed, the rest is skipped up to the next newline, and the lines after it come out as if nothing happened.
    """

    __slots__ = ("_blocks", "_kept", "_limit", "_on_overlong", "_skipping", "_unfinished")

    def __init__(self, limit: int = LINE_LIMIT, on_overlong: Callable[[bytes], None] = _ignore) -> None:
        self._limit = limit
        self._on_overlong = on_overlong
        # The pieces as they came: joined when the line is whole, which takes a tenth of the time of a growing buffer.
        # Where a line drips they become blocks: a byte on its own would take forty.
        self._unfinished: list[bytes] = []
        self._blocks: list[bytes] = []
        self._kept = 0
        self._skipping = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that ``chunk`` completes: without their line ends, blank ones left out."""
        if chunk and chunk[-1] != NEWLINE and b"\n" not in chunk:  # found twenty times as fast as split apart
            self._keep(chunk)
            return []
        pieces = chunk.split(b"\n")
        remainder = pieces.pop()
        if pieces and (self._kept or self._skipping):
            pieces[0] = self._complete(pieces[0])
        limit = self._limit
        # Most lines end as JSON does: they are taken as they are, which saves a call for each.
        lines = [
            line
            for piece in pieces
            if (line := piece if piece and piece[-1] > SPACE and len(piece) <= limit else self._accept(piece))
        ]
        if remainder:
            self._keep(remainder)
        return lines

    def _complete(self, piece: bytes) -> bytes:
        """The whole line that ends with ``piece``; empty if it was given up."""
        self._keep(piece)
        self._skipping = False
        return self._take()

    def _take(self) -> bytes:
        """All that was kept, which is forgotten."""
        whole = b"".join((*self._blocks, *self._unfinished))
        self._blocks, self._unfinished, self._kept = [], [], 0
        return whole

    def _accept(self, line: bytes) -> bytes:
        if len(line) > self._limit:
            self._give_up(line)
            return b""
        line = line.removesuffix(b"\r")
        return b"" if line.isspace() else line

    def _keep(self, piece: bytes) -> None:
        if self._skipping:
            return
        self._unfinished.append(piece)
        self._kept += len(piece)
        if self._kept > self._limit:
            self._give_up(self._take())
            self._skipping = True
        elif len(self._unfinished) > PIECES_MAX:
            self._blocks.append(b"".join(self._unfinished))
            self._unfinished = []

    def _give_up(self, line: bytes) -> None:
        # Never more than the limit itself, so that the head does not depend on how the stream was cut.
        self._on_overlong(bytes(line[: min(HEAD_BYTES, self._limit)]))


MESSAGE_BYTES = 4 * 1024 * 1024
"""The largest message or body that is taken from a client."""
SMALL_BYTES = 64 * 1024
"""Never much work."""
WORK_MAX = 500_000
"""Some 40 ms: so many values in lists, or a third as many lists and objects, or a ninth as many members of objects."""
TEXTS_MAX = 200_000
TOO_MANY_VALUES = (
    f"It holds too many values at once: more than {WORK_MAX:,} in lists, {WORK_MAX // 3:,} lists or objects, "
    f"or {WORK_MAX // 9:,} members of objects. Send less at once."
)

DENSE_BYTES = 8 * 1024 * 1024
MARKS_MAX = 5_000_000
"""Passing over so many values without making objects of them takes some 30 ms."""

_STEPS = (61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107, 109, 113, 127)
"""Primes, so that what is repeated is not met at the same place each time."""
_UNMARKED = bytes(byte for byte in range(256) if byte not in b'"[{,:')


def is_bulky(data: bytes) -> bool:
    """Whether decoding so much JSON would hold up the event loop."""
    if len(data) <= SMALL_BYTES or _work(data) <= WORK_MAX:
        return False
    marks = _outside_texts(data)
    return marks is None or _work(marks) > WORK_MAX


def _work(marks: bytes) -> int:
    """As if nothing stood in texts: a member is eight times as much as a value, for its name is kept, too."""
    return marks.count(b",") + 2 * (marks.count(b"[") + marks.count(b"{")) + 8 * marks.count(b":")


def _outside_texts(data: bytes) -> bytes | None:
    """What stands outside of texts, if there are not too many of them to tell."""
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = data.translate(None, _UNMARKED)
    return None if marks.count(b'"') > 2 * TEXTS_MAX else b"".join(marks.split(b'"')[::2])


def is_dense(data: bytes) -> bool:
    """Whether even passing over so much JSON would hold up the event loop, by samples nobody can foresee.

    For what a server sends, which may be longer: 16 MB of text take 7 ms, as much of small numbers 60 ms.
    """
    if len(data) <= DENSE_BYTES:
        return False
    sample = _sample(data)
    return len(data) * _marks_in(sample) > MARKS_MAX * len(sample)


def may_have(data: memoryview, mark: bytes, count: int) -> bool:
    """Whether more than about so many of a byte are in it, by a few samples nobody can foresee; for who can still
    refuse what has more."""
    step = 8 * secrets.choice(_STEPS) + 1
    sample = bytes(data[secrets.randbelow(step) :: step])
    return len(data) * sample.count(mark) > count * len(sample)


def _sample(data: bytes) -> bytes:
    step = secrets.choice(_STEPS)
    return data[secrets.randbelow(step) :: step]


def _marks_in(sample: bytes) -> int:
    """Those of JSON in a text are half backslashes, and count less."""
    return len(sample) - len(sample.translate(None, b'"[{,:')) - sample.count(b"\\")


@contextmanager
def without_collecting() -> Iterator[None]:
    """Nothing that is read is garbage yet: looking for it meanwhile takes longer than the reading."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
