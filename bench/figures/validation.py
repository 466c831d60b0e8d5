"""How long a running Crib's event loop stands still while costly values are checked against costly schemas."""

import json
import subprocess

from bench import environments
from bench.goals import Limit, Results
from bench.options import Options
from bench.report import Column, Report

LIMIT_S = 600.0
COLUMNS = (
    Column("longest gap ms", "gap_ms"),
    Column("own work in it ms", "busy_ms"),
    Column("call ms", "took_ms"),
    Column("refused", "refused"),
)
GOALS = [Limit("longest work of the process between two turns of the loop, any case", "busy_ms", 50, "ms")]
NOTES = [
    "in: arguments against an input schema, out: a result against an output schema; "
    "what takes a helper more than its limit is refused"
]
QUICK = ("one_of_multiples", "enum_of_fractions", "many_lists", "long_text")


async def measure(options: Options) -> Report:
    rounds = options.rounds or (1 if options.quick else 3)
    names = options.only or (QUICK if options.quick else ())
    results: Results = {}
    for _ in range(rounds):
        for case, measured in _visit(names).items():
            results.setdefault(case, []).append(measured)
    worst = [max((rounds_[n] for rounds_ in results.values()), key=lambda one: one["busy_ms"]) for n in range(rounds)]
    results["toolcrib"] = worst
    return Report(f"gaps of the event loop while values are checked, {rounds} rounds", COLUMNS, results, GOALS, NOTES)


def _visit(names: tuple[str, ...]) -> dict[str, dict[str, float]]:
    """Blocks on purpose: nothing else runs meanwhile."""
    worker = environments.HERE / "workers" / "validation.py"
    argv = [str(environments.project_python()), str(worker), *names]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    found: dict[str, dict[str, float]] = json.loads(done.stdout)
    return found
