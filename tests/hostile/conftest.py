"""Hostile servers as values, with their processes accounted for."""

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.fleet.servers import Launch

SCRIPT = Path(__file__).resolve().parent / "servers.py"


@dataclass(frozen=True)
class HostileServer:
    """How to start one hostile server, and which of its processes are still there."""

    launch: Launch
    pid_file: Path

    def pids(self) -> list[int]:
        """The server's process and those it started, in that order, over all its starts."""
        return [int(line) for line in self.pid_file.read_text().split()] if self.pid_file.exists() else []

    def survivors(self) -> list[int]:
        """The processes that have not ended; one that only waits to be reaped has."""
        return [pid for pid in self.pids() if is_running(pid)]


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[Callable[[str], HostileServer]]:
    """Give hostile servers by mode; whatever they leave behind ends with the test."""
    given: list[HostileServer] = []

    def give(mode: str) -> HostileServer:
        pid_file = tmp_path / f"{mode}-{len(given)}.pids"
        server = HostileServer(Launch(sys.executable, ("-I", "-S", str(SCRIPT), mode, str(pid_file))), pid_file)
        given.append(server)
        return server

    yield give
    for pid in [pid for server in given for pid in server.survivors()]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def is_running(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    return not Path("/proc/self").exists()
