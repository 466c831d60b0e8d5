"""Programs that run beside a test: started, awaited, and always ended with everything they started."""

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.fleet.launcher import popen

UNDER_WAY: list["subprocess.Popen[bytes]"] = []
"""The programs that somebody still holds; any other that is there after its test was left behind."""


class NotReadyError(AssertionError):
    """A condition did not come true before its deadline."""


@dataclass(frozen=True)
class Running:
    """A program under way, and what it has printed so far."""

    process: "subprocess.Popen[bytes]"
    log: IO[bytes]

    def output(self) -> str:
        """Everything the program has written to stdout and stderr."""
        return os.pread(self.log.fileno(), os.fstat(self.log.fileno()).st_size, 0).decode(errors="replace")


def until(condition: Callable[[], bool], *, deadline_s: float, what: str) -> None:
    """Poll ``condition`` until it holds; past the deadline, fail naming ``what`` was awaited."""
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end:
            raise NotReadyError(f"{what}: still not so after {deadline_s:g} s")
        time.sleep(0.02)


def free_port() -> int:
    """A TCP port of the loopback interface that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def accepts_connections(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def homely(home: Path) -> dict[str, str]:
    """This process's environment with ``home`` as the user's home, so that no personal settings reach a test."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    return {**kept, "HOME": str(home)}


@contextlib.contextmanager
def running(
    argv: Sequence[str],
    *,
    ready: Callable[[Running], bool],
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    deadline_s: float = 150,
) -> Iterator[Running]:
    """Run ``argv`` in its own process group; the block starts when ``ready`` holds and ends with the group."""
    with tempfile.TemporaryFile() as log:
        process = popen(
            tuple(argv), env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        program = Running(process, log)
        UNDER_WAY.append(process)
        try:
            _await_ready(program, ready, deadline_s)
            yield program
        finally:
            _end(process)
            UNDER_WAY.remove(process)


def _await_ready(program: Running, ready: Callable[[Running], bool], deadline_s: float) -> None:
    def settled() -> bool:
        return program.process.poll() is not None or ready(program)

    name = " ".join(map(str, program.process.args[:4]))  # type: ignore[index]
    try:
        until(settled, deadline_s=deadline_s, what=f"`{name} ...` ready")
    except NotReadyError as error:
        raise NotReadyError(f"{error}; it printed:\n{program.output()}") from None
    if program.process.poll() is not None:
        raise NotReadyError(f"`{name} ...` ended with {program.process.returncode}:\n{program.output()}")


def _end(process: "subprocess.Popen[bytes]", *, grace_s: float = 5) -> None:
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace_s)
            return
