"""What sharing costs: calls with limits counted in Redis and the log in PostgreSQL, against the embedded stack."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench import environments
from bench.contenders import TOOLCRIB, Argv, Command, Place
from bench.engines import Engines, engines
from bench.figures import calls
from bench.goals import AtMost, Goal, Ratio
from bench.options import Options
from bench.report import Report
from bench.rounds import all_up, visit
from bench.scenario import Scenario, Shape

LIMITS = """
[limits]
caller_rate = "100000/1s"
"""
EMBEDDED = "embedded"
CPU = Ratio("own CPU per call at 50 callers, shared vs embedded", "cpu_us_50", [EMBEDDED])
LATENCY = Ratio("latency at 1 caller, shared vs embedded", "p50_us", [EMBEDDED])
THROUGHPUT = Ratio("calls/s at 50 callers, shared vs embedded", "calls_s", [EMBEDDED], more_is_better=True)


async def measure(options: Options) -> Report:
    shape = Shape(servers=3, tools=10, back=options.back)
    rounds = options.rounds or (2 if options.quick else 9)
    async with engines() as found, Scenario(shape) as scenario:
        contenders = [
            replace(TOOLCRIB, http=_command(LIMITS + _shared(found)), stdio=None),
            replace(TOOLCRIB, name=EMBEDDED, http=_command(LIMITS), stdio=None),
        ]
        async with all_up(contenders, scenario, "http") as up:
            phase_s = 0.4 if options.quick else 1.5
            quotas = {running.name: quota for running in up if (quota := await calls.size_up(running, phase_s))}
            ready = [running for running in up if running.name in quotas]
            results = await visit(ready, rounds, lambda running: calls.one_round(running, quotas[running.name]))
    title = f"calls, limits in Redis and audit in PostgreSQL against in this process and SQLite, {rounds} rounds"
    goals: list[Goal] = [AtMost(CPU, 2.0), LATENCY, THROUGHPUT]
    return Report(title, calls.COLUMNS, results, goals, ["CPU is toolcrib's own, not that of the engines"])


def _shared(found: Engines) -> str:
    return f'\n[store]\nurl = "{found.postgres}"\n\n[redis]\nurl = "{found.redis}"\n'


def _command(tables: str) -> Command:
    def command(place: Place) -> Argv:
        config = Path(place.config).with_name("toolcrib.toml")
        servers = json.loads(Path(place.config).read_text())["mcpServers"]
        config.write_text("\n".join([tables, "[kb]\nenabled = false\n", *map(_table, servers, servers.values())]))
        program = str(environments.toolcrib_program())
        return [program, "serve", "--config", str(config), "--host", "127.0.0.1", "--port", str(place.port)]

    return command


def _table(name: str, server: dict[str, Any]) -> str:
    keys = "".join(f"{key} = {json.dumps(value)}\n" for key, value in server.items() if key != "type")
    return f"[servers.{name}]\n{keys}"
