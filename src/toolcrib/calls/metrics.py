"""What was run, how it went and how long it took, per tool."""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper limits of the classes that durations are counted in."""

RECENT = 20
RECENT_MASK = (1 << RECENT) - 1


@dataclass(slots=True)
class ToolMetrics:
    """The tally of one tool."""

    executed: int = 0
    failed: int = 0
    timed_out: int = 0
    refused: int = 0
    """Calls with arguments that did not fit, or that were cancelled."""
    total_s: float = 0.0
    slowest_s: float = 0.0
    last_error: str = ""
    recent: int = 0
    """How the last ``RECENT`` calls ended, one bit each: 1 for a failure."""
    durations: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    """Calls by how long they took, in the classes of ``BOUNDS_S`` and one beyond."""
    failures: dict[str, int] = field(default_factory=dict)
    refusals: dict[str, int] = field(default_factory=dict)
    """Both by the code of the error."""

    def note(self, elapsed_s: float, failed: int) -> None:
        """Count one more call, and one more failure if it was one."""
        self.executed += 1
        self.durations[bisect_left(BOUNDS_S, elapsed_s)] += 1
        self.failed += failed
        self.total_s += elapsed_s
        self.slowest_s = max(self.slowest_s, elapsed_s)
        self.recent = (self.recent << 1 | failed) & RECENT_MASK

    def note_failed(self, elapsed_s: float, code: str, message: str) -> None:
        """Count one more call, and why it failed."""
        self.note(elapsed_s, 1)
        self.failures[code] = self.failures.get(code, 0) + 1
        self.last_error = message[:500]

    def note_refused(self, code: str) -> None:
        """Count a call that the tool never got to do, or to finish."""
        self.refused += 1
        self.refusals[code] = self.refusals.get(code, 0) + 1

    @property
    def health(self) -> str:
        """``healthy``, ``degraded`` (some recent calls failed) or ``unhealthy`` (most did)."""
        failures = self.recent.bit_count()
        if failures == 0:
            return "healthy"
        return "unhealthy" if failures * 2 > min(self.executed, RECENT) else "degraded"

    def to_dict(self) -> dict[str, Any]:
        """The tally as plain data."""
        return {
            "executed": self.executed,
            "failed": self.failed,
            "timedOut": self.timed_out,
            "refused": self.refused,
            "totalSeconds": round(self.total_s, 6),
            "slowestSeconds": round(self.slowest_s, 6),
            "lastError": self.last_error,
            "health": self.health,
        }


@dataclass(slots=True)
class Metrics:
    """The tallies of all tools that were called."""

    tools: dict[str, ToolMetrics] = field(default_factory=dict)
    in_flight: int = 0
    unknown: dict[str, int] = field(default_factory=dict)
    """Calls whose tool was not found, by the code of their error; they have no tally of their own."""

    def of(self, name: str) -> ToolMetrics:
        """The tally of one tool, begun when it is first asked for."""
        tally = self.tools.get(name)
        if tally is None:
            tally = self.tools[name] = ToolMetrics()
        return tally

    def count_unknown(self, code: str) -> None:
        """Count a call that found no tool."""
        self.unknown[code] = self.unknown.get(code, 0) + 1

    def totals(self) -> Mapping[str, Any]:
        """Sums over all tools."""
        tallies = self.tools.values()
        return {
            "executed": sum(tally.executed for tally in tallies),
            "failed": sum(tally.failed for tally in tallies),
            "timedOut": sum(tally.timed_out for tally in tallies),
            "totalSeconds": round(sum(tally.total_s for tally in tallies), 6),
        }
