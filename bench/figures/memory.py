"""Memory of a gateway that has listed 1,000 tools and called each of its ten servers."""

from bench.contenders import FASTMCP_FORMS, Contender, Role
from bench.discovery import discover
from bench.goals import AtMost, Goal, Ratio, Round
from bench.load import burst
from bench.options import Options
from bench.report import Column, Report
from bench.rounds import Homes, choose, started, visit
from bench.running import Running
from bench.scenario import Scenario, Shape
from bench.usage import Memory, memory

SHAPE = Shape(servers=10, tools=100)
LIMIT_S = 90.0
CALLS = 1_000
CALLERS = 20

COLUMNS = (
    Column("RSS MB, listed", "listed_mb"),
    Column("RSS MB, used", "rss_mb"),
    Column("of it the largest process", "largest_mb"),
    Column("PSS MB, used", "pss_mb"),
    Column("own processes", "processes"),
)
GOALS: list[Goal] = [
    AtMost(Ratio("PSS vs FastMCP proxy, pages shared by processes counted once", "pss_mb", FASTMCP_FORMS), 0.5),
    Ratio("RSS vs FastMCP proxy, pages shared by processes counted again for each", "rss_mb", FASTMCP_FORMS),
]
NOTES = [
    f"used: after {CALLS} calls spread over all servers; the servers' own memory is not counted",
    "toolcrib's keepers are forks of one small program and share nearly all their pages; PSS counts those once",
    "toolcrib starts beside a warm lock, toolcrib-cold without one",
]


async def measure(options: Options) -> Report:
    rounds = options.rounds or (1 if options.quick else 3)
    async with Scenario(SHAPE) as scenario:
        homes = Homes(scenario)
        results = await visit(choose(options, "http", "stdio", _fits), 1 + rounds, lambda each: _round(homes, each))
    settled = {name: visits[1:] for name, visits in results.items()}  # the first one warms the locks
    title = f"memory with 1,000 tools, HTTP front, 10 servers of 100 tools, {rounds} rounds"
    return Report(title, COLUMNS, settled, GOALS, NOTES)


def _fits(contender: Contender) -> bool:
    return contender.merges and contender.role is not Role.NO_GATEWAY


async def _round(homes: Homes, contender: Contender) -> Round:
    subject = Running(contender, homes.scenario, homes.of(contender), "http")
    async with started(subject, LIMIT_S) as running:
        await discover(running, SHAPE.count, LIMIT_S)
        listed = _memory(running)
        tools = [contender.tool_name(server) for server in SHAPE.names]
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
