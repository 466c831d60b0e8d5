"""The program of the self-test: it tries what a hostile one would, and tells what it got away with.

Run by its path as ``python -I -S -E probe.py ARENA``; standard library only. Whether something was reached is told by
whoever waits at the other end, so only what nobody else can see is told here.
"""

import ctypes
import json
import mmap
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any

PTRACE_SEIZE = 0x4206
MEMORY_BYTES = 1 << 30
FILE_BYTES = 80_000_000
CONNECT_S = 2.0


def attempt(act: Callable[[], Any]) -> Any:
    """What came of it; an error is told by its name."""
    try:
        return act()
    except (OSError, MemoryError) as error:
        return f"error: {type(error).__name__} {error}"


def read_secret(path: str) -> str:
    """The content of a file that was not granted."""
    with open(path) as file:  # noqa: PTH123
        return file.read()


def write_outside(path: str) -> bool:
    """A file where nothing may be written."""
    with open(path, "w") as file:  # noqa: PTH123
        file.write("x")
    return True


def connect(family: int, address: Any) -> bool:
    """A stream connection."""
    with socket.socket(family, socket.SOCK_STREAM) as line:
        line.settimeout(CONNECT_S)
        line.connect(address)
    return True


def send(address: Any) -> bool:
    """A datagram."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.sendto(b"x", address)
    return True


def send_through_pair(path: str) -> bool:
    """A datagram to a unix socket, by turning one end of a harmless pair to another address."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, theirs:
        ours.connect(path)
        ours.send(b"x")
    return True


def digest_environment(pid: int) -> str:
    """Whose environment it is; the values stay here."""
    import hashlib

    with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
        return hashlib.sha256(file.read()).hexdigest()


def trace(pid: int) -> bool:
    """Attach as a debugger does, without stopping anybody, and let go."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(PTRACE_SEIZE, pid, None, None) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return True  # the kernel detaches when this program ends


def fork_many(wanted: int) -> int:
    """How many processes it got; all of them end here."""
    children = []
    try:
        for _ in range(wanted):
            child = os.fork()
            if child == 0:
                signal.pause()
            children.append(child)
    except OSError:
        return len(children)
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    return len(children)


def take_memory() -> int:
    """How much memory it was given at once; as long as nothing is put into it, nobody else misses it."""
    with mmap.mmap(-1, MEMORY_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        return len(memory)


def write_large(path: str) -> int:
    """How large a file it could make; the file has holes, the disk is not filled."""
    with open(path, "wb") as file:  # noqa: PTH123
        file.seek(FILE_BYTES - 1)
        file.write(b"x")
    return FILE_BYTES


def main(arena: dict[str, Any]) -> dict[str, Any]:
    """Try everything; the results by probe."""
    parent = arena["parent"]
    large = os.path.join(os.environ.get("TMPDIR") or arena["open"], "large")  # noqa: PTH118
    return {
        "secret": attempt(lambda: read_secret(arena["secret"])),
        "write": attempt(lambda: write_outside(arena["outside"])),
        "chmod": attempt(lambda: os.chmod(arena["target"], 0o640)),  # noqa: PTH101
        "tcp": attempt(lambda: connect(socket.AF_INET, tuple(arena["tcp"]))),
        "udp": attempt(lambda: send(tuple(arena["udp"]))),
        "unix": attempt(lambda: connect(socket.AF_UNIX, arena["unix"])),
        "pair": attempt(lambda: send_through_pair(arena["unix_datagram"])),
        "environ": attempt(lambda: digest_environment(parent)),
        "signal": attempt(lambda: os.kill(parent, 0)),
        "trace": attempt(lambda: trace(parent)),
        "pids": attempt(lambda: os.readlink("/proc/self/ns/pid")),  # noqa: PTH115
        "memory": attempt(take_memory),
        "file": attempt(lambda: write_large(large)),
        "fork": attempt(lambda: fork_many(arena["forks"])),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(json.loads(sys.argv[1]))))
