"""How many small faults in the modules that decide the tests notice."""

import json
import subprocess
from dataclasses import dataclass

from bench import environments
from bench.goals import SUBJECT, Limit, Round
from bench.options import Options
from bench.report import Column, Report
from bench.rounds import visit

COUNT, QUICK = 300, 40
AT_MOST_PCT = 3.0
COLUMNS = (
    Column("mutants", "tried"),
    Column("noticed", "noticed"),
    Column("of them hung", "hung"),
    Column("survived, %", "survived_pct"),
)
GOALS = [Limit("mutants that nobody noticed", "survived_pct", AT_MOST_PCT, "%")]


@dataclass(frozen=True)
class Subject:
    name: str


async def measure(options: Options) -> Report:
    count = options.count or (QUICK if options.quick else COUNT)
    notes: list[str] = []
    results = await visit([Subject(SUBJECT)], 1, lambda _: _round(count, options.seed, notes))
    return Report(f"mutants of the modules that decide, seed {options.seed}", COLUMNS, results, GOALS, notes)


async def _round(count: int, seed: int, notes: list[str]) -> Round:
    argv = [str(environments.project_python()), "-m", "bench.mutants", f"--count={count}", f"--seed={seed}"]
    done = subprocess.run(argv, cwd=environments.ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    tried = [one for one in found if not one["verdict"].startswith("not tried")]
    survived = [one for one in tried if one["verdict"] == "survived"]
    notes[:] = [f"survived: {one['mutant']} (line {one['line']})" for one in survived]
    notes += sorted({f"not counted, fails without any fault: {one['by']}" for one in found if one not in tried})
    return {
        "tried": len(tried),
        "noticed": len(tried) - len(survived),
        "hung": sum(one["verdict"].startswith("hung") for one in tried),
        "survived_pct": 100 * len(survived) / len(tried),
    }
