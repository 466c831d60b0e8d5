"""``python -m bench.mutants [--count N] [--seed N] [--module PART] [--near] [--again FILE]``: a line for each tried."""

import argparse
import contextlib
import json
import os
import queue
import random
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from bench.mutants.points import Mutant, compiles, find_mutants
from bench.mutants.subjects import SOURCE, decides, modules
from bench.mutants.trial import Copy, Trial, Verdict

EQUIVALENT = Path(__file__).with_name("equivalent.txt")


def sample(count: int, seed: int, part: str) -> list[Mutant]:
    """As many mutants of every module as its size calls for, at least one each; the same for the same seed."""
    chosen = random.Random(seed)
    by_module = {module: _faults(module) for module in modules() if part in module}
    total = sum(map(len, by_module.values()))
    picked: list[Mutant] = []
    for module, found in by_module.items():
        wanted = max(1, round(count * len(found) / total))
        shuffled = chosen.sample(found, len(found))
        picked += islice((mutant for mutant in shuffled if compiles(mutant, SOURCE / module)), wanted)
    chosen.shuffle(picked)  # so that a run that is cut short has tried a fair sample, too
    return picked


def _faults(module: str) -> list[Mutant]:
    return [found for found in find_mutants(SOURCE / module, module) if decides(module, found.function)]


def equivalents() -> dict[str, str]:
    """Mutants that change nothing anybody could see, each with the reason; a line is ``KEY # reason``."""
    lines = EQUIVALENT.read_text().splitlines()
    entries = (line.rpartition(" # ") for line in lines if line and not line.startswith("#"))
    return {key.strip(): reason.strip() for key, _, reason in entries}


def survivors(output: Path) -> list[Mutant]:
    """The mutants that nobody noticed in an earlier run, as far as they can still be made."""
    told = map(json.loads, output.read_text().splitlines())
    keys = {one["mutant"] for one in told if one["verdict"] == Verdict.SURVIVED.value}
    return [found for module in modules() for found in _faults(module) if found.key in keys]


def main() -> int:
    """Try a sample of mutants, as many at once as there are cores."""
    parser = argparse.ArgumentParser(prog="bench.mutants")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--module", default="", help="only modules whose path holds this")
    parser.add_argument("--near", action="store_true", help="ask only the tests nearest to each module")
    parser.add_argument("--again", type=Path, help="only those that survived in the output of an earlier run")
    wanted = parser.parse_args()
    known, jobs, trial = equivalents(), os.cpu_count() or 1, Trial(wanted.near)
    chosen = survivors(wanted.again) if wanted.again else sample(wanted.count, wanted.seed, wanted.module)
    mutants = [found for found in chosen if found.key not in known]
    with contextlib.ExitStack() as life:
        folder = Path(life.enter_context(tempfile.TemporaryDirectory(prefix="toolcrib-mutants-")))
        copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        for number in range(jobs):
            copies.put(life.enter_context(Copy.make(folder / str(number))))
        pool = life.enter_context(ThreadPoolExecutor(jobs))
        tally = Tally(len(mutants))
        running = [pool.submit(_try, trial, of_module, copies, tally) for of_module in _by_module(mutants)]
        for future in as_completed(running):
            future.result()
    print(tally.summary(), file=sys.stderr, flush=True)
    return 0


def _by_module(mutants: list[Mutant]) -> list[list[Mutant]]:
    """Those of one module together, so that its tests are collected once; the modules stay in mixed order."""
    grouped: dict[str, list[Mutant]] = {}
    for mutant in mutants:
        grouped.setdefault(mutant.module, []).append(mutant)
    return list(grouped.values())


@dataclass
class Tally:
    """What became of those tried so far."""

    wanted: int
    verdicts: Counter[Verdict] = field(default_factory=Counter)

    def add(self, mutant: Mutant, verdict: Verdict, test: str) -> None:
        """Count one, and tell of it."""
        self.verdicts[verdict] += 1
        said = {"mutant": mutant.key, "line": mutant.line, "verdict": verdict.value, "by": test}
        print(json.dumps(said), flush=True)
        done = self.verdicts.total()
        if verdict in (Verdict.SURVIVED, Verdict.UNKNOWN) or done % 10 == 0:
            print(
                f"{done}/{self.wanted} {verdict.value}: {mutant.key} (line {mutant.line})", file=sys.stderr, flush=True
            )

    def summary(self) -> str:
        """How many were noticed of those that were tried."""
        noticed = self.verdicts[Verdict.NOTICED] + self.verdicts[Verdict.HUNG]
        tried = noticed + self.verdicts[Verdict.SURVIVED]
        return f"{noticed} of {tried} noticed, {self.verdicts[Verdict.UNKNOWN]} not tried"


def _try(trial: Trial, mutants: list[Mutant], copies: "queue.SimpleQueue[Copy]", tally: Tally) -> None:
    copy = copies.get()
    try:
        for mutant in mutants:
            tally.add(mutant, *trial.judge(mutant, copy))
    finally:
        copies.put(copy)


if __name__ == "__main__":
    raise SystemExit(main())
