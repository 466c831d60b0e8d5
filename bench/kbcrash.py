"""Rounds of ``kill -9`` while documents are added and changed. Standard library only."""

import random
import subprocess
import time
from pathlib import Path

from bench.durability import LIMIT_S, Survived, read_check

WORKER = Path(__file__).parent / "workers" / "kb_writer.py"
LONGEST_S = 0.4
"""How long a round writes at most, after its first acknowledged document, before it is killed."""


def kill_round(python: str, home: Path, first: int, chance: random.Random) -> Survived:
    """Let a process add documents, kill it at a random moment, look what is left; versions begin at ``first``."""
    acknowledged = _write_and_kill(python, home, first, chance.uniform(0, LONGEST_S))
    found = read_check(python, WORKER, home, LIMIT_S)
    newest: dict[int, int] = {}
    for document, version in acknowledged:
        newest[document] = max(version, newest.get(document, 0))
    kept = {int(document): version for document, version in found["versions"].items()}
    lost = sum(kept.get(document, -1) < version for document, version in newest.items())
    return Survived(len(acknowledged), lost, found["fault"], found["reopened_s"])


def _write_and_kill(python: str, home: Path, first: int, after_s: float) -> list[tuple[int, int]]:
    with subprocess.Popen([python, str(WORKER), "write", str(home), str(first)], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            heard = process.stdout.readline()
            time.sleep(after_s)
        finally:
            process.kill()
        heard += process.stdout.read()
    whole = heard[: heard.rfind(b"\n") + 1].decode()
    return [(int(document), int(version)) for document, version in map(str.split, whole.splitlines())]
