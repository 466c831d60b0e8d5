"""Asking a contender for its tools until they are all there."""

import asyncio
import time
from dataclasses import dataclass

from bench.running import Running
from bench.wire.base import WireError

DELAY_S = 0.01  # before asking again


@dataclass(frozen=True)
class Discovery:
    """Seconds since the launch, at the first answer and at the first complete one."""

    first_s: float
    first_count: int
    complete_s: float


async def discover(running: Running, count: int, limit_s: float) -> Discovery:
    first: tuple[float, int] | None = None
    deadline = time.monotonic() + limit_s
    while True:
        names = await _ask(running, deadline - time.monotonic())
        seconds = running.seconds()
        first = first or (seconds, len(names))
        if len(names) >= count:
            return Discovery(*first, seconds)
        if time.monotonic() > deadline:
            raise WireError(f"{len(names)} of {count} tools after {limit_s:.0f} s")
        await asyncio.sleep(DELAY_S)


async def await_tool(running: Running, tool: str, limit_s: float) -> None:
    """Wait for a contender that connects its servers in the background."""
    deadline = time.monotonic() + limit_s
    while tool not in await _ask(running, limit_s):
        if time.monotonic() > deadline:
            raise WireError(f"no {tool} after {limit_s:.0f} s")
        await asyncio.sleep(DELAY_S)


async def _ask(running: Running, limit_s: float) -> list[str]:
    try:
        return await asyncio.wait_for(running.reach.list_tools(), limit_s)
    except TimeoutError:
        raise WireError(f"no tools/list answer in {limit_s:.0f} s") from None
