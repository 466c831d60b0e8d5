"""How much work it is to read what a client sends, known before it is decoded.

Reading makes an object of each value, on the event loop and in one go: 4 MB of empty lists take 0.5 s, most of it to
look for garbage among them. A long text is no work, however many brackets it holds.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

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
