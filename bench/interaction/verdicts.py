"""What passes directly against what passes through toolcrib: pure values, no processes.

A cell (one test at one protocol revision over one leg) that passes directly and not through must be listed in
``expected.toml`` with its reason.
"""

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

EXPECTED = Path(__file__).with_name("expected.toml")


@dataclass(frozen=True)
class Leg:
    """How the suite's transport is replaced: how toolcrib reaches the server, and how the client reaches toolcrib."""

    transport: str
    back: str
    front: str

    @property
    def name(self) -> str:
        return f"{self.back} > {self.front}"


@dataclass(frozen=True)
class Cell:
    """One test at one revision, and how it ended."""

    test: str  # file::function
    version: str
    problem: str  # empty: it passed

    @property
    def key(self) -> tuple[str, str]:
        return self.test, self.version


@dataclass(frozen=True)
class Expectation:
    """Cells that are not meant to pass, and why; an empty field stands for any."""

    tests: tuple[str, ...]
    reason: str
    version: str = ""
    legs: tuple[str, ...] = ()

    def holds_for(self, cell: Cell, leg: Leg) -> bool:
        if (self.version and self.version != cell.version) or (self.legs and leg.name not in self.legs):
            return False
        return any(fnmatchcase(cell.test, pattern) for pattern in self.tests)


@dataclass(frozen=True)
class Lost:
    """A cell that passes directly and not through; without a reason it is a fault."""

    leg: Leg
    cell: Cell
    reason: str | None

    def __str__(self) -> str:
        why = f"listed: {self.reason}" if self.reason else f"NOT LISTED: {self.cell.problem}"
        return f"{self.leg.name}  {self.cell.version}  {self.cell.test}  {why}"


@dataclass(frozen=True)
class Comparison:
    """One leg."""

    leg: Leg
    direct: int
    through: int
    lost: tuple[Lost, ...]

    @property
    def unlisted(self) -> int:
        return sum(lost.reason is None for lost in self.lost)


def read_cells(lines: Iterable[str]) -> dict[str, list[Cell]]:
    """Outcomes as the plugin writes them, by the suite's transport; one failed phase fails its cell."""
    found: dict[tuple[str, str, str], str] = {}
    for line in lines:
        said = json.loads(line)
        key = said["transport"], said["cell"].partition("[")[0], said["version"]
        problem = "" if said["outcome"] == "passed" else said["reason"] or said["outcome"]
        found[key] = found.get(key, "") or problem
    cells: dict[str, list[Cell]] = {}
    for (transport, test, version), problem in found.items():
        cells.setdefault(transport, []).append(Cell(test, version, problem))
    return cells


def read_expectations(path: Path = EXPECTED) -> list[Expectation]:
    entries = tomllib.loads(path.read_text()).get("lost", [])
    return [
        Expectation(tuple(one["tests"]), one["reason"], one.get("version", ""), tuple(one.get("legs", ())))
        for one in entries
    ]


def compare(leg: Leg, direct: Sequence[Cell], through: Sequence[Cell], expected: Sequence[Expectation]) -> Comparison:
    """What of the cells that pass directly is lost; one that was not tried through counts as lost."""
    wanted = {cell.key for cell in direct if not cell.problem}
    tried = {cell.key: cell for cell in through}
    cells = [tried.get(key, Cell(*key, "was not run")) for key in sorted(wanted)]
    lost = tuple(Lost(leg, cell, reason_for(cell, leg, expected)) for cell in cells if cell.problem)
    return Comparison(leg, len(wanted), len(wanted) - len(lost), lost)


def reason_for(cell: Cell, leg: Leg, expected: Iterable[Expectation]) -> str | None:
    return next((one.reason for one in expected if one.holds_for(cell, leg)), None)


def stale(expected: Sequence[Expectation], lost: Sequence[Lost]) -> list[str]:
    """Patterns that no lost cell needs any more."""
    return [
        pattern
        for one in expected
        for pattern in one.tests
        if not any(fnmatchcase(each.cell.test, pattern) and one.holds_for(each.cell, each.leg) for each in lost)
    ]


def totals(comparisons: Iterable[Comparison]) -> Mapping[str, float]:
    known = list(comparisons)
    direct = sum(one.direct for one in known)
    through = sum(one.through for one in known)
    return {
        "direct": direct,
        "through": through,
        "lost_pct": 100.0 * (direct - through) / direct if direct else 100.0,
        "unlisted": sum(one.unlisted for one in known),
    }
