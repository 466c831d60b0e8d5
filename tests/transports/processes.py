"""Real servers to start, and proof that nothing of them is left."""

import asyncio
import os
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from toolcrib.transports.process.environment import child_environment
from toolcrib.transports.process.spawn import Spawner
from toolcrib.transports.process.spec import ExitReport, ProcessSpec
from toolcrib.transports.stdio import open_stdio

MARKER = "TOOLCRIB_TEST_MARKER"
ECHO = ("cat",)

FAMILY = """
import os, signal, sys, time

ready, tell = os.pipe()

def stay():
    os.write(tell, b"x")
    while True:
        time.sleep(60)

def same_group():
    stay()

def ignores_term():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    stay()

def own_session():
    os.setsid()
    if os.fork() == 0:
        stay()

kinds = [same_group, ignores_term, own_session]
for kind in kinds:
    if os.fork() == 0:
        kind()
        os._exit(0)
for _ in kinds:
    os.read(ready, 1)
print("{}", flush=True)
sys.stdin.readline()
"""
"""A server with three descendants, one of each kind that is hard to end; it ends with the first line or at EOF."""
FAMILY_SIZE = 4

STUBBORN_FAMILY = FAMILY.replace(
    "sys.stdin.readline()", "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True:\n    time.sleep(60)"
)
"""The same, and the server itself heeds neither the end of its input nor SIGTERM."""

STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("{}", flush=True)
while True:
    time.sleep(60)
"""
"""A server that ends neither at EOF nor when asked."""


def new_marker() -> str:
    return uuid.uuid4().hex


def python(script: str, *arguments: str) -> tuple[str, ...]:
    """The command that runs ``script`` with as quick a start as there is."""
    return (sys.executable, "-I", "-S", "-c", script, *arguments)


def spec(argv: tuple[str, ...], marker: str, *, cwd: str | None = None, grace_s: float = 0.2) -> ProcessSpec:
    """``argv`` with an environment that tells it from all other processes, and little patience."""
    env = child_environment({MARKER: marker}, os.environ)
    return ProcessSpec(argv, env, cwd, stop_grace_s=grace_s, kill_grace_s=grace_s)


def marked(marker: str) -> set[int]:
    """The processes that carry the marker."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            if marker.encode() in entry.read_bytes():
                found.add(int(entry.parent.name))
        except OSError:
            continue
    return found


def helpers(owner: int | None = None) -> set[int]:
    """The guard of ``owner``, its keeper and the reapers below it, dead ones that nobody reaped included.

    Spawners of programs that ``owner`` started, a gateway of another test among them, are not its own.
    """
    parents = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(entry.parent.name)] = int(entry.read_text().rpartition(") ")[2].split()[1])
        except OSError:
            continue
    found, newest = set(), {owner or os.getpid()}
    while newest:
        newest = {pid for pid, parent in parents.items() if parent in newest and is_helper(pid)}
        found |= newest
    return found


def is_helper(pid: int) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return command.startswith(b"toolcrib-reaper") or b"import spawner;" in command or not command


def exists(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def until(condition: Callable[[], object], *, deadline_s: float = 150) -> None:
    """Poll what has no event to wait for; fail when it does not come true in time."""
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, f"still not so after {deadline_s} s"
        await asyncio.sleep(0.01)


class Recorder:
    """A sink that remembers everything, and can be waited for."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.noise: list[bytes] = []
        self.ends: list[ExitReport | None] = []
        self._news = asyncio.Event()

    def message_received(self, line: bytes) -> None:
        self.messages.append(line)
        self._news.set()

    def noise_received(self, line: bytes) -> None:
        self.noise.append(line)
        self._news.set()

    def connection_lost(self, report: ExitReport | None) -> None:
        self.ends.append(report)
        self._news.set()

    async def until(self, condition: Callable[["Recorder"], object], *, deadline_s: float = 150) -> None:
        async with asyncio.timeout(deadline_s):
            while not condition(self):
                self._news.clear()
                await self._news.wait()

    async def messages_until(self, count: int) -> list[bytes]:
        await self.until(lambda me: len(me.messages) >= count)
        return self.messages

    async def end(self) -> ExitReport | None:
        await self.until(lambda me: me.ends)
        return self.ends[0]


async def until_only_one_is_left(spawner: Spawner, marker: str) -> None:
    """Start one more server: once it runs, all that was asked for before has been begun; it alone may stay."""
    last = await open_stdio(spawner, spec(ECHO, marker), Recorder())
    await until(lambda: marked(marker) == {last.pid} and len(helpers()) == 3)
    await last.close()
