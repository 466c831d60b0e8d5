"""Ten servers, one of them dead or hanging in tools/list: what the other nine lose."""

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.contenders import FASTMCP_FORMS, Contender, Role
from bench.discovery import discover
from bench.goals import SUBJECT, Results, Round
from bench.load import burst
from bench.options import Options
from bench.report import Column, Report
from bench.rounds import choose, started, tell, visit, why
from bench.running import Running
from bench.scenario import Scenario, Shape
from bench.stats import percentile

SHAPE = Shape(servers=10, tools=100, fragile="s5")
HEALTHY = [name for name in SHAPE.names if name != SHAPE.fragile]
FAULTS = {"": "all healthy", "dead": "one dead", "hang": "one hanging"}
CALLS = 30 * len(HEALTHY)
START_LIMIT_S = 30.0
LIMIT_S = 20.0

COLUMNS = (
    Column("handshake s", "handshake_s"),
    Column("first list s", "first_s"),
    Column("tools in it", "tools"),
    Column("calls answered", "answered"),
    Column("p50 ms", "p50_ms"),
    Column("slowest ms", "slowest_ms"),
)
NOTES = [
    f"seconds since the launch; a list that takes more than {LIMIT_S:g} s is given up and counted as 0 tools",
    f"calls: {CALLS} in turn to the healthy servers, one caller",
    "toolcrib starts beside the lock of a healthy day, toolcrib-cold without one",
]


@dataclass(frozen=True)
class Case:
    contender: Contender
    fault: str

    @property
    def name(self) -> str:
        return _case_name(self.contender.name, self.fault)


async def measure(options: Options) -> Report:
    rounds = options.rounds or (1 if options.quick else 3)
    chosen = choose(options, "http", "stdio", _fits)
    async with Scenario(SHAPE) as scenario:
        healthy_days = {contender.name: await _healthy_day(scenario, contender) for contender in chosen}
        cases = [Case(contender, fault) for contender in chosen for fault in FAULTS]
        results = await visit(cases, rounds, lambda case: _round(scenario, case, healthy_days[case.contender.name]))
    title = f"one bad server among ten of 100 tools, HTTP front, {rounds} rounds"
    return Report(title, COLUMNS, results, notes=[*NOTES, *_compare(results)])


def _fits(contender: Contender) -> bool:
    return contender.merges and contender.role in (Role.OURS, Role.PEER)


async def _healthy_day(scenario: Scenario, contender: Contender) -> Path:
    """A directory in which the contender, unless it forgets, has seen every server healthy once."""
    home = scenario.home()
    if not contender.forgets:
        try:
            async with started(Running(contender, scenario, home, "http"), START_LIMIT_S) as running:
                await discover(running, SHAPE.count, START_LIMIT_S)
        except Exception as error:
            tell(f"  -- {contender.name}: {why(error)}")
    return home


async def _round(scenario: Scenario, case: Case, healthy_day: Path) -> Round:
    """Each visit begins with a copy of the healthy day: no visit learns from another."""
    home = scenario.home()
    shutil.copytree(healthy_day, home, dirs_exist_ok=True)
    scenario.strike(case.fault)
    async with started(Running(case.contender, scenario, home, "http"), START_LIMIT_S) as running:
        handshake_s = running.seconds()
        listed = await _list(running)
        called = await _call(running)
    return {"handshake_s": handshake_s, **listed, **called}


async def _list(running: Running) -> Round:
    try:
        names = await asyncio.wait_for(running.reach.list_tools(), LIMIT_S)
    except Exception as error:
        tell(f"    {running.name} list: {why(error)}")
        names = []
    return {"first_s": running.seconds(), "tools": len(names)}


async def _call(running: Running) -> Round:
    tools = [running.contender.tool_name(server) for server in HEALTHY]
    try:
        done = await asyncio.wait_for(burst(running, tools, CALLS, 1), LIMIT_S)
    except Exception as error:
        tell(f"    {running.name} calls: {why(error)}")
        return {"answered": 0}
    ms = [latency / 1e6 for latency in done.latencies_ns]
    return {"answered": len(ms), "p50_ms": percentile(ms, 0.5), "slowest_ms": max(ms)}


def _compare(results: Results) -> list[str]:
    lines = []
    for fault, about in FAULTS.items():
        ours = results.get(_case_name(SUBJECT, fault), [])
        if fault:
            lines += _against(ours, results.get(_case_name(SUBJECT, ""), []), f"toolcrib, {about} vs all healthy")
        for form in FASTMCP_FORMS:
            lines += _against(ours, results.get(_case_name(form, fault), []), f"toolcrib vs {form}, {about}")
    return lines


def _against(ours: list[Round], theirs: list[Round], label: str) -> list[str]:
    """One line with the ratios of both figures, as far as both sides have them."""
    parts = []
    for figure, about in (("first_s", "first list"), ("p50_ms", "p50 of calls")):
        pairs = [(a[figure], b[figure]) for a, b in zip(ours, theirs, strict=False) if figure in a and figure in b]
        if pairs:
            parts.append(f"{about} {median(a / b for a, b in pairs):.3g} x")
    return [f"{label}: {', '.join(parts)}"] if parts else []


def _case_name(contender: str, fault: str) -> str:
    return f"{contender}, {FAULTS[fault]}"
