"""Running a program once: what it is given, what it says, how it ends."""

import asyncio
from dataclasses import dataclass

from toolcrib.transports.process.spawn import Process, Spawner
from toolcrib.transports.process.spec import ExitReport, ProcessSpec
from toolcrib.transports.stdio import PipeReader, PipeWriter, StderrRing


@dataclass(frozen=True, slots=True)
class FinishedProgram:
    """A program that has ended; nothing of it is left."""

    output: bytes
    stderr: tuple[str, ...]
    exit: ExitReport | None
    is_cut: bool = False
    """Whether it was ended because it said too much."""


async def run_once(spawner: Spawner, spec: ProcessSpec, given: bytes, output_max: int) -> FinishedProgram:
    """Run a program to its end; it reads ``given`` after four bytes that tell its length. Cancelled, it is killed."""
    process = await spawner.start(spec)
    try:
        return await _Listener(process, output_max).run(len(given).to_bytes(4, "big") + given)
    finally:
        process.close_pipes()
        process.abandon()  # if it still runs, its keeper kills it


class _Listener:
    """Feeds a process and collects what it says."""

    def __init__(self, process: Process, output_max: int) -> None:
        self._process = process
        self._output_max = output_max
        self._output = bytearray()
        self._stderr = StderrRing()
        self._closed = asyncio.get_running_loop().create_future()
        self._stdin = PipeWriter(process.stdin)
        self._readers = [
            PipeReader(process.stdout, self._take, self._settle),
            PipeReader(process.stderr, self._stderr.append, lambda: None),
        ]

    async def run(self, given: bytes) -> FinishedProgram:
        try:
            self._give(given)
            await self._closed
            if not self._is_cut:
                await self._process.gone
            self._readers[1].read()
            return self._finished()
        finally:
            self._stdin.close()
            for reader in self._readers:
                reader.close()

    @property
    def _is_cut(self) -> bool:
        return len(self._output) > self._output_max

    def _give(self, given: bytes) -> None:
        try:
            self._stdin.write(given)
        except OSError:  # it has ended already; how, is told below
            return

    def _take(self, chunk: bytes) -> None:
        self._output += chunk
        if self._is_cut:
            self._settle()

    def _settle(self) -> None:
        if not self._closed.done():
            self._closed.set_result(None)

    def _finished(self) -> FinishedProgram:
        ended = self._process.exited.result() if self._process.exited.done() else None
        return FinishedProgram(bytes(self._output), tuple(self._stderr.lines(20)), ended, self._is_cut)
