"""What toolcrib promises: ratios taken inside each round against whoever was best in it, or plain limits."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from statistics import median
from typing import Protocol

Round = dict[str, float]  # what one visit to one contender measured
Results = dict[str, list[Round]]  # by contender, in the order of the rounds

SUBJECT = "toolcrib"


class Outcome(IntEnum):
    """As an exit code."""

    MET = 0
    MISSED = 1
    UNKNOWN = 2


@dataclass(frozen=True)
class Verdict:
    text: str
    outcome: Outcome


class Goal(Protocol):
    def judge(self, results: Results) -> Verdict: ...


@dataclass(frozen=True)
class Limit:
    """At most so much, whatever others need."""

    label: str
    figure: str
    at_most: float
    unit: str

    def judge(self, results: Results) -> Verdict:
        measured = [round_[self.figure] for round_ in results.get(SUBJECT, [])]
        if not measured:
            return Verdict(f"{self.label}: not measured", Outcome.UNKNOWN)
        bound = f"goal <= {self.at_most:g} {self.unit}"
        return _verdict(f"{self.label}: {_spread(measured, self.unit)}", bound, median(measured) <= self.at_most)


@dataclass(frozen=True)
class Over:
    """At most so much more than another contender of the same round."""

    label: str
    figure: str
    contender: str
    base: str
    at_most: float
    unit: str

    def judge(self, results: Results) -> Verdict:
        pairs = zip(results.get(self.contender, []), results.get(self.base, []), strict=False)
        more = [ours[self.figure] - base[self.figure] for ours, base in pairs]
        if not more:
            return Verdict(f"{self.label}: not measured (needs {self.contender} and {self.base})", Outcome.UNKNOWN)
        bound = f"goal <= {self.at_most:g} {self.unit}"
        return _verdict(f"{self.label}: {_spread(more, self.unit)}", bound, median(more) <= self.at_most)


@dataclass(frozen=True)
class Ratio:
    """How many times as much as the best rival: of speed when more is better, of cost otherwise."""

    label: str
    figure: str
    rivals: Sequence[str]
    more_is_better: bool = False

    def by_round(self, results: Results) -> list[float]:
        there = [results[name] for name in self.rivals if results.get(name)]
        best = max if self.more_is_better else min
        rounds = zip(results.get(SUBJECT, []), *there, strict=False) if there else ()
        return [ours[self.figure] / best(rival[self.figure] for rival in others) for ours, *others in rounds]

    def say(self, ratios: Sequence[float], results: Results) -> str:
        if not ratios:
            return f"{self.label}: not measured (needs {SUBJECT} and {' or '.join(self.rivals)})"
        absent = [name for name in self.rivals if not results.get(name)]
        return f"{self.label}{_without(absent)}: {_spread(ratios, 'x')}"

    def judge(self, results: Results) -> Verdict:
        """Told, not judged."""
        return Verdict(self.say(self.by_round(results), results), Outcome.MET)


@dataclass(frozen=True)
class AtMost:
    """A ratio that must not be larger."""

    ratio: Ratio
    times: float

    def judge(self, results: Results) -> Verdict:
        ratios = self.ratio.by_round(results)
        text = self.ratio.say(ratios, results)
        if not ratios:
            return Verdict(text, Outcome.UNKNOWN)
        return _verdict(text, f"goal <= {self.times:g} x", median(ratios) <= self.times)


@dataclass(frozen=True)
class AtLeast:
    """A ratio that must not be smaller; of costs, the rival's to ours."""

    ratio: Ratio
    times: float

    def judge(self, results: Results) -> Verdict:
        upright = self.ratio.by_round(results)
        ratios = upright if self.ratio.more_is_better else [1 / ratio for ratio in upright]
        text = self.ratio.say(ratios, results)
        if not ratios:
            return Verdict(text, Outcome.UNKNOWN)
        return _verdict(text, f"goal >= {self.times:g} x", median(ratios) >= self.times)


def _verdict(text: str, bound: str, is_met: bool) -> Verdict:
    return Verdict(f"{text} ({bound}) {'ok' if is_met else 'MISSED'}", Outcome.MET if is_met else Outcome.MISSED)


def _spread(measured: Sequence[float], unit: str) -> str:
    return f"{median(measured):.3g} {unit} [{min(measured):.3g} .. {max(measured):.3g}]"


def _without(absent: Sequence[str]) -> str:
    return f" (without {', '.join(absent)})" if absent else ""
