"""How toolcrib is doing, over REST: health, tallies, version."""

from typing import Any

from toolcrib.catalog.entries import away_parts, overall_health
from toolcrib.core.access import METRICS
from toolcrib.core.clocks import elapsed
from toolcrib.doors.http.answers import Answer, json_answer
from toolcrib.doors.http.premises import Premises
from toolcrib.doors.http.router import RouteSpec
from toolcrib.doors.http.visit import Visit
from toolcrib.doors.rest.about import About
from toolcrib.doors.rest.servers import may_see, shown_health
from toolcrib.doors.rest.watch_shapes import HealthView, MetricsView, VersionView
from toolcrib.version import VERSION


def state_routes(premises: Premises) -> list[RouteSpec]:
    """The routes of the state."""

    async def health(visit: Visit) -> Answer:
        visit.need_known()
        return json_answer(_health(premises, visit))

    async def metrics(visit: Visit) -> Answer:
        visit.need_known()
        if METRICS not in (visit.caller.grants.capabilities or ()):
            visit.need_operator()
        found = premises.crib.metrics
        tools = {name: tally.to_dict() for name, tally in sorted(found.tools.items())}
        uptime_s = round(elapsed() - premises.started_s, 1)
        tallies = {"totals": found.totals(), "inFlight": found.in_flight, "unknown": found.unknown, "tools": tools}
        return json_answer({**tallies, "uptimeSeconds": uptime_s})

    async def version(visit: Visit) -> Answer:
        del visit
        return json_answer({"name": "toolcrib", "version": VERSION})

    return [
        RouteSpec("GET", "/api/v1/health", health, About("Show how everything is doing", "state", HealthView)),
        RouteSpec("GET", "/api/v1/metrics", metrics, About("Show the tallies", "state", MetricsView, problems=(403,))),
        RouteSpec("GET", "/api/v1/version", version, About("Show the version", "state", VersionView, is_open=True)),
    ]


def _health(premises: Premises, visit: Visit) -> dict[str, Any]:
    """What a caller may know of it: its own servers, its own tools; the rest is for operators."""
    crib = premises.crib
    whole = crib.health()
    if visit.is_operator():
        return whole
    servers = {name: shown_health(visit, one) for name, one in whole["servers"].items() if may_see(visit, name)}
    routes = crib.catalog.visible_to(visit.caller.grants)
    native = sum(1 for route in routes if not route.server)
    counts = {"native": native, "mcp": len(routes) - native}
    away = away_parts(crib.parts(), servers)
    return {
        "status": overall_health(servers, away),
        "away": away,
        "parts": whole["parts"],
        "tools": counts,
        "servers": servers,
        "calls": None,
        "audit": None,
    }
