"""Starting servers under a keeper that ends what is left of them. No threads, no child watcher.

The keeper is the small program next door (``spawner.py``), which is started when the first server is. Whoever
holds a ``Process`` holds the line to its keeper: closing that line, on purpose or by dying, ends the server.
"""

import asyncio
import contextlib
import io
import json
import marshal
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from toolcrib.core.errors import SourceUnavailable
from toolcrib.core.framing import LineFramer
from toolcrib.transports.process.spec import ExitReport, ProcessSpec, explain_failure, explained, refuse

STARTS_AT_ONCE = 16  # keeps the descriptors in flight far below what the kernel allows
STOP_MARGIN_S = 2.0
REAP_RETRY_S = 0.001
START = "import sys; sys.path.append(sys.argv[1]); import spawner; spawner.main(int(sys.argv[2]))"
"""Imports the program instead of running its file: compiled once, not each time, it starts 4 ms sooner."""
_LOADER_VARIABLES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


class Process:
    """A server and the line to its keeper. The three pipes belong to whoever asked for the process."""

    def __init__(self, spec: ProcessSpec, pipes: tuple[io.FileIO, io.FileIO, io.FileIO], line: socket.socket) -> None:
        self.spec = spec
        self.pid = 0
        self.stdin, self.stdout, self.stderr = pipes
        self._loop = asyncio.get_running_loop()
        self.started: asyncio.Future[SourceUnavailable | None] = self._loop.create_future()
        self.exited: asyncio.Future[ExitReport | None] = self._loop.create_future()
        """Done when the server itself has ended; ``None`` if its keeper could not tell how."""
        self.gone: asyncio.Future[int] = self._loop.create_future()
        """Done when nothing of the server is left; how many processes it had left behind."""
        self._line = line
        self._reports = LineFramer()
        self._loop.add_reader(line.fileno(), self._hear)

    @property
    def longest_stop_s(self) -> float:
        """The time after which even an unwilling server is gone."""
        return self.spec.stop_grace_s + self.spec.kill_grace_s + STOP_MARGIN_S

    async def submit(self, request: bytes) -> None:
        """Tell the keeper what to run."""
        await self._loop.sock_sendall(self._line, request)

    def stop(self) -> None:
        """Close stdin, and have the keeper end the server and everything below it; ``gone`` tells when."""
        if not self.stdin.closed:
            self._loop.remove_writer(self.stdin.fileno())
            self.stdin.close()
        with contextlib.suppress(OSError):
            self._line.send(b"stop\n")

    def abandon(self) -> None:
        """Close the line at once: the keeper ends the server alone, nobody waits for it."""
        if self._line.fileno() < 0:
            return
        self._loop.remove_reader(self._line.fileno())
        self._line.close()
        _settle(self.started, refuse(self.spec, f"{self.spec.argv[0]!r} was not started: its keeper ended first."))
        _settle(self.exited, None)
        _settle(self.gone, 0)

    def close_pipes(self) -> None:
        """Close our ends of the three pipes."""
        for pipe in (self.stdin, self.stdout, self.stderr):
            pipe.close()

    def _hear(self) -> None:
        try:
            chunk = self._line.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        for report in self._reports.feed(chunk):
            self._learn(json.loads(report))
        if not chunk:
            self.abandon()

    def _learn(self, report: Mapping[str, Any]) -> None:
        match report:
            case {"pid": pid}:
                self.pid = pid
                _settle(self.started, None)
            case {"failed": number, "step": step}:
                _settle(self.started, explain_failure(self.spec, number, step))
            case {"exit": code}:
                _settle(self.exited, ExitReport(code))
            case {"gone": count}:
                _settle(self.gone, count)
                self.abandon()


class SpawnerProgram:
    """The running ``spawner.py``, and our end of its socket; reaped as soon as it ends."""

    def __init__(self, start: str) -> None:
        self._loop = asyncio.get_running_loop()
        self.line, theirs = socket.socketpair()
        with theirs:
            self._running = run_program(theirs.fileno(), start)
        self.line.setblocking(False)
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(self.line.fileno(), self._see_end)  # it never says anything else

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._running.pid

    @property
    def is_running(self) -> bool:
        """Whether servers can be asked for, and the guard is there in case its keeper is killed."""
        return self._running.poll() is None and self.line.fileno() >= 0

    def dismiss(self) -> None:
        """Let it end as soon as its servers have; ``ended`` tells when."""
        with contextlib.suppress(OSError):
            self.line.shutdown(socket.SHUT_WR)

    def _see_end(self) -> None:
        self._loop.remove_reader(self.line.fileno())
        self.line.close()
        self._reap()

    def _reap(self) -> None:
        # Its sockets close a moment before it can be reaped.
        if self._running.poll() is None:
            self._loop.call_later(REAP_RETRY_S, self._reap)
        else:
            _settle(self.ended, None)


class Spawner:
    """Starts processes; one per crib. The program behind it starts with the first process, and again if it died."""

    def __init__(self, start: str = START) -> None:
        self._start = start
        self._program: SpawnerProgram | None = None
        self._turns = asyncio.Semaphore(STARTS_AT_ONCE)
        self._processes: set[Process] = set()
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The process that starts servers, while there is one."""
        return self._program.pid if self._program is not None and self._program.is_running else None

    async def start(self, spec: ProcessSpec) -> Process:
        """Run ``spec``; returns once it runs, raises ``SourceUnavailable`` if it cannot.

        Cancelled at any moment, it leaves nothing behind: the keeper notices the closed line.
        """
        check_platform()
        request = encode_request(spec)
        async with self._turns:
            with contextlib.ExitStack() as undo, explained(spec):
                process = self._hand_over(spec, undo)
                await process.submit(request)
                failure = await process.started
                if failure is not None:
                    raise failure
                undo.pop_all()
        return process

    def _hand_over(self, spec: ProcessSpec, undo: contextlib.ExitStack) -> Process:
        """Give the keeper its ends of the pipes and of the line; ``undo`` takes everything back."""
        if self._closed:
            raise refuse(spec, f"{spec.argv[0]!r} was not started: toolcrib is closing.")
        with open_pairs() as (pipes, line, theirs):
            process = Process(spec, pipes, line)
            undo.callback(process.close_pipes)
            undo.callback(process.abandon)
            socket.send_fds(self._connect(), [b"s"], theirs)
        self._processes.add(process)
        process.gone.add_done_callback(lambda _: self._processes.discard(process))
        return process

    def _connect(self) -> socket.socket:
        """The line to the running program; starting it takes a millisecond, it need not be awaited."""
        if self._program is not None and not self._program.is_running:
            self._program.dismiss()
            self._program = None
        self._program = self._program or SpawnerProgram(self._start)
        return self._program.line

    async def close(self) -> None:
        """End every process that still runs, then the program; nothing can be started any more."""
        self._closed = True
        with contextlib.ExitStack() as release:
            release.callback(self._let_go)
            await stop_all(tuple(self._processes))
        if self._program is not None:
            await asyncio.wait([self._program.ended], timeout=STOP_MARGIN_S)

    def _let_go(self) -> None:
        for process in tuple(self._processes):
            process.abandon()
        if self._program is not None:
            self._program.dismiss()


async def stop_all(processes: tuple[Process, ...]) -> None:
    """Stop them side by side; returns when all are gone, or when the most patient one should be."""
    for process in processes:
        process.stop()
    if processes:
        await asyncio.wait([process.gone for process in processes], timeout=max(p.longest_stop_s for p in processes))


def run_program(fd: int, start: str) -> "subprocess.Popen[bytes]":
    """Start ``spawner.py`` in its own session, with nothing of ours but its socket; no secret is in its environment."""
    options = ["-I", "-S", "-E", *(["-B"] if sys.dont_write_bytecode else [])]
    argv = [sys.executable, *options, "-c", start, str(Path(__file__).parent), str(fd)]
    env = {name: os.environ[name] for name in _LOADER_VARIABLES if name in os.environ}
    null = subprocess.DEVNULL
    return subprocess.Popen(  # noqa: S603
        argv, env=env, stdin=null, stdout=null, stderr=null, pass_fds=[fd], start_new_session=True
    )


@contextlib.contextmanager
def open_pairs() -> Iterator[tuple[tuple[io.FileIO, io.FileIO, io.FileIO], socket.socket, list[int]]]:
    """Our pipes, our line, and the other ends of all four, which close afterwards; ours only if one fails to open."""
    with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
        opened = [_open_pipe(mode, ours, theirs) for mode in ("wb", "rb", "rb")]
        line, other = socket.socketpair()
        ours.enter_context(line)
        theirs.enter_context(other)
        line.setblocking(False)
        stdin, stdout, stderr = (mine for mine, _ in opened)
        ours.pop_all()
        yield (stdin, stdout, stderr), line, [*(fd for _, fd in opened), other.fileno()]


def _open_pipe(mode: str, ours: contextlib.ExitStack, theirs: contextlib.ExitStack) -> tuple[io.FileIO, int]:
    reading, writing = os.pipe()
    mine, other = (reading, writing) if mode == "rb" else (writing, reading)
    theirs.callback(os.close, other)
    os.set_blocking(mine, False)
    return ours.enter_context(io.FileIO(mine, mode)), other


def encode_request(spec: ProcessSpec) -> bytes:
    """``spec`` as the reaper reads it, which runs in the same Python: length, then a marshalled mapping."""
    argv = [os.fsencode(word) for word in spec.argv]
    env = [os.fsencode(f"{name}={value}") for name, value in spec.env.items()]
    cwd = os.fsencode(spec.cwd or "")
    if not argv or any(b"\0" in text for text in (*argv, *env, cwd)):
        raise refuse(spec, "The command is empty or contains a zero byte.", hint="Check command, args and env.")
    confinement = None if spec.confinement is None else spec.confinement.bounds()
    graces = {"stop_grace_s": spec.stop_grace_s, "kill_grace_s": spec.kill_grace_s}
    request = marshal.dumps({"argv": argv, "env": env, "cwd": cwd, "confinement": confinement, **graces})
    return len(request).to_bytes(4, "big") + request


def check_platform() -> None:
    """Refuse where there are no process groups and no descriptor passing."""
    if sys.platform == "win32":
        raise SourceUnavailable("Servers on stdio need Linux or macOS.", hint="On Windows, run toolcrib inside WSL.")


def _settle(future: "asyncio.Future[Any]", outcome: object) -> None:
    if not future.done():
        future.set_result(outcome)
