"""Calls in a closed loop: every answer is compared with what was sent."""

import asyncio
import gc
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle

from bench.running import Running
from bench.wire.worker import WorkerWire

TEXT = "The quick brown fox jumps over the lazy dog. " * 2  # a small, typical argument
CAP_S = 60.0


class WrongAnswerError(RuntimeError):
    """A call came back with something else than was sent."""


@dataclass(frozen=True)
class Burst:
    latencies_ns: list[int]
    wall_ns: int

    @property
    def per_second(self) -> float:
        return len(self.latencies_ns) / (self.wall_ns / 1e9)


async def burst(running: Running, tools: Sequence[str], count: int, callers: int) -> Burst:
    """``count`` calls of ``tools`` in turn, ``callers`` at a time; the first failure fails the whole."""
    if isinstance(running.reach, WorkerWire):
        return await _order(running.reach, tools[0], count, callers)
    gc.disable()  # a collection would be counted against whoever is being measured
    try:
        return await asyncio.wait_for(_call(running, tools, count, callers), CAP_S)
    finally:
        gc.enable()


async def _order(worker: WorkerWire, tool: str, count: int, callers: int) -> Burst:
    order = worker.order(do="calls", tool=tool, count=count, callers=callers, message=TEXT)
    reply = await asyncio.wait_for(order, CAP_S)
    if reply["failures"]:
        raise WrongAnswerError(reply["failures"][0])
    return Burst(reply["latencies_ns"], reply["wall_ns"])


async def _call(running: Running, tools: Sequence[str], count: int, callers: int) -> Burst:
    call = running.reach.call
    clock = time.perf_counter_ns
    turns = zip(range(count), cycle(tools), strict=False)
    latencies_ns: list[int] = []

    async def caller() -> None:
        for number, tool in turns:
            text = f"{number} {TEXT}"
            began = clock()
            answer = await call(tool, text)
            latencies_ns.append(clock() - began)
            if answer != text:
                raise WrongAnswerError(f"sent {text!r}, got {answer!r}")

    began = clock()
    async with asyncio.TaskGroup() as group:
        for _ in range(callers):
            group.create_task(caller())
    return Burst(latencies_ns, clock() - began)
