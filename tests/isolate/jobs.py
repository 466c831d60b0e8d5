"""Functions for workers to run: this module is importable, as theirs must be."""

import os
import signal
import sys
import time
from dataclasses import dataclass

from toolcrib import tool


@dataclass
class Point:
    x: int
    y: int = 0


@tool(isolated=True)
def read_file(path: str) -> str:
    """Read a file."""
    with open(path) as file:
        return file.read()


@tool(isolated=True)
async def move(point: Point, by: int = 1) -> Point:
    """Arguments and results of a type of their own, in a coroutine."""
    return Point(point.x + by, point.y + by)


@tool(isolated=True)
def chatter() -> str:
    """Prints by every road to stdout."""
    print("from print")
    sys.stdout.write("from sys.stdout")
    os.write(1, b"from the descriptor")
    os.system("echo from a shell")
    return "the answer"


@tool(isolated=True)
def refuse(reason: str) -> None:
    """Raises."""
    raise ValueError(reason)


@tool(isolated=True)
def unreachable() -> None:
    """Fails as a service does that is away."""
    raise ConnectionError("nobody there")


@tool(isolated=True, memory_bytes=300_000_000)
def take(size: int) -> int:
    """Takes memory."""
    return len(bytearray(size))


@tool(isolated=True)
def die(number: int) -> None:
    """Ends by a signal."""
    os.kill(os.getpid(), number)
    signal.pause()


@tool(isolated=True)
def leave(code: int) -> None:
    """Ends without an answer."""
    print("going", file=sys.stderr)
    os._exit(code)


@tool(isolated=True)
def linger(note: str) -> None:
    """Says who it is, then never ends."""
    with open(note, "w") as file:
        file.write(str(os.getpid()))
    while True:
        time.sleep(60)


@tool(isolation="limits")
def who() -> dict[str, int]:
    """Which process it is."""
    return {"pid": os.getpid()}


@tool(isolated=True)
def read_stdin() -> str:
    """Reads what is not there."""
    return sys.stdin.read()


seen: list[int] = []


def count_up(given: dict[str, int]) -> bytes:
    """Says how often it was called in this process; ends it without a word if asked to."""
    seen.append(1)
    if given.get("exit"):
        os._exit(given["exit"])
    return b"%d" % len(seen)


def spend_time(given: dict[str, float]) -> bytes:
    """Keeps a processor busy."""
    until = time.process_time() + given["seconds"]
    while time.process_time() < until:
        pass
    return b"done"
