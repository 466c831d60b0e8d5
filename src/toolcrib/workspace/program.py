"""Running a program within bounds: what it says is kept at both ends, and nothing of it is left afterwards."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace

from toolcrib.isolate.grants import Wish
from toolcrib.isolate.levels import AUTO, IsolationLevel
from toolcrib.isolate.plan import Host, confine
from toolcrib.isolate.proof import Prover
from toolcrib.transports.environment import child_environment
from toolcrib.transports.spawn import Process, Spawner
from toolcrib.transports.spec import ProcessSpec
from toolcrib.transports.stdio import PipeReader

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
class Bounds:
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
        return await self._prover.settle(Wish(AUTO))

    async def run(self, argv: tuple[str, ...], cwd: str, wish: Wish, bounds: Bounds) -> Ran:
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


async def _listen(process: Process, bounds: Bounds) -> Ran:
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
