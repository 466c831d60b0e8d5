"""Memory of a gateway with 1,000 subscriptions: to 100 resources of each of ten servers, by one client."""

from bench.contenders import TOOLCRIB, Contender
from bench.discovery import discover
from bench.goals import Goal, Limit, Round
from bench.load import burst
from bench.options import Options
from bench.report import Column, Report
from bench.rounds import Homes, started, visit
from bench.running import Running
from bench.scenario import Scenario, Shape
from bench.usage import memory
from bench.wire.base import McpWire

SHAPE = Shape(servers=10, tools=5, pages=100)
LIMIT_S = 90.0
CALLS = 1_000
CALLERS = 20

COLUMNS = (
    Column("RSS MB, used", "before_mb"),
    Column("RSS MB, subscribed", "after_mb"),
    Column("more", "more_mb"),
    Column("subscriptions", "subscriptions"),
)
GOALS: list[Goal] = [Limit("RSS of 1,000 subscriptions on ten servers", "more_mb", 30, "MB")]
NOTES = [f"used: all resources listed, {CALLS} calls made; the servers' own memory is not counted"]


async def measure(options: Options) -> Report:
    rounds = options.rounds or (1 if options.quick else 3)
    async with Scenario(SHAPE) as scenario:
        homes = Homes(scenario)
        results = await visit([TOOLCRIB], rounds, lambda contender: _round(homes, contender))
    return Report(f"memory of 1,000 subscriptions, HTTP front, {rounds} rounds", COLUMNS, results, GOALS, NOTES)


async def _round(homes: Homes, contender: Contender) -> Round:
    subject = Running(contender, homes.scenario, homes.of(contender), "http")
    async with started(subject, LIMIT_S) as running:
        await discover(running, SHAPE.count, LIMIT_S)
        wire = running.reach
        assert isinstance(wire, McpWire)
        listed = await wire.request("resources/list", {})
        await burst(running, [contender.tool_name(server) for server in SHAPE.names], CALLS, CALLERS)
        before_mb = _rss_mb(running)
        for resource in listed["resources"]:
            await wire.request("resources/subscribe", {"uri": resource["uri"]})
        after_mb = _rss_mb(running)
    count = len(listed["resources"])
    return {"before_mb": before_mb, "after_mb": after_mb, "more_mb": after_mb - before_mb, "subscriptions": count}


def _rss_mb(running: Running) -> float:
    own, _ = running.pids()
    return memory(own).rss_mb
