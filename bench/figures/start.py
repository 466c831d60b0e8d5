"""From the start of the process to the first complete tools/list over stdio, ten servers of 100 tools."""

from bench.contenders import FASTMCP_FORMS, Contender
from bench.discovery import discover
from bench.goals import AtLeast, Ratio, Round
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
GOALS = [AtLeast(Ratio("start to the complete list, times faster than FastMCP proxy", "complete_ms", FASTMCP_FORMS), 5)]
NOTES = ["toolcrib starts beside a warm lock, toolcrib-cold without one; every contender was started once before"]


async def measure(options: Options) -> Report:
    rounds = options.rounds or (2 if options.quick else 7)
    chosen = choose(options, "stdio", "stdio", lambda contender: contender.merges)
    async with Scenario(SHAPE) as scenario:
        homes = Homes(scenario)
        results = await visit(chosen, 1 + rounds, lambda contender: _round(homes, contender))
    timed = {name: visits[1:] for name, visits in results.items()}  # the first one warms locks and caches
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
