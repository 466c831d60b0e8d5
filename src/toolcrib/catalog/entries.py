"""The catalogue and its servers as plain data, for whoever shows them; reading them starts nothing."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from toolcrib.catalog.catalog import Route
from toolcrib.catalog.records import ServerShelf, barred_words
from toolcrib.config.lock import Record
from toolcrib.core.access import Grants, may_know_server
from toolcrib.core.call import ErrorInfo, ToolResult
from toolcrib.core.kinds import DiscoveryStatus, Health, LinkState
from toolcrib.core.source import Missing
from toolcrib.schema.text import printable


class KnownServer(Protocol):
    """What is known of a server, from its shelf or from its record."""

    @property
    def record(self) -> Record:
        """Its last discovery."""

    @property
    def status(self) -> DiscoveryStatus:
        """How that stands."""


def tool_entry(route: Route, shelf: KnownServer | None) -> dict[str, Any]:
    """One tool: what it is, where it comes from, and how fresh that knowledge is."""
    return {
        "name": route.name,
        "description": route.tool.description,
        "kind": "mcp" if route.server else "native",
        "server": route.server or None,
        "originalName": route.original_name,
        "policy": route.policy,
        "level": route.tool.security_level,
        "held": route.held,
        "discoveryStatus": shelf.status if shelf else DiscoveryStatus.SUCCESS,
        "lastDiscovered": (shelf.record.last_discovery or None) if shelf else None,
    }


def server_health(shelf: ServerShelf, breaker: Mapping[str, Any]) -> dict[str, Any]:
    """How one server is doing, with how its breaker stands."""
    status = shelf.source.status()
    broken = shelf.record.status is DiscoveryStatus.FAILED or status.state is LinkState.FAILING
    is_well = not broken and breaker["breaker"] == "closed"
    return {
        "health": Health.HEALTHY if is_well else Health.DEGRADED if shelf.is_known else Health.UNHEALTHY,
        "state": status.state,
        "discovery": shelf.status,
        "tools": len(shelf.tools),
        "stale": broken and shelf.is_known,
        "lastDiscovery": shelf.record.last_discovery,
        "error": status.error or (shelf.record.error if broken else ""),
        "era": status.era,
        "restarts": status.restarts,
        "stdoutNoise": status.stdout_noise,
        **breaker,
        "isolation": status.isolation,
    }


def overall_health(servers: Mapping[str, Mapping[str, Any]], away: Mapping[str, str]) -> Health:
    """``healthy``; ``degraded`` when some server is not or a part is away; ``unhealthy`` when no server is of use."""
    states = [server["health"] for server in servers.values()]
    if states and all(state == Health.UNHEALTHY for state in states):
        return Health.UNHEALTHY
    return Health.DEGRADED if away or any(state != Health.HEALTHY for state in states) else Health.HEALTHY


def away_parts(parts: Mapping[str, str], servers: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """What cannot be used as it should, by name, and why; ``parts`` are those that have a problem or none."""
    broken = {
        f"server {name}": server["error"] or "It is left alone for a while."
        for name, server in servers.items()
        if server["health"] != Health.HEALTHY
    }
    return {name: problem for name, problem in parts.items() if problem} | broken


def discovery_outcome(records: Mapping[str, Record]) -> ToolResult:
    """What a discovery came to, as a result; failed if any server could not be asked."""
    found = {
        "registered": sum(len(record.tools) for record in records.values() if record.status is DiscoveryStatus.SUCCESS),
        "servers": {name: _told(record) for name, record in sorted(records.items())},
    }
    failed = [record for _, record in sorted(records.items()) if record.status is DiscoveryStatus.FAILED]
    error = None
    if failed:
        message = " ".join(record.error for record in failed)
        error = ErrorInfo("TOOL_UNAVAILABLE", message, retryable=True, details=found)
    return ToolResult({"content": [], "structuredContent": found, "isError": bool(failed)}, error=error)


def _told(record: Record) -> dict[str, Any]:
    return {"status": record.status, "tools": len(record.tools), "error": record.error or None}


REASON_MAX = 300


def missing_servers(shelves: Mapping[str, ServerShelf]) -> tuple[Missing, ...]:
    """All servers of which nothing is known; one that only cannot be reached now is listed as it was last seen."""
    return tuple(_missing(shelf) for shelf in shelves.values() if not shelf.is_known)


def known_to(missing: Iterable[Missing], grants: Grants) -> tuple[Missing, ...]:
    """Those that a caller with these grants may hear of."""
    return tuple(found for found in missing if may_know_server(grants, found.server))


def _missing(shelf: ServerShelf) -> Missing:
    status = shelf.status
    reason = barred_words(shelf) if shelf.barred else shelf.source.status().error or shelf.record.error
    if not reason:
        reason = (
            "It has not answered yet."
            if status is DiscoveryStatus.DISCOVERING
            else "It has not been asked for its tools yet."
        )
    return Missing(shelf.config.name, status, printable(reason)[:REASON_MAX])
