"""What can be seen of the catalogue and its servers; reading them starts nothing."""

from collections.abc import Iterable, Mapping
from typing import Literal, Protocol

import msgspec

from toolcrib.catalog.catalog import Route
from toolcrib.catalog.records import ServerShelf, barred_words
from toolcrib.config.lock import Record
from toolcrib.core.access import Grants, may_know_server
from toolcrib.core.errors import InvalidArguments, did_you_mean
from toolcrib.core.kinds import DiscoveryStatus, Health, HoldReason, LinkState, Policy
from toolcrib.core.offers import SecurityLevel
from toolcrib.core.requests import ErrorInfo, Result
from toolcrib.core.source import Missing
from toolcrib.core.view import ServerHealth, View
from toolcrib.schema.text import printable


class KnownServer(Protocol):
    """What is known of a server, from its shelf or from its record."""

    @property
    def record(self) -> Record:
        """Its last discovery."""

    @property
    def status(self) -> DiscoveryStatus:
        """How that stands."""


class ToolEntry(View):
    """One tool: what it is, where it comes from, and how fresh that knowledge is."""

    name: str
    description: str
    kind: Literal["native", "mcp"]
    server: str | None
    original_name: str
    policy: Policy
    level: SecurityLevel
    held: HoldReason | None
    """Why it is in quarantine."""
    discovery_status: DiscoveryStatus
    last_discovered: str | None


def tool_entry(route: Route, shelf: KnownServer | None) -> ToolEntry:
    """What can be seen of one tool."""
    return ToolEntry(
        name=route.name,
        description=route.tool.description,
        kind="mcp" if route.server else "native",
        server=route.server or None,
        original_name=route.original_name,
        policy=route.policy,
        level=route.tool.security_level,
        held=route.held,
        discovery_status=shelf.status if shelf else DiscoveryStatus.SUCCESS,
        last_discovered=(shelf.record.last_discovery or None) if shelf else None,
    )


def server_health(shelf: ServerShelf, breaker: str, retry_after_s: float) -> ServerHealth:
    """How one server is doing, with how its breaker stands."""
    status = shelf.source.status()
    broken = shelf.record.status is DiscoveryStatus.FAILED or status.state is LinkState.FAILING
    is_well = not broken and breaker == "closed"
    return ServerHealth(
        health=Health.HEALTHY if is_well else Health.DEGRADED if shelf.is_known else Health.UNHEALTHY,
        state=status.state,
        discovery=shelf.status,
        tools=len(shelf.tools),
        stale=broken and shelf.is_known,
        last_discovery=shelf.record.last_discovery,
        error=status.error or (shelf.record.error if broken else ""),
        era=status.era,
        restarts=status.restarts,
        stdout_noise=status.stdout_noise,
        breaker=breaker,
        retry_after_seconds=retry_after_s,
        isolation=status.isolation,
        share=status.share,
        lanes=len(status.lanes),
    )


def overall_health(servers: Mapping[str, ServerHealth], away: Mapping[str, str]) -> Health:
    """``healthy``; ``degraded`` when some server is not or a part is away; ``unhealthy`` when no server is of use."""
    states = [server.health for server in servers.values()]
    if states and all(state is Health.UNHEALTHY for state in states):
        return Health.UNHEALTHY
    return Health.DEGRADED if away or any(state is not Health.HEALTHY for state in states) else Health.HEALTHY


def away_parts(parts: Mapping[str, str], servers: Mapping[str, ServerHealth]) -> dict[str, str]:
    """What cannot be used as it should, by name, and why; ``parts`` are those that have a problem or none."""
    broken = {
        f"server {name}": server.error or "It is left alone for a while."
        for name, server in servers.items()
        if server.health is not Health.HEALTHY
    }
    return {name: problem for name, problem in parts.items() if problem} | broken


def discovery_outcome(records: Mapping[str, Record]) -> Result:
    """What a discovery came to, as a result; failed if any server could not be asked."""
    found = {
        "registered": sum(len(record.tools) for record in records.values() if record.status is DiscoveryStatus.SUCCESS),
        "servers": {name: msgspec.to_builtins(discovery_of(record)) for name, record in sorted(records.items())},
    }
    failed = [record for _, record in sorted(records.items()) if record.status is DiscoveryStatus.FAILED]
    error = None
    if failed:
        message = " ".join(record.error for record in failed)
        error = ErrorInfo("TOOL_UNAVAILABLE", message, retryable=True, details=found)
    return Result({"content": [], "structuredContent": found, "isError": bool(failed)}, error=error)


class Discovery(View):
    """What came of asking a server for its tools."""

    status: DiscoveryStatus
    tools: int
    error: str | None


def discovery_of(record: Record) -> Discovery:
    """What is on record of the last time."""
    return Discovery(record.status, len(record.tools), record.error or None)


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
            "It is starting, and has not answered yet."
            if status is DiscoveryStatus.DISCOVERING
            else "It has not been asked for its tools yet."
        )
    return Missing(shelf.config.name, status, printable(reason)[:REASON_MAX])


COMPLETIONS_MAX = 100
"""As many as MCP lets an answer have."""


class Completions(View):
    """Values that would fit a parameter and begin with what was typed."""

    values: list[str]
    total: int
    has_more: bool


def completions_of(route: Route, parameter: str, start: str) -> Completions:
    """What could be written for a parameter: the author's suggestions, then examples and what the schema names."""
    if parameter not in (properties := route.tool.input_schema.get("properties") or {}):
        hint = did_you_mean(parameter, [*properties])
        raise InvalidArguments(f"{route.name} has no parameter {parameter[:60]!r}.", hint=hint)
    found = route.complete(parameter, start)
    return Completions(found[:COMPLETIONS_MAX], len(found), len(found) > COMPLETIONS_MAX)
