"""Rounds of ``kill -9`` while documents are added and changed. Standard library only."""

import random
from pathlib import Path

from bench.durability import LIMIT_S, Survived, read_check, write_and_kill

WORKER = Path(__file__).parent / "workers" / "kb_writer.py"
LONGEST_S = 0.4
"""How long a round writes at most, after its first acknowledged document, before it is killed."""


def kill_round(python: str, home: Path, first: int, chance: random.Random) -> Survived:
    """Let a process add documents, kill it at a random moment, look what is left; versions begin at ``first``."""
    heard = write_and_kill([python, str(WORKER), "write", str(home), str(first)], chance.uniform(0, LONGEST_S))
    acknowledged = [(int(document), int(version)) for document, version in heard]
    found = read_check(python, WORKER, home, LIMIT_S)
    newest: dict[int, int] = {}
    for document, version in acknowledged:
        newest[document] = max(version, newest.get(document, 0))
    kept = {int(document): version for document, version in found["versions"].items()}
    lost = sum(kept.get(document, -1) < version for document, version in newest.items())
    return Survived(len(acknowledged), lost, found["fault"], found["reopened_s"])
