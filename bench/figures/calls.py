"""Calls through a gateway with three servers behind it: latency alone, throughput and CPU at 50 callers."""

import os
from dataclasses import dataclass

from bench.contenders import BEFORE, FASTMCP_FORMS, PEERS
from bench.discovery import await_tool
from bench.goals import AtLeast, AtMost, Goal, Ratio, Round
from bench.load import Burst, burst
from bench.options import Options
from bench.report import Column, Report
from bench.rounds import all_up, choose, tell, visit, why
from bench.running import Running
from bench.scenario import Scenario, Shape
from bench.stats import percentile
from bench.usage import Meter, Spent

CALLERS = 50
MOST_CALLS = 20_000
WARM_UP_CALLS = 50
PATIENCE_S = 30.0

COLUMNS = (
    Column("p50 µs, 1 caller", "p50_us"),
    Column("p99 µs", "p99_us"),
    Column("CPU µs/call", "cpu_us"),
    Column("calls/s, 50 callers", "calls_s"),
    Column("p50 ms", "p50_ms_50"),
    Column("p99 ms", "p99_ms_50"),
    Column("CPU µs/call", "cpu_us_50"),
    Column("server CPU µs", "server_cpu_us_50"),
    Column("calls", "calls"),
    Column("foreign CPU %", "foreign_pct"),
)
VS_FASTMCP = Ratio("calls/s vs FastMCP proxy", "calls_s", FASTMCP_FORMS, more_is_better=True)
VS_MCP_PROXY = Ratio("calls/s vs mcp-proxy", "calls_s", ["mcp-proxy"], more_is_better=True)
VS_PEERS = Ratio("calls/s vs the fastest peer", "calls_s", PEERS, more_is_better=True)
CPU_VS_FLOOR = Ratio("own CPU per call at 50 callers vs the raw floor", "cpu_us_50", ["rawgw"])
CPU_VS_BEFORE = Ratio("own CPU per call at 50 callers vs the build before", "cpu_us_50", ["before"])
LATENCY_VS_FLOOR = Ratio("latency at 1 caller vs the raw floor", "p50_us", ["rawgw"])


@dataclass(frozen=True)
class Quota:
    """How many calls fill a phase, from a short trial."""

    alone: int
    together: int


async def measure(options: Options) -> Report:
    shape = Shape(servers=3, tools=10, back=options.back)
    phase_s = 0.4 if options.quick else 1.5
    chosen = choose(options, options.front, options.back, lambda contender: not contender.forgets)
    async with Scenario(shape) as scenario, all_up(chosen, scenario, options.front) as up:
        quotas = {running.name: quota for running in up if (quota := await size_up(running, phase_s))}
        ready = [running for running in up if running.name in quotas]
        rounds = options.rounds or (2 if options.quick else 7)
        results = await visit(ready, rounds, lambda running: one_round(running, quotas[running.name]))
    title = f"calls, {options.front} front, {shape.servers} {options.back} servers, {rounds} rounds"
    return Report(title, COLUMNS, results, _goals(options), ["medians over rounds; CPU is the contender's own"])


async def size_up(running: Running, phase_s: float) -> Quota | None:
    """Warm up, and size the phases; None when the contender does not answer rightly."""
    tools = [_echo(running)]
    try:
        await await_tool(running, tools[0], PATIENCE_S)
        first = await burst(running, tools, 5, 1)
        alone = await burst(running, tools, WARM_UP_CALLS, 1) if first.per_second > 5 else first
        await burst(running, tools, 10 * CALLERS, CALLERS)  # what is opened at first use is open from here on
        together = await burst(running, tools, 10 * CALLERS, CALLERS)
    except Exception as error:
        tell(f"  -- {running.name}: {why(error)}")
        return None
    return Quota(_fill(alone, phase_s, 5), _fill(together, phase_s, 2 * CALLERS))


def _fill(trial: Burst, phase_s: float, least: int) -> int:
    return max(least, min(MOST_CALLS, int(trial.per_second * phase_s)))


async def one_round(running: Running, quota: Quota) -> Round:
    alone, spent_alone = await _phase(running, quota.alone, 1)
    together, spent = await _phase(running, quota.together, CALLERS)
    return {
        "p50_us": percentile(alone.latencies_ns, 0.5) / 1e3,
        "p99_us": percentile(alone.latencies_ns, 0.99) / 1e3,
        "cpu_us": spent_alone.own_ns / quota.alone / 1e3,
        "calls_s": together.per_second,
        "p50_ms_50": percentile(together.latencies_ns, 0.5) / 1e6,
        "p99_ms_50": percentile(together.latencies_ns, 0.99) / 1e6,
        "cpu_us_50": spent.own_ns / quota.together / 1e3,
        "server_cpu_us_50": spent.behind_ns / quota.together / 1e3,
        "calls": quota.alone + quota.together,
        "foreign_pct": max(spent.foreign_share, spent_alone.foreign_share) * 100,
    }


async def _phase(running: Running, count: int, callers: int) -> tuple[Burst, Spent]:
    meter = Meter(*running.pids())
    done = await burst(running, [_echo(running)], count, callers)
    return done, meter.stop()


def _echo(running: Running) -> str:
    return running.contender.tool_name("s0")


def _goals(options: Options) -> list[Goal]:
    """The promises are about HTTP in front of stdio servers; elsewhere the same ratios are told."""
    if os.environ.get(BEFORE):
        return [AtMost(CPU_VS_BEFORE, 1.05), CPU_VS_FLOOR, LATENCY_VS_FLOOR]
    if (options.front, options.back) == ("http", "stdio"):
        return [
            AtLeast(VS_FASTMCP, 40),
            AtLeast(VS_MCP_PROXY, 10),
            AtLeast(VS_PEERS, 5),
            AtMost(CPU_VS_FLOOR, 3),
            AtMost(LATENCY_VS_FLOOR, 2),
        ]
    return [VS_FASTMCP, VS_MCP_PROXY, CPU_VS_FLOOR, LATENCY_VS_FLOOR]
