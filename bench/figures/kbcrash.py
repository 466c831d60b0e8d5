"""Rounds of ``kill -9`` while documents are added and changed: nothing acknowledged may be lost or not be found."""

import random
import tempfile
from pathlib import Path

from bench import environments
from bench.figures.durability import NUMBERS_PER_ROUND, Never, Subject
from bench.goals import SUBJECT, Limit, Round
from bench.kbcrash import kill_round
from bench.options import Options
from bench.report import Column, Report
from bench.rounds import visit

COLUMNS = (
    Column("acknowledged documents per round", "acknowledged"),
    Column("lost", "lost"),
    Column("faults in the index", "faults"),
    Column("reopened after s", "reopened_s"),
)
GOALS = [
    Never("rounds that lost an acknowledged document", "lost"),
    Never("rounds after which the index was not whole", "faults"),
    Limit("reopening", "reopened_s", 2, "s"),
]


async def measure(options: Options) -> Report:
    rounds = options.rounds or (10 if options.quick else 200)
    chance = random.Random()
    with tempfile.TemporaryDirectory() as place:
        number = iter(range(1, rounds * NUMBERS_PER_ROUND + 1, NUMBERS_PER_ROUND))
        results = await visit([Subject(SUBJECT)], rounds, lambda _: _round(Path(place), next(number), chance))
    total = sum(round_["acknowledged"] for round_ in results[SUBJECT])
    notes = [f"{total:,.0f} acknowledged documents in all; one knowledge base through all rounds"]
    return Report(f"kill -9 while adding documents, {rounds} rounds", COLUMNS, results, GOALS, notes)


async def _round(home: Path, first: int, chance: random.Random) -> Round:
    survived = kill_round(str(environments.project_python()), home, first, chance)
    return {
        "acknowledged": survived.acknowledged,
        "lost": survived.lost,
        "faults": bool(survived.fault),
        "reopened_s": survived.reopened_s,
    }
