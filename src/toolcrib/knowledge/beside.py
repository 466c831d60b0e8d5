"""The program of the process beside an addition: passages come in, the index of their words goes out; parts of an
index come in, the merged one goes out.

Imports next to nothing, because the addition waits for it.
"""

import pickle
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

from toolcrib.knowledge.indexing import Fields, MergePart, index_words, merge_segments

HEAD = 8  # bytes that tell a length


def serve() -> None:
    """Do what comes in, until nothing more does."""
    with suppress(EOFError, BrokenPipeError):
        while True:
            write(sys.stdout.buffer, _do(*receive(sys.stdin.buffer)))


def _do(fields: list[Fields], parts: list[MergePart]) -> bytes:
    return merge_segments(parts) if parts else index_words(fields)


def send(pipe: IO[bytes], fields: Sequence[Fields], parts: Sequence[MergePart]) -> None:
    """Ask for the index of passages, or for one of several parts, whose bytes go as they are."""
    write(pipe, pickle.dumps((fields, [part._replace(encoded=b"") for part in parts]), pickle.HIGHEST_PROTOCOL))
    for part in parts:
        write(pipe, part.encoded)


def receive(pipe: IO[bytes]) -> tuple[list[Fields], list[MergePart]]:
    """What is asked for."""
    fields, parts = pickle.loads(read(pipe))  # noqa: S301, who started it sends it
    return fields, [part._replace(encoded=read(pipe)) for part in parts]


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
