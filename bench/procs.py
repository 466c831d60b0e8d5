"""Processes: start, tell apart, end. Only what was started here is ever ended. Linux only: it reads ``/proc``."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

BACKENDS = str(Path(__file__).resolve().parent / "backends")
POLL_S = 0.01


@dataclass(frozen=True)
class Process:
    """A process id together with its start time, so that a reused id is never mistaken for it."""

    pid: int
    started: str

    def is_alive(self) -> bool:
        return _started(self.pid) == self.started


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def wait_port(port: int, limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while not _accepts(port):
        if time.monotonic() > deadline:
            raise TimeoutError(f"nobody listens on port {port} after {limit_s} s")
        await asyncio.sleep(POLL_S)


def start(argv: Sequence[str], env: Mapping[str, str], cwd: Path, log: Path) -> subprocess.Popen[bytes]:
    """Start in a process group of its own, output to ``log``."""
    with log.open("ab") as out:
        return subprocess.Popen(
            argv, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )


async def stop(started: subprocess.Popen[bytes]) -> None:
    members = family(started.pid)
    signal_group(started.pid, signal.SIGTERM)
    await end(members, lambda: started.poll() is not None)


async def end(members: Sequence[Process], is_over: Callable[[], bool]) -> None:
    """Wait for the first of ``members``; ask, then force, its group; then its descendants that outlive it."""
    root = members[0].pid
    for insist, patience_s in ((None, 3.0), (signal.SIGTERM, 3.0), (signal.SIGKILL, 3.0)):
        if insist is not None:
            signal_group(root, insist)
        if await _holds_within(patience_s, is_over):
            break
    await _holds_within(1.0, lambda: not any(member.is_alive() for member in members[1:]))
    for member in members[1:]:
        if member.is_alive():
            os.kill(member.pid, signal.SIGKILL)


def signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, number)


def family(pid: int) -> list[Process]:
    """The process and all its descendants, the process itself first."""
    return [Process(member, _started(member)) for member in _descend(pid)]


def split(pid: int) -> tuple[list[int], list[int]]:
    """The contender's own processes, and those of the servers behind it."""
    own: list[int] = []
    behind: list[int] = []
    for member in _descend(pid):
        (behind if _is_backend(member) else own).append(member)
    return own, behind


async def _holds_within(limit_s: float, fact: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + limit_s
    while not fact():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(POLL_S)
    return True


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.2)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _descend(pid: int) -> Iterator[int]:
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in _read(children).split():
            yield from _descend(int(child))


def _is_backend(pid: int) -> bool:
    """Whether the program run is one of ours, not merely named in an argument."""
    argv = _read(Path(f"/proc/{pid}/cmdline")).split("\0")
    return len(argv) > 1 and argv[1].startswith(BACKENDS)


def _started(pid: int) -> str:
    """The kernel's start time of a running process; empty when there is none or it is a zombie."""
    fields = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return fields[19] if fields and fields[0] != "Z" else ""


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # the process ended meanwhile
        return ""
