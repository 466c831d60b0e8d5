"""The tallies and the health in Prometheus' text format (version 0.0.4)."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any

from toolcrib.calls.metrics import BOUNDS_S, Metrics, ToolMetrics

TOOLS_MAX = 1_000
OTHERS = "(others)"
"""Where the tools beyond the limit are counted together."""

Sample = tuple[str, Mapping[str, str], float]
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def exposition(metrics: Metrics, health: Mapping[str, Any], version: str, started_at: float) -> str:
    """One page of samples."""
    tallies = _limited(metrics.tools)
    families = (
        _family("toolcrib_info", "gauge", "The version that runs.", [("", {"version": version}, 1)]),
        _family("process_start_time_seconds", "gauge", "When it was started.", [("", {}, started_at)]),
        _family("toolcrib_calls", "counter", "Calls that ran, by how they ended.", _calls(tallies)),
        _family("toolcrib_call_duration_seconds", "histogram", "How long calls took.", _durations(tallies)),
        _family("toolcrib_calls_in_flight", "gauge", "Calls under way.", [("", {}, metrics.in_flight)]),
        _family("toolcrib_call_refusals", "counter", "Calls that no tool did, by code.", _refusals(metrics)),
        *_catalogue(health),
        *_audit(health["audit"]),
        *(_fleet(health["fleet"]) if "fleet" in health else ()),
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
        total.durations = [one + other for one, other in zip(total.durations, tally.durations, strict=True)]
        for code, count in tally.failures.items():
            total.failures[code] = total.failures.get(code, 0) + count
    return total


def _calls(tallies: Mapping[str, ToolMetrics]) -> Iterator[Sample]:
    for tool, tally in tallies.items():
        yield "", {"tool": tool, "outcome": "success"}, tally.executed - tally.failed
        for code, count in sorted(tally.failures.items()):
            yield "", {"tool": tool, "outcome": code}, count


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


def _catalogue(health: Mapping[str, Any]) -> Iterator[Iterator[str]]:
    servers = health["servers"]
    ups = [("", {"server": name}, float(server["health"] == "healthy")) for name, server in servers.items()]
    restarts = [("", {"server": name}, server["restarts"]) for name, server in servers.items()]
    sizes = [("", {"kind": kind}, count) for kind, count in health["tools"].items()]
    yield _family("toolcrib_server_up", "gauge", "Whether a server can be used.", ups)
    yield _family("toolcrib_server_restarts", "counter", "How often a server was started again.", restarts)
    parts = [("", {"part": name}, float(state == "ok")) for name, state in health["parts"].items()]
    yield _family("toolcrib_part_up", "gauge", "Whether a part that is needed besides servers can be used.", parts)
    yield _family("toolcrib_healthy", "gauge", "Whether nothing is away.", [("", {}, float(not health["away"]))])
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
