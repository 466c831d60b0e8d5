"""Rounds of ``kill -9`` in the middle of audit, lock and approval writes: nothing acknowledged may be lost."""

import random
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench import environments
from bench.durability import kill_round
from bench.goals import SUBJECT, Limit, Outcome, Results, Round, Verdict
from bench.options import Options
from bench.report import Column, Report
from bench.rounds import visit

NUMBERS_PER_ROUND = 1_000_000

COLUMNS = (
    Column("acknowledged writes per round", "acknowledged"),
    Column("lost", "lost"),
    Column("faults in the chain", "faults"),
    Column("reopened after s", "reopened_s"),
)


@dataclass(frozen=True)
class Never:
    """What may not happen in any round, however rare."""

    label: str
    figure: str
    above: float = 0

    def judge(self, results: Results) -> Verdict:
        measured = [round_[self.figure] for round_ in results.get(SUBJECT, [])]
        bad = sum(value > self.above for value in measured)
        text = f"{self.label}: {bad} of {len(measured)} rounds (goal 0) {'MISSED' if bad else 'ok'}"
        return Verdict(text, Outcome.MISSED if bad else Outcome.MET)


GOALS = [
    Never("rounds that lost an acknowledged write", "lost"),
    Never("rounds after which `verify` found a fault", "faults"),
    Never("rounds that took more than 2 s to open again", "reopened_s", above=2),
    Limit("reopening", "reopened_s", 2, "s"),
]


@dataclass(frozen=True)
class Subject:
    name: str


async def measure(options: Options) -> Report:
    rounds = options.rounds or (10 if options.quick else 300)
    chance = random.Random()
    with tempfile.TemporaryDirectory() as place:
        number = iter(range(1, rounds * NUMBERS_PER_ROUND + 1, NUMBERS_PER_ROUND))
        results = await visit([Subject(SUBJECT)], rounds, lambda _: _round(Path(place), next(number), chance))
    total = sum(round_["acknowledged"] for round_ in results[SUBJECT])
    notes = [f"{total:,.0f} acknowledged writes in all; one log and one lock through all rounds"]
    return Report(f"kill -9 while writing, {rounds} rounds", COLUMNS, results, GOALS, notes)


async def _round(home: Path, first: int, chance: random.Random) -> Round:
    survived = kill_round(str(environments.project_python()), home, first, chance)
    return {
        "acknowledged": survived.acknowledged,
        "lost": survived.lost,
        "faults": bool(survived.fault),
        "reopened_s": survived.reopened_s,
    }
