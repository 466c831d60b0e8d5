"""Running a Python function in a process of its own, within bounds: for one call, or for some that follow."""

import asyncio
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from toolcrib.core.errors import ToolFailed
from toolcrib.core.kinds import IsolationLevel
from toolcrib.isolate.helper import import_path
from toolcrib.isolate.levels import IsolationWanted
from toolcrib.isolate.plan import Host, confine, is_too_wide
from toolcrib.isolate.proof import Prover
from toolcrib.isolate.run import FinishedProgram, run_once
from toolcrib.transports.process.environment import child_environment
from toolcrib.transports.process.spawn import Process, Spawner
from toolcrib.transports.process.spec import ProcessSpec
from toolcrib.transports.stdio import PipeReader, PipeWriter, StderrRing

HEAD = 4  # bytes that tell a length


class IdleWorker:
    """One worker; whoever gets no answer from it, or stops waiting for one, closes it and takes another."""

    def __init__(self, process: Process, request: bytes) -> None:
        self._process = process
        self._heard = bytearray()
        self._stderr = StderrRing()
        self._waiting: asyncio.Future[bytes] | None = None
        self._stdin = PipeWriter(process.stdin)
        self._readers = [
            PipeReader(process.stdout, self._take, self._end),
            PipeReader(process.stderr, self._stderr.append, lambda: None),
        ]
        self.calls = 0
        self.has_ended = False
        """Whether it will answer nothing more."""
        self._send(request)

    async def ask(self, given: Mapping[str, Any]) -> bytes:
        """What the function returned; raises ``ToolFailed`` if the call ended without an answer."""
        self.calls += 1
        self._waiting = asyncio.get_running_loop().create_future()
        if self.has_ended:
            self._end()
        self._send(msgspec.json.encode(given))
        answer = await self._waiting
        if not answer:
            self._readers[1].read()
            said = self._stderr.lines(20)
            raise ToolFailed("A worker ended without an answer.", details={"stderr": said})
        return answer

    def close(self) -> None:
        """End it, whatever it is doing."""
        self._stdin.close()
        for reader in self._readers:
            reader.close()
        self._process.close_pipes()
        self._process.abandon()

    def _send(self, value: bytes) -> None:
        try:
            self._stdin.write(len(value).to_bytes(HEAD, "big") + value)
        except (OSError, ValueError):  # it has ended already
            self._end()

    def _take(self, chunk: bytes) -> None:
        self._heard += chunk
        size = int.from_bytes(self._heard[:HEAD], "big")
        if len(self._heard) >= HEAD + size:
            answer = bytes(self._heard[HEAD : HEAD + size])
            self._heard.clear()
            self._settle(answer)

    def _end(self) -> None:
        self.has_ended = True
        self._settle(b"")

    def _settle(self, answer: bytes) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(answer)


ANSWER_MAX = 64 << 20
_PROGRAM = Path(__file__).with_name("child.py")


@dataclass(frozen=True, slots=True)
class Task:
    """One function to call: ``module:function`` takes a JSON value and returns bytes."""

    name: str
    """What people call it."""
    target: str
    given: Mapping[str, Any]
    modules: tuple[str, ...]
    """Files and packages the worker has to import besides what is installed."""


class Workers:
    """Calls functions in workers; nothing is kept between two calls."""

    def __init__(self, spawner: Spawner, host: Host, prover: Prover, env: Mapping[str, str]) -> None:
        self._spawner, self._host, self._prover, self._env = spawner, host, prover, env

    async def run(self, task: Task, wish: IsolationWanted) -> bytes:
        """What the function returned; raises ``ToolFailed`` if its worker ended without an answer."""
        request = msgspec.json.encode({"path": import_path(), "target": task.target, "given": task.given})
        return _answer(task, await run_once(self._spawner, await self._spec(task, wish), request, ANSWER_MAX))

    async def stay(self, task: Task, wish: IsolationWanted) -> IdleWorker:
        """A worker that can be asked again and again; each call runs in a copy of it, within the limits of the wish."""
        process = await self._spawner.start(await self._spec(task, wish))
        return IdleWorker(process, msgspec.json.encode({"path": import_path(), "target": task.target, "stays": True}))

    async def _spec(self, task: Task, wish: IsolationWanted) -> ProcessSpec:
        settled = wish.at(await self._prover.settle(wish))
        restricts = IsolationLevel(settled.level).rank >= IsolationLevel.CONFINED.rank
        places = importable(self._host.home, task.modules) if restricts else ()
        argv = (sys.executable, "-I", str(_PROGRAM))
        spec = ProcessSpec(argv, child_environment({}, self._env), stop_grace_s=0.0, kill_grace_s=0.0)
        return confine(spec, replace(settled, read=(*settled.read, *places)), self._host)


def importable(home: Path, modules: tuple[str, ...]) -> tuple[str, ...]:
    """What a worker must be able to read to import what this process can; never a whole home directory."""
    paths = [Path(entry) for entry in (*import_path(), sys.prefix, sys.base_prefix)]
    bearable = [str(path) for path in paths if path.exists() and not is_too_wide(path.resolve(), home)]
    return tuple(dict.fromkeys([*bearable, *modules, str(_PROGRAM)]))


def _answer(task: Task, finished: FinishedProgram) -> bytes:
    if finished.is_cut:
        raise ToolFailed(f"{task.name} failed: it returned more than {ANSWER_MAX >> 20} MB.")
    if finished.exit is not None and finished.exit.code == 0 and finished.output:
        return finished.output
    said = f" It wrote: {finished.stderr[-1]!r}." if finished.stderr else ""
    raise ToolFailed(
        f"{task.name} failed: its worker ended without an answer ({_describe_end(finished)}).{said}",
        hint="It may have used up its memory or processor time.",
        details={"exit_code": finished.exit.code if finished.exit else None, "stderr": list(finished.stderr)},
    )


def _describe_end(finished: FinishedProgram) -> str:
    return "it was stopped" if finished.exit is None else str(finished.exit)


def module_places(module: str) -> tuple[str, ...]:
    """The files a module is imported from: its outermost package, or the one file."""
    outermost = sys.modules.get(module.partition(".")[0])
    file = getattr(outermost, "__file__", None)
    if file is None:
        return tuple(str(place) for place in getattr(outermost, "__path__", ()))
    return (os.path.dirname(file) if hasattr(outermost, "__path__") else file,)  # noqa: PTH120
