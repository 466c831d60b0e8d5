"""Files and terminals dressed as pipes: an event loop can only wait for pipes and sockets."""

import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

CHUNK = 65_536


@contextmanager
def stdio_as_pipes() -> Iterator[None]:
    """Have stdin and stdout be pipes; where they are something else, threads carry the bytes."""
    writer = None
    if not _is_pipe(0):
        read, write = os.pipe()
        _carry(os.dup(0), write)
        _put(read, 0)
    if not _is_pipe(1):
        read, write = os.pipe()
        writer = _carry(read, os.dup(1))
        _put(write, 1)
    try:
        yield
    finally:
        if writer is not None:
            os.dup2(2, 1)  # the last holder of the pipe lets go, so that what is in it is written out
            writer.join(timeout=5)


def _is_pipe(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _put(descriptor: int, place: int) -> None:
    os.dup2(descriptor, place)
    os.close(descriptor)


def _carry(source: int, target: int) -> threading.Thread:
    def carry() -> None:
        with suppress(OSError):
            while chunk := os.read(source, CHUNK):
                _write_all(target, chunk)
        os.close(target)

    thread = threading.Thread(target=carry, name="carry", daemon=True)
    thread.start()
    return thread


def _write_all(target: int, chunk: bytes) -> None:
    rest = memoryview(chunk)
    while rest:
        rest = rest[os.write(target, rest) :]
