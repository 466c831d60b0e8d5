"""How many verdicts of the public JSON Schema and JSON parsing suites are right, and what hostile schemas cost."""

import json
import subprocess
from dataclasses import dataclass
from typing import Any

from bench import environments
from bench.goals import SUBJECT, Limit, Round
from bench.options import Options
from bench.report import Column, Report
from bench.rounds import visit

LIMIT_S = 300.0
MOST_NAMED = 20

SUITES = {"required": "JSON Schema 2020-12", "format": "its formats", "parsing": "JSON parsing, all entry points"}
COLUMNS = (
    *(Column(title, name) for name, title in SUITES.items()),
    Column("not right", "missed"),
    Column("hostile schemas", "hostile"),
    Column("the worst, CPU ms", "worst_ms"),
)
GOALS = [
    Limit("verdicts that are not right", "missed", 0, "cases"),
    Limit("deciding the worst hostile schema", "worst_ms", 50, "ms CPU"),
]


@dataclass(frozen=True)
class Subject:
    name: str


async def measure(options: Options) -> Report:
    rounds = options.rounds or (1 if options.quick else 3)
    notes: list[str] = []
    results = await visit([Subject(SUBJECT)], rounds, lambda _: _round(options, notes))
    return Report(f"public suites and hostile schemas, {rounds} rounds", COLUMNS, results, GOALS, notes)


async def _round(options: Options, notes: list[str]) -> Round:
    argv = [str(environments.project_python()), str(environments.HERE / "workers" / "suites.py"), str(options.data)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    found = json.loads(done.stdout)
    counts = {name: float(len(found[name])) for name in SUITES}
    if not all(counts.values()):
        raise RuntimeError(
            f"{options.data} holds no {' and no '.join(name for name in SUITES if not counts[name])} suite"
        )
    missed = [f"{SUITES[name]}: {case}" for name in SUITES for case in found[name] if case]
    notes[:] = [*missed[:MOST_NAMED], _slowest(found["hostile_ms"])]
    worst_ms = max(found["hostile_ms"].values())
    return {**counts, "missed": len(missed), "hostile": len(found["hostile_ms"]), "worst_ms": worst_ms}


def _slowest(hostile_ms: dict[str, Any]) -> str:
    slowest = sorted(hostile_ms, key=hostile_ms.__getitem__, reverse=True)[:3]
    return "slowest: " + ", ".join(f"{name[:40]} {hostile_ms[name]:.1f} ms" for name in slowest)
