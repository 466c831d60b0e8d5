"""What was run, how it went and how long it took, per tool."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

RECENT = 20


@dataclass(slots=True)
class ToolMetrics:
    """The tally of one tool."""

    executed: int = 0
    failed: int = 0
    timed_out: int = 0
    total_s: float = 0.0
    slowest_s: float = 0.0
    last_error: str = ""
    recent_failures: int = 0
    """Failures among the last ``RECENT`` calls, decaying."""

    @property
    def health(self) -> str:
        """``healthy``, ``degraded`` (some recent calls failed) or ``unhealthy`` (most did)."""
        seen = min(self.executed, RECENT)
        if seen == 0 or self.recent_failures == 0:
            return "healthy"
        return "unhealthy" if self.recent_failures * 2 > seen else "degraded"

    def to_dict(self) -> dict[str, Any]:
        """The tally as plain data."""
        return {
            "executed": self.executed,
            "failed": self.failed,
            "timedOut": self.timed_out,
            "totalSeconds": round(self.total_s, 6),
            "slowestSeconds": round(self.slowest_s, 6),
            "lastError": self.last_error,
            "health": self.health,
        }


@dataclass(slots=True)
class Metrics:
    """The tallies of all tools that were called."""

    tools: dict[str, ToolMetrics] = field(default_factory=dict)

    def of(self, name: str) -> ToolMetrics:
        """The tally of one tool, begun when it is first asked for."""
        tally = self.tools.get(name)
        if tally is None:
            tally = self.tools[name] = ToolMetrics()
        return tally

    def totals(self) -> Mapping[str, Any]:
        """Sums over all tools."""
        tallies = self.tools.values()
        return {
            "executed": sum(tally.executed for tally in tallies),
            "failed": sum(tally.failed for tally in tallies),
            "timedOut": sum(tally.timed_out for tally in tallies),
            "totalSeconds": round(sum(tally.total_s for tally in tallies), 6),
        }
