"""``python -m bench.mutants --count N --seed N [--module PART]``: one line of JSON for each mutant tried."""

import argparse
import json
import os
import queue
import random
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from bench.mutants.points import Mutant, find_mutants
from bench.mutants.subjects import SOURCE, modules
from bench.mutants.trial import Copy, Verdict, judge

EQUIVALENT = Path(__file__).with_name("equivalent.txt")


def sample(count: int, seed: int, part: str) -> list[Mutant]:
    """As many mutants of every module as its size calls for, at least one each; the same for the same seed."""
    chosen = random.Random(seed)
    by_module = {module: find_mutants(SOURCE / module, module) for module in modules() if part in module}
    total = sum(map(len, by_module.values()))
    picked: list[Mutant] = []
    for found in by_module.values():
        wanted = max(1, round(count * len(found) / total))
        picked += chosen.sample(found, min(wanted, len(found)))
    return picked


def equivalents() -> dict[str, str]:
    """Mutants that change nothing anybody could see, each with the reason; a line is ``KEY # reason``."""
    lines = EQUIVALENT.read_text().splitlines()
    entries = (line.rpartition(" # ") for line in lines if line and not line.startswith("#"))
    return {key.strip(): reason.strip() for key, _, reason in entries}


def main() -> int:
    """Try a sample of mutants, as many at once as there are cores."""
    parser = argparse.ArgumentParser(prog="bench.mutants")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--module", default="", help="only modules whose path holds this")
    wanted = parser.parse_args()
    known = equivalents()
    jobs = os.cpu_count() or 1
    with tempfile.TemporaryDirectory(prefix="toolcrib-mutants-") as folder, ThreadPoolExecutor(jobs) as pool:
        copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        for number in range(jobs):
            copies.put(Copy.make(Path(folder) / str(number)))
        running = {
            pool.submit(_try, mutant, copies): mutant
            for mutant in sample(wanted.count, wanted.seed, wanted.module)
            if mutant.key not in known
        }
        for done, future in enumerate(as_completed(running), 1):
            mutant, verdict = running[future], future.result()
            print(json.dumps({"mutant": mutant.key, "line": mutant.line, "verdict": verdict.value}), flush=True)
            if verdict is Verdict.SURVIVED or not done % 20:
                print(f"{done}/{len(running)} {verdict.value}: {mutant.key}", file=sys.stderr, flush=True)
    return 0


def _try(mutant: Mutant, copies: "queue.SimpleQueue[Copy]") -> Verdict:
    copy = copies.get()
    try:
        return judge(mutant, copy)
    finally:
        copies.put(copy)


if __name__ == "__main__":
    raise SystemExit(main())
