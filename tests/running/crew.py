"""The runner's side of a worker: starting it, what it says, and the processes below it."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.running.keeper import children_of, cpu_s_of, descendants_of, end_all

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PYTESTS_OWN = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")

Message = dict[str, Any]


@dataclass(frozen=True)
class Bounds:
    """Where tests are, and how patient the runner is."""

    root: Path = ROOT
    silent_s: float = 900.0
    """After which a worker that says nothing is ended; pytest ends a test that hangs sooner, if it can."""
    strays_s: float = 60.0
    """What a process that its test left behind has to end by itself."""
    clock: Callable[[], float] = time.monotonic


@dataclass(frozen=True)
class Task:
    """A file of tests to run: all of them, or those in ``only``, but none of those in ``without``."""

    path: str
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    kin: str = ""
    """All of one name are run by the same worker."""


@dataclass
class WorkerProcess:
    """One worker under way."""

    number: int
    keeper: "subprocess.Popen[bytes]"
    reading: int
    writing: int
    log: Path
    pid: int = 0
    """The worker itself, below its keeper; known once it has said so."""
    test: str = ""
    """The test under way."""
    clock: Callable[[], float] = time.monotonic
    heard_at: float = 0.0
    """When it said something last."""
    given: dict[str, Task] = field(default_factory=dict)
    """The files it was handed and has not done yet."""
    finished: dict[str, list[str]] = field(default_factory=dict)
    """Which of their tests it has run."""
    strays: dict[int, tuple[str, float]] = field(default_factory=dict)
    """Processes that were there after a file, with its path and when they were first seen."""
    used_s: tuple[float, float] = (0.0, 0.0)
    """The seconds that had passed, and those of CPU, when it was done with a file last."""
    _rest: bytes = b""

    def messages(self) -> Iterator[Message] | None:
        """What it said since; none where it has ended."""
        data = os.read(self.reading, 1 << 20)
        if not data:
            return None
        self.heard_at = self.clock()
        *lines, self._rest = (self._rest + data).split(b"\n")
        return map(json.loads, lines)

    def answer(self, **said: Any) -> None:
        with contextlib.suppress(BrokenPipeError):
            os.write(self.writing, json.dumps(said).encode() + b"\n")

    def lap(self) -> tuple[float, float]:
        """The seconds since it was done with a file last: by the clock, and of CPU, with all programs it started."""
        before_s, before_cpu_s = self.used_s
        self.used_s = self.clock(), sum(map(cpu_s_of, [self.keeper.pid, *descendants_of(self.keeper.pid)]))
        return self.used_s[0] - before_s, self.used_s[1] - before_cpu_s

    def end(self) -> None:
        """At once, with everything below it."""
        end_all(descendants_of(self.keeper.pid))

    def close(self) -> float:
        """Wait for its end; returns the seconds of CPU that it and everything below it used."""
        os.close(self.writing)
        os.close(self.reading)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.keeper.pid, signal.SIGTERM)  # ``terminate`` would wait for one that has ended, in our place
        _, status, usage = os.wait4(self.keeper.pid, 0)
        self.keeper.returncode = os.waitstatus_to_exitcode(status)
        return usage.ru_utime + usage.ru_stime

    def look_for_strays(self, path: str, kept: Sequence[int] = (), launchers: Sequence[int] = ()) -> None:
        """Note the processes that nobody holds after a file is done."""
        orphans = [pid for pid in children_of(self.keeper.pid) if pid != self.pid]
        direct = [pid for parent in (self.pid, *launchers) for pid in children_of(parent)]
        for pid in (*orphans, *direct):
            if pid not in (*self.strays, *kept, *launchers) and _is_left_behind(pid):
                self.strays[pid] = (path, self.clock())

    def end_strays(self, patience_s: float) -> list[tuple[str, str]]:
        """Kill those that did not end by themselves in time; returns the file and the command of each."""
        ended = []
        for pid, (path, since) in list(self.strays.items()):
            if not _is_left_behind(pid):
                del self.strays[pid]
            elif self.clock() - since > patience_s:
                ended.append((path, _command_of(pid)))
                del self.strays[pid]
                end_all([*descendants_of(pid), pid])
        return ended


def _is_left_behind(pid: int) -> bool:
    """Whether it runs, and is not part of Python's own machinery."""
    with contextlib.suppress(OSError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state not in "ZX" and not any(own in _command_of(pid) for own in PYTESTS_OWN)
    return False


def _command_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:300]
    return ""


def start_worker(number: int, bounds: Bounds, scratch: Path, env: Mapping[str, str]) -> WorkerProcess:
    """A worker with a home and a folder for temporary files of its own."""
    home = scratch / f"home{number}"
    home.mkdir(exist_ok=True)
    down, up = os.pipe(), os.pipe()
    options = ["-p", "no:cacheprovider", "--tb=short", f"--basetemp={scratch / str(number)}"]
    command = [sys.executable, str(HERE / "worker.py"), str(down[0]), str(up[1]), *options]
    log = scratch / f"{number}.log"
    with log.open("ab") as file:
        keeper = subprocess.Popen(
            [sys.executable, "-S", str(HERE / "keeper.py"), *command],
            cwd=bounds.root,
            env={**env, "HOME": str(home), "TOOLCRIB_TEST_WORKER": str(number)},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            pass_fds=(down[0], up[1]),
            start_new_session=True,
        )
    os.close(down[0])
    os.close(up[1])
    now = bounds.clock()
    return WorkerProcess(number, keeper, up[0], down[1], log, clock=bounds.clock, heard_at=now, used_s=(now, 0.0))
