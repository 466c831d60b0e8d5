"""Reads evaluation sets and judges rankings; standard library only, because every contender's environment runs it."""

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def rows_of(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def sets_in(folder: Path, mark: str) -> dict[str, Path]:
    """Every folder at or below ``folder`` that holds a file of the name ``mark``."""
    return {found.parent.name: found.parent for found in sorted(folder.rglob(mark))}


def judgements(path: Path) -> dict[str, dict[str, float]]:
    """Query → document → relevance; a first line with names is passed over."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for line in path.read_text().splitlines():
        parts = line.split("\t")
        if parts[-1].replace(".", "", 1).isdigit():
            found[parts[0]][parts[-2]] = float(parts[-1])
    return dict(found)


def ndcg(ranked: Sequence[str], relevant: Mapping[str, float], k: int = 10) -> float:
    gained = sum(relevant.get(id_, 0.0) / math.log2(at + 2) for at, id_ in enumerate(ranked[:k]))
    best = sorted(relevant.values(), reverse=True)[:k]
    ideal = sum(gain / math.log2(at + 2) for at, gain in enumerate(best))
    return gained / ideal if ideal else 0.0


def recall(ranked: Sequence[str], relevant: Mapping[str, float], k: int = 100) -> float:
    good = {id_ for id_, gain in relevant.items() if gain > 0}
    return len(good & set(ranked[:k])) / len(good) if good else 0.0


def groups_met(ranked: Sequence[str], groups: Sequence[Sequence[str]], k: int) -> float:
    """The share of needs that one of the first ``k`` tools satisfies."""
    return sum(bool(set(ranked[:k]) & set(group)) for group in groups) / len(groups)


def groups_ndcg(ranked: Sequence[str], groups: Sequence[Sequence[str]], k: int = 10) -> float:
    """One gain for each need, at the first tool that satisfies it."""
    open_, gained = [set(group) for group in groups], 0.0
    for at, id_ in enumerate(ranked[:k]):
        met = next((group for group in open_ if id_ in group), None)
        if met is not None:
            open_.remove(met)
            gained += 1 / math.log2(at + 2)
    return gained / sum(1 / math.log2(at + 2) for at in range(min(k, len(groups))))
