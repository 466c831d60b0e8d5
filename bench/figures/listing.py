"""A warm tools/list of 1,000 tools from ten servers, as a client waits for it."""

import time
from statistics import median

from bench.contenders import FASTMCP_FORMS, Contender
from bench.discovery import discover
from bench.goals import AtLeast, Ratio, Round
from bench.options import Options
from bench.report import Column, Report
from bench.rounds import all_up, choose, visit
from bench.running import Running
from bench.scenario import Scenario, Shape
from bench.stats import percentile
from bench.usage import Meter
from bench.wire.base import WireError

SHAPE = Shape(servers=10, tools=100)
MOST_LISTS = 200
LEAST_LISTS = 3
PATIENCE_S = 60.0

COLUMNS = (
    Column("warm list ms", "list_ms"),
    Column("p95 ms", "p95_ms"),
    Column("CPU ms/list", "cpu_ms"),
    Column("lists", "lists"),
    Column("foreign CPU %", "foreign_pct"),
)
GOALS = [AtLeast(Ratio("warm tools/list, times faster than FastMCP proxy", "list_ms", FASTMCP_FORMS), 20)]
NOTES = ["medians over rounds; reading the answer, the same for all, is part of the time"]


async def measure(options: Options) -> Report:
    rounds = options.rounds or (2 if options.quick else 7)
    phase_s = 0.4 if options.quick else 1.5
    async with Scenario(SHAPE) as scenario, all_up(choose(options, "http", "stdio", _fits), scenario, "http") as up:
        results = await visit(up, rounds, lambda running: _round(running, phase_s))
    return Report(f"tools/list, HTTP front, 10 servers of 100 tools, {rounds} rounds", COLUMNS, results, GOALS, NOTES)


def _fits(contender: Contender) -> bool:
    return contender.merges and not contender.forgets


async def _round(running: Running, phase_s: float) -> Round:
    await discover(running, SHAPE.count, PATIENCE_S)
    meter = Meter(*running.pids())
    seconds: list[float] = []
    deadline = time.perf_counter() + phase_s
    while len(seconds) < LEAST_LISTS or (len(seconds) < MOST_LISTS and time.perf_counter() < deadline):
        seconds.append(await _timed(running))
    spent = meter.stop()
    return {
        "list_ms": median(seconds) * 1e3,
        "p95_ms": percentile(seconds, 0.95) * 1e3,
        "cpu_ms": spent.own_ns / len(seconds) / 1e6,
        "lists": len(seconds),
        "foreign_pct": spent.foreign_share * 100,
    }


async def _timed(running: Running) -> float:
    began = time.perf_counter()
    names = await running.reach.list_tools()
    seconds = time.perf_counter() - began
    if len(names) < SHAPE.count:  # a gateway may list tools of its own besides
        raise WireError(f"{len(names)} tools instead of {SHAPE.count}")
    return seconds
