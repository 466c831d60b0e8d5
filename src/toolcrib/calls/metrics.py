"""What was run, how it went and how long it took, per tool."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from toolcrib.core.kinds import Health
from toolcrib.core.view import CribHealth, Tally

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
    cpu_s: float = 0.0
    """Processor time of native functions, as far as it can be told: those in threads and in workers."""
    memory_bytes: int = 0
    """The most memory that a worker took for one call."""
    result_bytes: int = 0
    """What its results came to, all together."""
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

    def note_use(self, cpu_s: float, memory_bytes: int, result_bytes: int) -> None:
        """Count what a call used."""
        self.cpu_s += cpu_s
        self.result_bytes += result_bytes
        self.memory_bytes = max(self.memory_bytes, memory_bytes)

    def note_refused(self, code: str) -> None:
        """Count a call that the tool never got to do, or to finish."""
        self.refused += 1
        self.refusals[code] = self.refusals.get(code, 0) + 1

    @property
    def health(self) -> Health:
        """``healthy``, ``degraded`` (some recent calls failed) or ``unhealthy`` (most did)."""
        failures = self.recent.bit_count()
        if failures == 0:
            return Health.HEALTHY
        return Health.UNHEALTHY if failures * 2 > min(self.executed, RECENT) else Health.DEGRADED

    def quantile(self, share: float) -> float:
        """How long that share of the calls took at most, in seconds; about, because only classes are counted."""
        return quantile_of(self.durations, share, self.slowest_s)

    def view(self) -> Tally:
        """What can be seen of it."""
        return Tally(
            executed=self.executed,
            failed=self.failed,
            timed_out=self.timed_out,
            refused=self.refused,
            total_seconds=round(self.total_s, 6),
            slowest_seconds=round(self.slowest_s, 6),
            cpu_seconds=round(self.cpu_s, 6),
            peak_memory_bytes=self.memory_bytes,
            result_bytes=self.result_bytes,
            last_error=self.last_error,
            health=self.health,
        )


def quantile_of(durations: Sequence[int], share: float, slowest_s: float = BOUNDS_S[-1]) -> float:
    """How long that share of calls took at most, from the classes they were counted in; never more than the slowest.

    Within a class calls are taken to be spread evenly.
    """
    wanted, below = share * sum(durations), 0
    for place, count in enumerate(durations):
        if count and below + count >= wanted:
            low = BOUNDS_S[place - 1] if place else 0.0
            high = BOUNDS_S[place] if place < len(BOUNDS_S) else max(slowest_s, BOUNDS_S[-1])
            return min(low + (high - low) * (wanted - below) / count, slowest_s)
        below += count
    return 0.0


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

    def failing(self) -> dict[str, str]:
        """The tools of which most of the last calls failed, and why the last one did."""
        return {name: one.last_error for name, one in self.tools.items() if one.health is Health.UNHEALTHY}

    def count_unknown(self, code: str) -> None:
        """Count a call that found no tool."""
        self.unknown[code] = self.unknown.get(code, 0) + 1

    def totals(self) -> dict[str, float]:
        """Sums over all tools."""
        tallies = self.tools.values()
        return {
            "executed": sum(tally.executed for tally in tallies),
            "failed": sum(tally.failed for tally in tallies),
            "timedOut": sum(tally.timed_out for tally in tallies),
            "totalSeconds": round(sum(tally.total_s for tally in tallies), 6),
        }


TOOLS_MAX = 1_000
OTHERS = "(others)"
"""Where the tools beyond the limit are counted together."""

Sample = tuple[str, Mapping[str, str], float]
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def exposition(metrics: Metrics, health: CribHealth, version: str, started_at: float) -> str:
    """One page of samples."""
    tallies = _limited(metrics.tools)
    families = (
        _family("toolcrib_info", "gauge", "The version that runs.", [("", {"version": version}, 1)]),
        _family("process_start_time_seconds", "gauge", "When it was started.", [("", {}, started_at)]),
        _family("toolcrib_calls", "counter", "Calls that ran, by how they ended.", _calls(tallies)),
        _family("toolcrib_call_duration_seconds", "histogram", "How long calls took.", _durations(tallies)),
        *_uses(tallies),
        _family("toolcrib_calls_in_flight", "gauge", "Calls under way.", [("", {}, metrics.in_flight)]),
        _family("toolcrib_call_refusals", "counter", "Calls that no tool did, by code.", _refusals(metrics)),
        *_catalogue(health),
        *(_audit(health.audit) if health.audit is not None else ()),
        *(_fleet(health.fleet) if health.fleet is not None else ()),
    )
    return "".join(line for family in families for line in family)


def _family(name: str, kind: str, help_text: str, samples: Iterable[Sample]) -> Iterator[str]:
    named = f"{name}_total" if kind == "counter" else name
    yield f"# HELP {named} {help_text}\n# TYPE {named} {kind}\n"
    for suffix, labels, value in samples:
        yield f"{named}{suffix}{_labels(labels)} {float(value):.16g}\n"


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_printable(value)}"' for name, value in labels.items()) + "}"


def _printable(value: str) -> str:
    return value.translate(_ESCAPES).encode("utf-8", "replace").decode()


def _limited(tools: Mapping[str, ToolMetrics]) -> dict[str, ToolMetrics]:
    """The tallies by tool; beyond the limit, those called least are one."""
    called = {name: tally for name, tally in tools.items() if tally.executed or tally.refused}
    if len(called) <= TOOLS_MAX:
        return called
    ordered = sorted(called, key=lambda name: (-called[name].executed, name))
    rest = [called[name] for name in ordered[TOOLS_MAX:]]
    return {name: called[name] for name in ordered[:TOOLS_MAX]} | {OTHERS: _sum(rest)}


def _sum(tallies: Iterable[ToolMetrics]) -> ToolMetrics:
    total = ToolMetrics()
    for tally in tallies:
        total.executed += tally.executed
        total.failed += tally.failed
        total.total_s += tally.total_s
        total.note_use(tally.cpu_s, tally.memory_bytes, tally.result_bytes)
        total.durations = [one + other for one, other in zip(total.durations, tally.durations, strict=True)]
        for code, count in tally.failures.items():
            total.failures[code] = total.failures.get(code, 0) + count
    return total


def _calls(tallies: Mapping[str, ToolMetrics]) -> Iterator[Sample]:
    for tool, tally in tallies.items():
        yield "", {"tool": tool, "outcome": "success"}, tally.executed - tally.failed
        for code, count in sorted(tally.failures.items()):
            yield "", {"tool": tool, "outcome": code}, count


def _uses(tallies: Mapping[str, ToolMetrics]) -> Iterator[Iterator[str]]:
    """What the calls of each tool used, where that is known."""
    cpu = [("", {"tool": tool}, round(tally.cpu_s, 6)) for tool, tally in tallies.items() if tally.cpu_s]
    memory = [("", {"tool": tool}, tally.memory_bytes) for tool, tally in tallies.items() if tally.memory_bytes]
    sizes = [("", {"tool": tool}, tally.result_bytes) for tool, tally in tallies.items()]
    yield _family("toolcrib_call_cpu_seconds", "counter", "Processor time of native functions.", cpu)
    yield _family("toolcrib_call_peak_memory_bytes", "gauge", "The most memory an isolated call took.", memory)
    yield _family("toolcrib_call_result_bytes", "counter", "What results came to.", sizes)


def _durations(tallies: Mapping[str, ToolMetrics]) -> Iterator[Sample]:
    bounds = (*(f"{bound:g}" for bound in BOUNDS_S), "+Inf")
    for tool, tally in tallies.items():
        for bound, count in zip(bounds, accumulate(tally.durations), strict=True):
            yield "_bucket", {"tool": tool, "le": bound}, count
        yield "_sum", {"tool": tool}, round(tally.total_s, 6)
        yield "_count", {"tool": tool}, tally.executed


def _refusals(metrics: Metrics) -> Iterator[Sample]:
    counts = dict(metrics.unknown)
    for tally in metrics.tools.values():
        for code, count in tally.refusals.items():
            counts[code] = counts.get(code, 0) + count
    yield from (("", {"code": code}, count) for code, count in sorted(counts.items()))


def _catalogue(health: CribHealth) -> Iterator[Iterator[str]]:
    servers = health.servers
    ups = [("", {"server": name}, float(server.health is Health.HEALTHY)) for name, server in servers.items()]
    restarts = [("", {"server": name}, server.restarts) for name, server in servers.items()]
    sizes = [("", {"kind": kind}, float(getattr(health.tools, kind))) for kind in ("native", "mcp")]
    yield _family("toolcrib_server_up", "gauge", "Whether a server can be used.", ups)
    lanes = [("", {"server": name}, server.lanes) for name, server in servers.items()]
    yield _family("toolcrib_server_lanes", "gauge", "Processes or sessions of a server that not all share.", lanes)
    yield _family("toolcrib_server_restarts", "counter", "How often a server was started again.", restarts)
    parts = [("", {"part": name}, float(state == "ok")) for name, state in health.parts.items()]
    yield _family("toolcrib_part_up", "gauge", "Whether a part that is needed besides servers can be used.", parts)
    yield _family("toolcrib_healthy", "gauge", "Whether nothing is away.", [("", {}, float(not health.away))])
    yield _family("toolcrib_catalog_tools", "gauge", "Tools in the catalogue.", sizes)


def _fleet(fleet: Mapping[str, Any]) -> Iterator[Iterator[str]]:
    engine, up, settling = {"engine": fleet["engine"]}, not fleet["problem"], fleet["settling_s"]
    yield _family("toolcrib_fleet_up", "gauge", "Whether the other replicas can be reached.", [("", engine, up)])
    told = "How long limits stay closed because counts were lost."
    yield _family("toolcrib_fleet_settling_seconds", "gauge", told, [("", engine, settling)])


def _audit(audit: Mapping[str, Any]) -> Iterator[Iterator[str]]:
    up = audit["enabled"] and not audit["problem"]
    yield _family("toolcrib_audit_up", "gauge", "Whether the audit log is on and can be written.", [("", {}, up)])
    yield _family("toolcrib_audit_entries", "counter", "Entries on disk.", [("", {}, audit["written"])])
    yield _family("toolcrib_audit_backlog", "gauge", "Entries that wait to be written.", [("", {}, audit["backlog"])])
    yield _family("toolcrib_audit_failures", "counter", "Failed attempts to write.", [("", {}, audit["failures"])])
    yield _family("toolcrib_audit_lost", "counter", "Entries that could not be kept.", [("", {}, audit["lost"])])
