"""The program of the process beside an addition: passages come in, the index of their words goes out.

Imports next to nothing, because the addition waits for it.
"""

import pickle
import sys
from contextlib import suppress
from typing import IO

from toolcrib.knowledge.indexing import Fields, index_words

HEAD = 8  # bytes that tell a length


def serve() -> None:
    """Index what comes in, until nothing more does."""
    with suppress(EOFError, BrokenPipeError):
        while True:
            fields: list[Fields] = pickle.loads(read(sys.stdin.buffer))  # noqa: S301, who started it sends it
            write(sys.stdout.buffer, index_words(fields))


def write(pipe: IO[bytes], value: bytes) -> None:
    """Send one value."""
    pipe.write(len(value).to_bytes(HEAD, "big"))
    pipe.write(value)
    pipe.flush()


def read(pipe: IO[bytes]) -> bytes:
    """One value; raises ``EOFError`` if there is none, or not the whole of it."""
    head = pipe.read(HEAD)
    size = int.from_bytes(head, "big")
    value = pipe.read(size) if len(head) == HEAD else b""
    if not size or len(value) < size:
        raise EOFError
    return value
