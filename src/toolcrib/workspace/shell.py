"""Commands in the workspace: within its bounds, without a network unless it is switched on, and never for ever."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from toolcrib.core.errors import PermissionDenied
from toolcrib.core.kinds import AUTO, IsolationLevel
from toolcrib.core.requests import Result
from toolcrib.isolate.levels import GIB, IsolationWanted, ResourceLimits
from toolcrib.isolate.plan import Host, confine, find_program
from toolcrib.isolate.proof import Prover
from toolcrib.transports.process.environment import child_environment
from toolcrib.transports.process.spawn import Process, Spawner
from toolcrib.transports.process.spec import ProcessSpec
from toolcrib.transports.stdio import PipeReader
from toolcrib.workspace.files import said
from toolcrib.workspace.root import ASIDE, WorkspaceRoot, look, set_aside

SWEEP_S = 3.0
_KEPT_VARIABLES = ("PATH", "LANG", "LANGUAGE", "TZ", "HOME", "USER", "LOGNAME")


class Ends:
    """The beginning and the end of something long."""

    def __init__(self, most: int) -> None:
        self._half = most // 2
        self._head, self._tail = bytearray(), bytearray()
        self.size = 0

    def add(self, chunk: bytes) -> None:
        """Keep what there is room for; of the rest, the newest."""
        self.size += len(chunk)
        room = self._half - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:] if room > 0 else chunk
        del self._tail[: -self._half]

    @property
    def is_cut(self) -> bool:
        """Whether something in the middle is missing."""
        return self.size > len(self._head) + len(self._tail)

    def __str__(self) -> str:
        missing = self.size - len(self._head) - len(self._tail)
        gap = f"\n... ({missing} bytes left out) ...\n".encode() if missing else b""
        return bytes(self._head + gap + self._tail).decode(errors="replace")

    def __bytes__(self) -> bytes:
        return bytes(self._head + self._tail)


@dataclass(frozen=True, slots=True)
class Ran:
    """A program that has ended, one way or the other."""

    output: Ends
    stderr: Ends
    exit_code: int | None
    """Negative: the signal that killed it; ``None``: it was ended because its time was over."""
    left_behind: int
    """How many processes it had left running; they were ended."""


@dataclass(frozen=True, slots=True)
class ProgramBounds:
    """How much time and output a program may take."""

    timeout_s: float
    output: int


class Programs:
    """Runs programs at the highest isolation that is proven on this machine."""

    def __init__(self, spawner: Spawner, host: Host, prover: Prover, env: Mapping[str, str]) -> None:
        self._spawner, self._host, self._prover = spawner, host, prover
        inherited = child_environment({}, env)
        kept = {name: inherited[name] for name in _KEPT_VARIABLES if name in inherited}
        self.env = kept | {name: value for name, value in inherited.items() if name.startswith("LC_")}

    async def level(self) -> IsolationLevel:
        """What programs run at."""
        return await self._prover.settle(IsolationWanted(AUTO))

    async def run(self, argv: tuple[str, ...], cwd: str, wish: IsolationWanted, bounds: ProgramBounds) -> Ran:
        """Run a program to its end; it is told nothing and can ask nothing."""
        level = await self.level()
        spec = ProcessSpec(argv, self.env, cwd, stop_grace_s=0.0, kill_grace_s=0.0)
        bounded = confine(spec, replace(wish, level=AUTO).at(level), self._host)
        process = await self._spawner.start(bounded)
        try:
            return await _listen(process, bounds)
        finally:
            process.close_pipes()
            process.abandon()  # if anything of it still runs, its keeper kills it


async def _listen(process: Process, bounds: ProgramBounds) -> Ran:
    process.stdin.close()
    output, stderr = Ends(bounds.output), Ends(bounds.output)
    readers = [
        PipeReader(process.stdout, output.add, lambda: None),
        PipeReader(process.stderr, stderr.add, lambda: None),
    ]
    try:
        await asyncio.wait([process.exited], timeout=bounds.timeout_s)
        report = process.exited.result() if process.exited.done() else None
        process.stop()
        await asyncio.wait([process.gone], timeout=SWEEP_S)
        for reader in readers:
            _drain(reader, bounds.output)
        left = process.gone.result() if process.gone.done() else 0
        return Ran(output, stderr, None if report is None else report.code, left if report is not None else 0)
    finally:
        for reader in readers:
            reader.close()


def _drain(reader: PipeReader, most: int) -> None:
    """Take what is still in the pipe: never more than a pipe holds."""
    for _ in range(max(most >> 16, 16)):
        reader.read()


Arguments = Mapping[str, Any]
_JOINED = 'cd -- "$1" && exec "$0" -c "$2" "$0" 2>&1'
"""Goes to the directory from inside the bounds, and runs the command with both of its outputs in one pipe, so that they
come in the order they were written."""


@dataclass(frozen=True, slots=True)
class ShellSettings:
    """What commands may do."""

    least: IsolationLevel = IsolationLevel.CONFINED
    """With less isolation than this, nothing is run."""
    network: bool = False
    loopback: tuple[int, ...] = ()
    """Ports of this machine that they may reach then."""
    read: tuple[str, ...] = ()
    """What they may read besides the workspace and the system's own programs."""
    timeout_s: float = 120.0
    output: int = 64 * 1024


class ShellTools:
    """``bash`` in one root."""

    def __init__(self, root: WorkspaceRoot, programs: Programs, settings: ShellSettings) -> None:
        self._root, self._programs, self._settings = root, programs, settings

    async def bash(self, arguments: Arguments) -> Result:
        """Run a command to its end, or to the end of its time."""
        level = await self._programs.level()
        kept = self._check(level)
        timeout_s = min(arguments.get("timeout_s", self._settings.timeout_s), self._settings.timeout_s)
        start = arguments.get("path", ".")
        with self._root.listing(start):  # tells what is wrong with it; where it leads is up to the bounds
            argv = self._argv("/".join((".", *self._root.parts(start))), arguments["command"])
        began = time.monotonic()
        bounds = ProgramBounds(timeout_s, self._settings.output)
        ran = await self._run(argv, kept, bounds)
        return self._told(ran, level, timeout_s, time.monotonic() - began)

    async def _run(self, argv: tuple[str, ...], kept: tuple[str, ...], bounds: ProgramBounds) -> Ran:
        """Run it; what it leaves under a name that toolcrib reads its servers from gets another one."""
        before, aside = await asyncio.to_thread(look, self._root), list[str]()
        try:
            ran = await self._programs.run(argv, str(self._root.path), self._wish(kept), bounds)
        finally:
            if self._settings.least.rank >= IsolationLevel.CONFINED.rank:
                aside = await asyncio.to_thread(set_aside, self._root, before)
        for path in aside:
            ran.output.add(f"\n[toolcrib: {path} decides which programs are run; it is {path}{ASIDE} now]\n".encode())
        return ran

    def _argv(self, start: str, command: str) -> tuple[str, ...]:
        path = self._programs.env.get("PATH", "/usr/bin:/bin")
        shell = find_program("bash", path, Path("/")) or find_program("sh", path, Path("/")) or Path("/bin/sh")
        return (str(shell), "-c", _JOINED, str(shell), start, command)

    def _wish(self, kept: tuple[str, ...]) -> IsolationWanted:
        limits = ResourceLimits(memory_bytes=4 * GIB, cpu_s=int(self._settings.timeout_s) * 2 + 10)
        return IsolationWanted(
            AUTO,
            read=(*self._settings.read, *kept),
            write=(str(self._root.path),),
            network=self._settings.network,
            loopback=self._settings.loopback,
            limits=limits,
        )

    def _check(self, level: IsolationLevel) -> tuple[str, ...]:
        """The files that stay as they are; raises ``PermissionDenied`` if nothing would keep a command from them."""
        if level.rank < self._settings.least.rank:
            raise PermissionDenied(
                f"Nothing was run: commands must run at isolation {self._settings.least.value!r} or higher, but only "
                f"{level.value!r} is proven on this machine.",
                hint="See `toolcrib doctor --isolation`, or set isolation under [workspace] to accept less.",
            )
        kept = tuple(map(str, self._root.own_files()))
        if kept and level is not IsolationLevel.ISOLATED and self._settings.least.rank >= IsolationLevel.CONFINED.rank:
            raise PermissionDenied(
                f"Nothing was run: {Path(kept[0]).name} lies in the workspace, and at isolation {level.value!r} "
                "nothing keeps a command from writing into it which programs toolcrib starts.",
                hint="Set root under [workspace] to a directory below it, install bubblewrap, or accept that with "
                'isolation = "limits".',
            )
        return kept if level is IsolationLevel.ISOLATED else ()

    def _told(self, ran: Ran, level: IsolationLevel, timeout_s: float, took_s: float) -> Result:
        is_off = level.rank >= IsolationLevel.CONFINED.rank and not self._settings.network
        data = {
            "exit_code": ran.exit_code,
            "output": str(ran.output),
            "timed_out": ran.exit_code is None,
            "output_bytes": ran.output.size,
            "cut": ran.output.is_cut,
            "isolation": level.value,
            "network": not is_off,
            "duration_s": round(took_s, 3),
        }
        ended = f"exit code {ran.exit_code}" if ran.exit_code is not None else f"ended after {timeout_s:g} s"
        left = f", {ran.left_behind} processes left behind and ended" if ran.left_behind else ""
        state = f"[{ended}{left}, isolation {level.value}, network {'off' if is_off else 'open'}]"
        return said(f"{str(ran.output).rstrip()}\n{state}".lstrip(), data | {"left_behind": ran.left_behind})
