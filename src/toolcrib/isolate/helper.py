"""The program of a helper process: names a function, hands it bytes, sends back what it returns.

Imports next to nothing, because a call waits for it.
"""

import gc
import os
import resource
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import IO

HEAD = 8  # bytes that tell a length
MEMORY_MAX = 2 << 30
DONE, FAILED = b"+", b"-"


def import_path() -> list[str]:
    """Where this process finds its modules, as seen from anywhere."""
    return [os.path.abspath(entry or ".") for entry in sys.path]  # noqa: PTH100  pathlib would have to be imported


def serve(limit_s: float) -> None:
    """Do what comes in, until nothing more does; a piece of work may use so much of a processor before it is ended."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
    gc.disable()  # going through millions of fresh lists again and again takes most of the time of reading them
    with suppress(EOFError, BrokenPipeError):
        while True:
            target, *parts = _receive(sys.stdin.buffer)
            _send(sys.stdout.buffer, _do(target.decode(), parts, limit_s))
            del parts
            gc.collect()


def _do(target: str, parts: Sequence[bytes], limit_s: float) -> bytes:
    module, _, name = target.partition(":")
    function = getattr(import_module(module), name)
    signal.setitimer(signal.ITIMER_PROF, limit_s)  # nobody catches the signal: it ends the process
    try:
        answer: bytes = function(*parts)
    except MemoryError:
        raise SystemExit(1) from None  # too much to ask: whoever asked is told as if it took too long
    except Exception as error:
        return FAILED + f"{type(error).__name__}: {error}".encode(errors="replace")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return DONE + answer


def head_of(parts: Sequence[bytes]) -> bytes:
    """How many parts follow, and how long each is."""
    return b"".join(size.to_bytes(HEAD, "big") for size in (len(parts), *map(len, parts)))


def _receive(pipe: IO[bytes]) -> list[bytes]:
    count = int.from_bytes(_read(pipe, HEAD), "big")
    sizes = [int.from_bytes(_read(pipe, HEAD), "big") for _ in range(count)]
    return [_read(pipe, size) for size in sizes]


def _read(pipe: IO[bytes], size: int) -> bytes:
    value = pipe.read(size)
    if len(value) < size:
        raise EOFError
    return value


def _send(pipe: IO[bytes], answer: bytes) -> None:
    pipe.write(len(answer).to_bytes(HEAD, "big"))
    pipe.write(answer)
    pipe.flush()
