"""What the tools cost a model's context: the whole list up front, or three tools that search it."""

import json
import subprocess
from dataclasses import dataclass

from bench import environments
from bench.goals import Outcome, Results, Verdict
from bench.options import Options
from bench.report import Column, Report

LIMIT_S = 900.0
LARGE = "500 of "
COLUMNS = (
    Column("tools", "tools"),
    Column("all up front", "all"),
    Column("search up front", "front"),
    Column("times less", "saved"),
    Column("5 found as JSON", "json"),
    Column("as signatures", "lines"),
    Column("times less then", "shorter"),
)
NOTES = [
    "tokens as toolcrib counts them, without a vocabulary",
    "a server: of those with ten tools and more, on average",
]


@dataclass(frozen=True)
class Times:
    """So many times less, in every catalogue of real servers; those made up for a test are told, not judged."""

    label: str
    figure: str
    at_least: float
    start: str = ""

    def judge(self, results: Results) -> Verdict:
        real = {name: rounds[0] for name, rounds in results.items() if rounds[0]["real"]}
        found = {name: round_[self.figure] for name, round_ in real.items() if name.startswith(self.start)}
        if not found:
            return Verdict(f"{self.label}: not measured", Outcome.UNKNOWN)
        least = min(found, key=lambda name: found[name])
        text = f"{self.label}: at least {found[least]:.3g} x ({least}; goal >= {self.at_least:g} x)"
        return Verdict(text, Outcome.MET if found[least] >= self.at_least else Outcome.MISSED)


GOALS = [
    Times("less up front with 500 tools", "saved", 20, LARGE),
    Times("signatures shorter than JSON", "shorter", 4),
]


async def measure(options: Options) -> Report:
    most = 20 if options.quick else 200
    worker = environments.HERE / "workers" / "tokens.py"
    argv = [str(environments.project_python()), str(worker), str(options.data), str(most)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    found = json.loads(done.stdout)
    if not found:
        raise SystemExit(f"{options.data} holds no tools.jsonl of 500 tools")
    results: Results = {
        name: [{**each, "saved": each["all"] / each["front"], "shorter": each["json"] / each["lines"]}]
        for name, each in found.items()
    }
    return Report("what tools cost a model's context", COLUMNS, results, GOALS, NOTES)
