"""Figures as a table, goals as lines, everything as JSON."""

import json
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench import environments
from bench.contenders import CONTENDERS
from bench.goals import Goal, Outcome, Results
from bench.options import Options

BUSY_PCT = 20.0  # of the machine, used by others


@dataclass(frozen=True)
class Column:
    title: str
    figure: str


@dataclass(frozen=True)
class Report:
    title: str
    columns: Sequence[Column]
    results: Results
    goals: Sequence[Goal] = ()
    notes: Sequence[str] = ()


def show(report: Report) -> Outcome:
    """Print the report; the outcome of all goals together."""
    verdicts = [goal.judge(report.results) for goal in report.goals]
    print(f"\n{report.title}\n")
    print(table(report))
    print()
    for line in filter(None, [*report.notes, versions(report.results), warning(report.results)]):
        print(line)
    for verdict in verdicts:
        print(verdict.text)
    outcomes = {verdict.outcome for verdict in verdicts}
    return next((bad for bad in (Outcome.MISSED, Outcome.UNKNOWN) if bad in outcomes), Outcome.MET)


def table(report: Report) -> str:
    titles = ["contender", *(column.title for column in report.columns)]
    rows = [_row(name, report) for name, rounds in report.results.items() if rounds]
    widths = [max(map(len, cells)) for cells in zip(titles, *rows, strict=True)]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([_line(titles, widths), rule, *(_line(row, widths) for row in rows)])


def save(report: Report, options: Options, path: Path) -> None:
    document: dict[str, Any] = {
        "title": report.title,
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "options": {**asdict(options), "json": None, "data": None},
        "machine": f"{platform.platform()}, {os.cpu_count()} CPUs, Python {platform.python_version()}",
        "versions": versions(report.results),
        "goals": [goal.judge(report.results).text for goal in report.goals],
        "rounds": report.results,
    }
    path.write_text(json.dumps(document, indent=1))


def versions(results: Results) -> str:
    used = {
        contender.pins: contender.name for contender in CONTENDERS if contender.pins and results.get(contender.name)
    }
    named = "; ".join(f"{name}: {', '.join(environments.pinned(file))}" for file, name in used.items())
    return f"versions: {named}" if named else ""


def warning(results: Results) -> str:
    """A busy machine makes ratios jump; say so beside them."""
    shares = [round_["foreign_pct"] for rounds in results.values() for round_ in rounds if "foreign_pct" in round_]
    if not shares or median(shares) < BUSY_PCT:
        return ""
    return f"others used {median(shares):.0f} % of the machine meanwhile: measure again when it is quiet"


def _row(name: str, report: Report) -> list[str]:
    rounds = report.results[name]
    return [name, *(_cell([round_.get(column.figure) for round_ in rounds]) for column in report.columns)]


def _cell(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    middle = median(known)
    return f"{middle:,.0f}" if abs(middle) >= 100 else f"{middle:.3g}"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """The first cell is a name, the others are numbers."""
    name, *numbers = zip(cells, widths, strict=True)
    aligned = [name[0].ljust(name[1]), *(text.rjust(width) for text, width in numbers)]
    return f"| {' | '.join(aligned)} |"
