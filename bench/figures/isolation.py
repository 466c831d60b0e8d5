"""What isolation costs: from the request to the reported end of ``/bin/true``, at each level, interleaved."""

import json
import subprocess

from bench import environments
from bench.goals import Over, Results
from bench.options import Options
from bench.report import Column, Report

LIMIT_S = 300.0
COLUMNS = (Column("running after ms", "running_ms"), Column("ended after ms", "ended_ms"))
GOALS = [Over("starting at level confined, over a plain start", "ended_ms", "confined", "none", 10, "ms")]
NOTES = ["levels that the self-test does not prove on this machine are left out"]


async def measure(options: Options) -> Report:
    rounds = options.rounds or (20 if options.quick else 100)
    title = f"start and end of /bin/true by level of isolation, {rounds} rounds"
    return Report(title, COLUMNS, _visit(rounds), GOALS, NOTES)


def _visit(rounds: int) -> Results:
    """Blocks on purpose: nothing else runs meanwhile."""
    argv = [str(environments.project_python()), str(environments.HERE / "workers" / "isolation.py"), str(rounds)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    results: Results = json.loads(done.stdout)
    return results
