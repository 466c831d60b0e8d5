"""Memory of a gateway that has listed the tools of ten servers and called each of them: 1,000 tools, and 50."""

from bench.contenders import FASTMCP_FORMS, Contender, Role
from bench.discovery import discover
from bench.goals import AtMost, Goal, Limit, Ratio, Results, Round
from bench.load import burst
from bench.options import Options
from bench.report import Column, Report
from bench.rounds import Homes, choose, started, visit
from bench.running import Running
from bench.scenario import Scenario, Shape
from bench.usage import Memory, memory

MANY = Shape(servers=10, tools=100)
FEW = Shape(servers=10, tools=5)
LIMIT_S = 90.0
CALLS = 1_000
CALLERS = 20

COLUMNS = (
    Column("RSS MB, listed", "listed_mb"),
    Column("RSS MB, used", "rss_mb"),
    Column("of it the largest process", "largest_mb"),
    Column("PSS MB, used", "pss_mb"),
    Column("own processes", "processes"),
    Column("RSS MB, used, 50 tools", "few_rss_mb"),
)
GOALS: list[Goal] = [
    AtMost(Ratio("PSS vs FastMCP proxy, pages shared by processes counted once", "pss_mb", FASTMCP_FORMS), 0.5),
    Ratio("RSS vs FastMCP proxy, pages shared by processes counted again for each", "rss_mb", FASTMCP_FORMS),
    Limit("RSS of all own processes with ten servers of five tools", "few_rss_mb", 70, "MB"),
]
NOTES = [
    f"used: after {CALLS} calls spread over all servers; the servers' own memory is not counted",
    "toolcrib's own processes are itself, the keeper of all servers, and eleven of 90 bytes of code each",
    "toolcrib starts beside a warm lock, toolcrib-cold without one",
]


async def measure(options: Options) -> Report:
    rounds = options.rounds or (1 if options.quick else 3)
    settled = await _visit(options, MANY, rounds)
    few = await _visit(options, FEW, rounds)
    for name, visits in settled.items():
        for visited, other in zip(visits, few[name], strict=True):
            visited["few_rss_mb"] = other["rss_mb"]
    title = f"memory with 1,000 tools, HTTP front, 10 servers of 100 tools, {rounds} rounds"
    return Report(title, COLUMNS, settled, GOALS, NOTES)


async def _visit(options: Options, shape: Shape, rounds: int) -> Results:
    async with Scenario(shape) as scenario:
        homes = Homes(scenario)
        results = await visit(choose(options, "http", "stdio", _fits), 1 + rounds, lambda each: _round(homes, each))
    return {name: visits[1:] for name, visits in results.items()}  # the first one warms the locks


def _fits(contender: Contender) -> bool:
    return contender.merges and contender.role is not Role.NO_GATEWAY


async def _round(homes: Homes, contender: Contender) -> Round:
    subject = Running(contender, homes.scenario, homes.of(contender), "http")
    async with started(subject, LIMIT_S) as running:
        await discover(running, homes.scenario.shape.count, LIMIT_S)
        listed = _memory(running)
        tools = [contender.tool_name(server) for server in homes.scenario.shape.names]
        await burst(running, tools, CALLS, CALLERS)
        used = _memory(running)
    return {
        "listed_mb": listed.rss_mb,
        "rss_mb": used.rss_mb,
        "largest_mb": used.largest_mb,
        "pss_mb": used.pss_mb,
        "processes": used.processes,
    }


def _memory(running: Running) -> Memory:
    own, _ = running.pids()
    return memory(own)
