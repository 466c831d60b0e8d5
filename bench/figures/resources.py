"""A resource of 1 MB read through a gateway: latency alone, reads per second and CPU with a few at once."""

import asyncio
import gc
import time
from typing import Any

from bench.contenders import FASTMCP_FORMS, Contender, Role, Speaks
from bench.discovery import await_tool
from bench.goals import AtLeast, Goal, Ratio, Round
from bench.load import CAP_S, Burst, WrongAnswerError
from bench.options import Options
from bench.report import Column, Report
from bench.rounds import all_up, choose, visit
from bench.running import Running
from bench.scenario import Scenario, Shape
from bench.stats import percentile
from bench.usage import Meter
from bench.wire.base import McpWire

SHAPE = Shape(servers=3, tools=1, pages=3)
PAGE_BYTES = 1024 * 1024
READERS = 4
PATIENCE_S = 30.0

COLUMNS = (
    Column("p50 ms, 1 reader", "p50_ms"),
    Column("p99 ms", "p99_ms"),
    Column("CPU ms/read", "cpu_ms"),
    Column(f"reads/s, {READERS} readers", "reads_s"),
    Column("CPU ms/read", "cpu_ms_many"),
    Column("reads", "reads"),
    Column("foreign CPU %", "foreign_pct"),
)
CPU = Ratio("own CPU of reading 1 MB vs FastMCP proxy", "cpu_ms_many", FASTMCP_FORMS)
READS = Ratio("reads/s of 1 MB vs FastMCP proxy", "reads_s", FASTMCP_FORMS, more_is_better=True)
GOALS: list[Goal] = [AtLeast(CPU, 20), READS]
NOTES = [
    "judged by CPU: the reads per second of a fast gateway are those of the load generator, which decodes each page"
]


async def measure(options: Options) -> Report:
    rounds = options.rounds or (2 if options.quick else 5)
    async with Scenario(SHAPE) as scenario, all_up(choose(options, "http", "stdio", _fits), scenario, "http") as up:
        for running in up:
            await await_tool(running, running.contender.tool_name("s0"), PATIENCE_S)
            await _read(running, 4, READERS)
        results = await visit(up, rounds, lambda running: _round(running, options.quick))
    return Report(f"resources/read of 1 MB, HTTP front, {rounds} rounds", COLUMNS, results, GOALS, NOTES)


def _fits(contender: Contender) -> bool:
    is_gateway = contender.merges and contender.role is not Role.FLOOR
    return is_gateway and contender.speaks is Speaks.MCP and not contender.forgets


async def _round(running: Running, is_quick: bool) -> Round:
    is_ours = running.contender.role is Role.OURS
    count = (40 if is_ours else 6) if is_quick else (150 if is_ours else 15)
    alone_meter = Meter(*running.pids())
    alone = await _read(running, count, 1)
    spent_alone = alone_meter.stop()
    meter = Meter(*running.pids())
    together = await _read(running, count, READERS)
    spent = meter.stop()
    return {
        "p50_ms": percentile(alone.latencies_ns, 0.5) / 1e6,
        "p99_ms": percentile(alone.latencies_ns, 0.99) / 1e6,
        "cpu_ms": spent_alone.own_ns / count / 1e6,
        "reads_s": together.per_second,
        "cpu_ms_many": spent.own_ns / count / 1e6,
        "reads": 2 * count,
        "foreign_pct": max(spent.foreign_share, spent_alone.foreign_share) * 100,
    }


async def _read(running: Running, count: int, readers: int) -> Burst:
    """``count`` reads, ``readers`` at a time, each answer the whole page under the URI that was asked for."""
    wire = running.reach
    assert isinstance(wire, McpWire)
    turns = iter(range(count))
    latencies_ns: list[int] = []

    async def reader() -> None:
        for number in turns:
            uri = f"memo://s{number % SHAPE.servers}/pages/{number % SHAPE.pages}"
            began = time.perf_counter_ns()
            result = await wire.request("resources/read", {"uri": uri})
            latencies_ns.append(time.perf_counter_ns() - began)
            _check(result, uri)

    gc.disable()
    try:
        began = time.perf_counter_ns()
        await asyncio.wait_for(asyncio.gather(*(reader() for _ in range(readers))), CAP_S)
        return Burst(latencies_ns, time.perf_counter_ns() - began)
    finally:
        gc.enable()


def _check(result: dict[str, Any], uri: str) -> None:
    content = result["contents"][0]
    if content["uri"] != uri or len(content["text"]) != PAGE_BYTES:
        raise WrongAnswerError(f"asked for {uri}, got {content['uri']} of {len(content['text'])} characters")
