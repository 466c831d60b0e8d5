"""What the suite found against what was expected: pure values, no processes.

A failed check must be foreseen in ``expected.toml`` with its reason, and what is foreseen must really fail: a new
failure and a stale entry both turn the verdict. Warnings and skipped checks are shown and do not.
"""

import json
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Check:
    """One statement of the specification, as the suite tested it."""

    id: str
    status: str
    message: str


@dataclass(frozen=True)
class Run:
    """One pass of the suite: which side was tested, what stood there, and which revision."""

    leg: str
    target: str
    revision: str

    def __str__(self) -> str:
        return f"{self.leg} {self.target} {self.revision}"


@dataclass(frozen=True)
class Outcome:
    """One scenario in one run."""

    run: Run
    scenario: str
    checks: tuple[Check, ...]

    @property
    def failures(self) -> list[Check]:
        return [check for check in self.checks if check.status == "FAILURE"]

    def status_of(self, check_id: str) -> set[str]:
        return {check.status for check in self.checks if check.id == check_id}


@dataclass(frozen=True)
class Expectation:
    """A failure that is known, and why it is right; an empty field stands for any, ``scenario`` may be a pattern."""

    leg: str
    scenario: str
    reason: str
    check: str = ""
    revisions: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()

    def concerns(self, outcome: Outcome) -> bool:
        return (
            self.leg == outcome.run.leg
            and fnmatchcase(outcome.scenario, self.scenario)
            and (not self.revisions or outcome.run.revision in self.revisions)
            and (not self.targets or outcome.run.target in self.targets)
        )

    def excuses(self, check: Check) -> bool:
        return self.check in ("", check.id)

    def is_contradicted_by(self, outcome: Outcome) -> bool:
        """Whether what should have failed did not; a check that was never reached contradicts nothing."""
        if self.check:
            return outcome.status_of(self.check) == {"SUCCESS"}
        return not outcome.failures

    def __str__(self) -> str:
        return f"{self.scenario}:{self.check}" if self.check else self.scenario


@dataclass(frozen=True)
class Verdict:
    """One scenario in one run, sorted: failures nobody foresaw, entries that no longer hold, failures with a reason."""

    outcome: Outcome
    new: tuple[Check, ...]
    stale: tuple[Expectation, ...]
    excused: tuple[tuple[Check, Expectation], ...]

    @property
    def is_good(self) -> bool:
        return not self.new and not self.stale


def judge(outcome: Outcome, expectations: Iterable[Expectation]) -> Verdict:
    """Compare one outcome with what was foreseen for it."""
    relevant = [expectation for expectation in expectations if expectation.concerns(outcome)]
    new, excused = [], []
    for check in outcome.failures:
        because = next((expectation for expectation in relevant if expectation.excuses(check)), None)
        if because is None:
            new.append(check)
        else:
            excused.append((check, because))
    stale = [expectation for expectation in relevant if expectation.is_contradicted_by(outcome)]
    return Verdict(outcome, tuple(new), tuple(stale), tuple(excused))


def unmatched(expectations: Iterable[Expectation], outcomes: Sequence[Outcome]) -> list[Expectation]:
    """Expectations that concern no scenario at all: renamed or removed in the suite."""
    return [e for e in expectations if not any(e.concerns(outcome) for outcome in outcomes)]


def read_expectations(path: Path) -> list[Expectation]:
    """Every entry of ``expected.toml``, one expectation for each scenario and check it names."""
    tables: dict[str, list[dict[str, Any]]] = tomllib.loads(path.read_text())
    return [
        Expectation(
            leg,
            scenario,
            entry["reason"],
            check,
            tuple(entry.get("revisions", ())),
            tuple(entry.get("targets", ())),
        )
        for leg, entries in tables.items()
        for entry in entries
        for scenario in entry["scenarios"]
        for check in entry.get("checks", [""])
    ]


def read_outcome(run: Run, scenario: str, checks_file: Path | None) -> Outcome:
    """A scenario's checks from the file the suite wrote; one that checked nothing has failed."""
    found = json.loads(checks_file.read_text()) if checks_file else []
    checks = [Check(check["id"], check["status"], check.get("errorMessage") or check["description"]) for check in found]
    return Outcome(run, scenario, tuple(checks) or (Check("nothing-checked", "FAILURE", "no check was made"),))
