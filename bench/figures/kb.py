"""How well passages are found: by words alone, by vectors alone, and by both."""

import json
import subprocess
from dataclasses import dataclass
from statistics import median

from bench import environments
from bench.goals import SUBJECT, Outcome, Results, Round, Verdict
from bench.options import Options
from bench.report import Column, Report

LIMIT_S = 1800.0
ROWS = {"words alone": "lexical", "vectors alone": "vector", SUBJECT: "hybrid"}
PUBLISHED = {"published BM25": {"scifact": 0.665}, "published MiniLM-L6": {"scifact": 0.645}}  # nDCG@10, as in BEIR


@dataclass(frozen=True)
class BetterThanHalves:
    """Both together find more than either alone, on every set."""

    sets: tuple[str, ...]

    def judge(self, results: Results) -> Verdict:
        gains = [
            min(_middle(results, SUBJECT, name) - _middle(results, half, name) for half in list(ROWS)[:2])
            for name in self.sets
        ]
        text = f"nDCG@10 over the better half: {', '.join(f'{gain:+.3f}' for gain in gains)} (goal > 0 on every set)"
        return Verdict(text, Outcome.MET if min(gains) > 0 else Outcome.MISSED)


async def measure(options: Options) -> Report:
    argv = [str(environments.project_python()), str(environments.HERE / "workers" / "kb_quality.py"), str(options.data)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    found = json.loads(done.stdout)
    if not found:
        raise SystemExit(f"{options.data} holds no corpus.jsonl")
    results: Results = {row: [_round(found, mode)] for row, mode in ROWS.items()}
    for row, known in PUBLISHED.items():
        published = {f"{name} nDCG@10": known[name] for name in found if name in known}
        results |= {row: [published]} if published else {}
    columns = [Column(title, title) for name in found for title in (f"{name} nDCG@10", f"{name} R@100", f"{name} ms")]
    notes = [
        f"{name}: {each['documents']:,} documents, {each['queries']:,} queries, embedded and indexed in "
        f"{each['build_s']:.1f} s CPU; nDCG@10 with weights chosen on the other sets: {each['left_out']:.3f}"
        for name, each in found.items()
    ]
    return Report("finding passages", columns, results, [BetterThanHalves(tuple(found))], notes)


def _round(found: dict[str, dict[str, dict[str, float]]], mode: str) -> Round:
    titles = {"ndcg": "nDCG@10", "recall": "R@100", "cpu_ms": "ms"}
    return {f"{name} {title}": each[mode][key] for name, each in found.items() for key, title in titles.items()}


def _middle(results: Results, row: str, name: str) -> float:
    return median(round_[f"{name} nDCG@10"] for round_ in results[row])
