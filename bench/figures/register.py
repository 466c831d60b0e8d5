"""How long it takes to make a native tool of a function, a thousand times over."""

import json
import subprocess
from dataclasses import dataclass
from statistics import median

from bench import environments
from bench.goals import SUBJECT, Limit, Round
from bench.options import Options
from bench.report import Column, Report
from bench.rounds import visit
from bench.stats import percentile

COUNT = 1_000
LIMIT_S = 120.0

COLUMNS = (
    Column("@tool ms", "mark_ms"),
    Column("registration ms", "register_ms"),
    Column("both: p50 ms", "p50_ms"),
    Column("p99 ms", "p99_ms"),
    Column("the first ms", "first_ms"),
    Column("opening a crib with them, ms/tool", "open_ms"),
)
GOALS = [Limit("making and registering a native tool", "p50_ms", 1, "ms")]


@dataclass(frozen=True)
class Subject:
    name: str


async def measure(options: Options) -> Report:
    rounds = options.rounds or (1 if options.quick else 5)
    results = await visit([Subject(SUBJECT)], rounds, lambda _: _round())
    return Report(f"registering {COUNT} native tools in one process, {rounds} rounds", COLUMNS, results, GOALS)


async def _round() -> Round:
    argv = [str(environments.project_python()), str(environments.HERE / "workers" / "register.py"), str(COUNT)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    measured = json.loads(done.stdout)
    if measured["tools"] != COUNT:
        raise RuntimeError(f"{measured['tools']} tools instead of {COUNT}")
    both = [
        (mark + register) / 1e6 for mark, register in zip(measured["mark_ns"], measured["register_ns"], strict=True)
    ]
    return {
        "mark_ms": median(measured["mark_ns"]) / 1e6,
        "register_ms": median(measured["register_ns"]) / 1e6,
        "p50_ms": percentile(both, 0.5),
        "p99_ms": percentile(both, 0.99),
        "first_ms": both[0],
        "open_ms": measured["open_ns"] / COUNT / 1e6,
    }
