"""How well and how fast tools are found, beside the search of FastMCP and of pydantic-ai."""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from bench import environments
from bench.goals import SUBJECT, Goal, Limit, Outcome, Results, Round, Verdict
from bench.options import Options
from bench.report import Column, Report

LIMIT_S = 3600.0
ENVIRONMENTS = {"fastmcp": "fastmcp", "pydantic-ai": "pydantic_ai"}
FIGURES = {"r1": "R@1", "r5": "R@5", "r10": "R@10", "ndcg": "nDCG@10", "cpu_ms": "ms"}
MOST_QUERIES, FEW_QUERIES = 100_000, 150
GOALS: list[Goal] = [
    Limit("one query among 5,000 tools", "5000_cpu_ms", 2, "ms CPU"),
    Limit("one query among 17,000 tools", "17000_cpu_ms", 5, "ms CPU"),
    Limit("indexing 5,000 tools", "5000_build_s", 1, "s CPU"),
    Limit("memory for 5,000 tools", "5000_mb", 40, "MB"),
]


@dataclass(frozen=True)
class Ahead:
    """Recall@5 nowhere below the peer's and clearly above it on average."""

    sets: tuple[str, ...]
    peer: str
    on_average: float = 0.10

    def judge(self, results: Results) -> Verdict:
        if not results.get(self.peer):
            return Verdict(f"recall@5 against {self.peer}: not measured", Outcome.UNKNOWN)
        ours, theirs = results[SUBJECT][0], results[self.peer][0]
        gains = [ours[f"{name} R@5"] - theirs[f"{name} R@5"] for name in self.sets]
        text = (
            f"recall@5 over {self.peer}: {', '.join(f'{gain:+.3f}' for gain in gains)}, on average {fmean(gains):+.3f} "
            f"(goal >= 0 on every set, >= {self.on_average:+.2f} on average)"
        )
        is_met = min(gains) >= 0 and fmean(gains) >= self.on_average
        return Verdict(text, Outcome.MET if is_met else Outcome.MISSED)


async def measure(options: Options) -> Report:
    pythons = {SUBJECT: environments.project_python(), **_peers(options)}
    found = {name: _ask(name, python, options) for name, python in pythons.items()}
    sets = tuple(found[SUBJECT]["sets"])
    if not sets:
        raise SystemExit(f"{options.data} holds no tools.jsonl")
    results: Results = {name: [_round(each)] for name, each in found.items()}
    columns = [Column(title, title) for name in sets for title in (f"{name} R@5", f"{name} nDCG@10", f"{name} ms")]
    notes = [*_sizes(found), f"recall@5 with weights chosen on the other sets: {_left_out(found[SUBJECT])}"]
    goals = [Ahead(sets, peer) for peer in ENVIRONMENTS]
    return Report("finding tools", columns, results, [*goals, *GOALS], notes)


def _sizes(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return [
        f"{int(size):,} tools, {name}: indexed in {each['build_s']:.2f} s CPU, {each['mb']:.0f} MB; "
        f"{each['cpu_ms']:.2f} ms CPU a query"
        for size in found[SUBJECT]["sizes"]
        for name, each in ((name, answer["sizes"][size]) for name, answer in found.items())
    ]


def _left_out(found: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value:.3f}" for name, value in found["left_out"].items()) + " (some 200 queries each)"


def _peers(options: Options) -> dict[str, Path]:
    wanted = {name: pins for name, pins in ENVIRONMENTS.items() if not options.only or name in options.only}
    return {name: environments.ready(pins) / "bin" / "python" for name, pins in wanted.items()}


def _ask(name: str, python: Path, options: Options) -> dict[str, Any]:
    most = FEW_QUERIES if options.quick else MOST_QUERIES
    argv = [str(python), str(environments.HERE / "workers" / "tool_search.py"), name, str(options.data), str(most)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"ended with {done.returncode}"]
        raise RuntimeError(f"{name}: {said[-1]}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _round(found: Mapping[str, Any]) -> Round:
    round_ = {f"{name} {FIGURES[key]}": value for name, each in found["sets"].items() for key, value in each.items()}
    sizes = found.get("sizes", {})
    return round_ | {f"{size}_{key}": value for size, each in sizes.items() for key, value in each.items()}
