"""Commands in the workspace: within its bounds, without a network unless it is switched on, and never for ever."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolcrib.core.call import ToolResult
from toolcrib.core.errors import PermissionDenied
from toolcrib.isolate.grants import GIB, Limits, Wish
from toolcrib.isolate.levels import AUTO, IsolationLevel
from toolcrib.isolate.places import find_program
from toolcrib.workspace.files import said
from toolcrib.workspace.own_files import ASIDE, look, set_aside
from toolcrib.workspace.program import Bounds, Programs, Ran
from toolcrib.workspace.root import Root

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

    def __init__(self, root: Root, programs: Programs, settings: ShellSettings) -> None:
        self._root, self._programs, self._settings = root, programs, settings

    async def bash(self, arguments: Arguments) -> ToolResult:
        """Run a command to its end, or to the end of its time."""
        level = await self._programs.level()
        kept = self._check(level)
        timeout_s = min(arguments.get("timeout_s", self._settings.timeout_s), self._settings.timeout_s)
        start = arguments.get("path", ".")
        with self._root.listing(start):  # tells what is wrong with it; where it leads is up to the bounds
            argv = self._argv("/".join((".", *self._root.parts(start))), arguments["command"])
        began = time.monotonic()
        bounds = Bounds(timeout_s, self._settings.output)
        ran = await self._run(argv, kept, bounds)
        return self._told(ran, level, timeout_s, time.monotonic() - began)

    async def _run(self, argv: tuple[str, ...], kept: tuple[str, ...], bounds: Bounds) -> Ran:
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

    def _wish(self, kept: tuple[str, ...]) -> Wish:
        limits = Limits(memory_bytes=4 * GIB, cpu_s=int(self._settings.timeout_s) * 2 + 10)
        return Wish(
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

    def _told(self, ran: Ran, level: IsolationLevel, timeout_s: float, took_s: float) -> ToolResult:
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
