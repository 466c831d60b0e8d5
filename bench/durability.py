"""Rounds of ``kill -9``: what was acknowledged must be there afterwards. Standard library only."""

import json
import random
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WORKER = Path(__file__).parent / "workers" / "durable.py"
LIMIT_S = 60.0
LONGEST_S = 0.25
"""How long a round writes at most before it is killed."""


@dataclass(frozen=True)
class Survived:
    """One round: what was acknowledged, and what of it was not there after the kill."""

    acknowledged: int
    lost: int
    fault: str
    reopened_s: float


def kill_round(python: str, home: Path, first: int, chance: random.Random) -> Survived:
    """Let a process write, kill it at a random moment, look what is left; numbers begin at ``first``."""
    heard = write_and_kill([python, str(WORKER), "write", str(home), str(first)], chance.uniform(0, LONGEST_S))
    acknowledged = [(kind, int(number)) for kind, number in heard]
    found = read_check(python, WORKER, home, LIMIT_S)
    audit = {number for kind, number in acknowledged if kind == "audit"}
    lost = len(audit - set(found["begun"])) + sum(_is_lost(kind, acknowledged, found) for kind in ("lock", "answer"))
    return Survived(len(acknowledged), lost, found["fault"] or "", found["reopened_s"])


def _is_lost(kind: str, acknowledged: list[tuple[str, int]], found: dict[str, Any]) -> bool:
    """Whether the last acknowledged write to the lock is not there."""
    return found[kind] < max((number for of, number in acknowledged if of == kind), default=0)


def write_and_kill(argv: list[str], after_s: float) -> list[list[str]]:
    """What a writer acknowledged, line by line, until it was killed so long after the first line."""
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            heard = process.stdout.readline()
            time.sleep(after_s)
        finally:
            process.kill()
        heard += process.stdout.read()
    whole = heard[: heard.rfind(b"\n") + 1].decode()
    return [line.split() for line in whole.splitlines()]


def read_check(python: str, worker: Path, home: Path, limit_s: float) -> dict[str, Any]:
    """What a worker finds after the kill."""
    done = subprocess.run(
        [python, str(worker), "check", str(home)], capture_output=True, text=True, timeout=limit_s, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    found: dict[str, Any] = json.loads(done.stdout)
    return found
