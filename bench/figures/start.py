"""From the start of the process to the first complete tools/list over stdio, ten servers of 100 tools; and what a
person and a second client wait for: the first screen of ``up``, and the first list of a client that joins."""

import asyncio
import contextlib
import os
import pty
import time
from dataclasses import replace

from bench import environments
from bench.contenders import FASTMCP_FORMS, TOOLCRIB, Contender, Place
from bench.discovery import discover
from bench.goals import SUBJECT, AtLeast, Limit, Ratio, Round
from bench.options import Options
from bench.report import Column, Report
from bench.rounds import Homes, choose, started, visit
from bench.running import Running
from bench.scenario import Scenario, Shape

SHAPE = Shape(servers=10, tools=100)
LIMIT_S = 60.0

COLUMNS = (
    Column("handshake ms", "handshake_ms"),
    Column("first list ms", "first_ms"),
    Column("tools in it", "first_tools"),
    Column("complete list ms", "complete_ms"),
)
GOALS = [
    AtLeast(Ratio("start to the complete list, times faster than FastMCP proxy", "complete_ms", FASTMCP_FORMS), 5),
    Limit("`toolcrib stdio` that joins a running one, start to the complete list", "joined_ms", 150, "ms"),
    Limit("`toolcrib up` on a terminal, start to the first screen", "screen_ms", 2000, "ms"),
]
NOTES = ["toolcrib starts beside a warm lock, toolcrib-cold without one; every contender was started once before"]
SCREEN = b"Serving MCP at"
"""What the first screen is known by: where it serves, and below it how to connect and the table."""


def _joining(place: Place) -> list[str]:
    return [str(environments.toolcrib_program()), "stdio", "--config", place.config]


JOINING = replace(TOOLCRIB, name="toolcrib-joining", stdio=_joining)


async def measure(options: Options) -> Report:
    rounds = options.rounds or (2 if options.quick else 7)
    chosen = choose(options, "stdio", "stdio", lambda contender: contender.merges)
    async with Scenario(SHAPE) as scenario:
        homes = Homes(scenario)
        results = await visit(chosen, 1 + rounds, lambda contender: _round(homes, contender))
        extra = await _for_people(homes, 1 + rounds) if results.get(SUBJECT) else []
    timed = {name: visits[1:] for name, visits in results.items()}  # the first one warms locks and caches
    for round_, more in zip(timed.get(SUBJECT, []), extra[1:], strict=False):
        round_.update(more)
    title = f"start to the first complete tools/list, stdio front, 10 servers of 100 tools, {rounds} rounds"
    return Report(title, COLUMNS, timed, GOALS, NOTES)


async def _round(homes: Homes, contender: Contender) -> Round:
    subject = Running(contender, homes.scenario, homes.of(contender), "stdio")
    async with started(subject, LIMIT_S) as running:
        handshake_s = running.seconds()
        found = await discover(running, SHAPE.count, LIMIT_S)
    return {
        "handshake_ms": handshake_s * 1e3,
        "first_ms": found.first_s * 1e3,
        "first_tools": found.first_count,
        "complete_ms": found.complete_s * 1e3,
    }


async def _for_people(homes: Homes, count: int) -> list[Round]:
    """How long a client waits that joins, and a person who looks."""
    found: list[Round] = []
    for _ in range(count):
        running = Running(TOOLCRIB, homes.scenario, homes.of(TOOLCRIB), "http")
        async with started(running, LIMIT_S) as serving:
            await discover(serving, SHAPE.count, LIMIT_S)
            joining = Running(JOINING, homes.scenario, homes.of(TOOLCRIB), "stdio")
            async with started(joining, LIMIT_S) as client:
                joined_s = (await discover(client, SHAPE.count, LIMIT_S)).complete_s
        found.append({"joined_ms": joined_s * 1e3, "screen_ms": await _first_screen(homes) * 1e3})
    return found


async def _first_screen(homes: Homes) -> float:
    home = homes.of(TOOLCRIB)
    config = str(home / "mcp.json")
    argv = [str(environments.toolcrib_program()), "up", "--no-import", "--port", "0", "--config", config]
    ours, theirs = pty.openpty()
    variables = {**environments.variables(home), "TERM": "xterm"}
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *argv, env=variables, cwd=home, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    try:
        return await asyncio.wait_for(asyncio.to_thread(_read_screen, ours), LIMIT_S) - began
    finally:
        rest = asyncio.create_task(asyncio.to_thread(_read_rest, ours))  # a terminal that nobody reads fills up
        process.terminate()
        await process.wait()
        await rest
        os.close(ours)


def _read_screen(terminal: int) -> float:
    said = b""
    while SCREEN not in said:
        said += os.read(terminal, 65_536)
    return time.perf_counter()


def _read_rest(terminal: int) -> None:
    with contextlib.suppress(OSError):  # Linux says so when the other end is closed
        while os.read(terminal, 65_536):
            pass
