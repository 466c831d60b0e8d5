"""Servers: their states, what they run, and their configuration without its secrets."""

from collections.abc import Sequence
from typing import Any, Literal

from msgspec import structs

from toolcrib.catalog.accounting import OWN, by_server
from toolcrib.catalog.catalog import Route
from toolcrib.catalog.entries import Discovery
from toolcrib.catalog.records import ServerShelf, barred_words
from toolcrib.catalog.standing import IN_ORDER, standing_of, standing_of_disabled
from toolcrib.config.lock import Record
from toolcrib.config.model import ServerConfig
from toolcrib.config.secrets import masked, shown_args, shown_url
from toolcrib.config.sharing import lanes_of, sharing_of
from toolcrib.config.tables import SERVER_KEYS
from toolcrib.config.values import as_written
from toolcrib.core.access import NATIVE
from toolcrib.core.kinds import DiscoveryStatus, LinkState, Share
from toolcrib.core.source import LaneStatus
from toolcrib.core.view import ServerAttempt, ServerHealth, Standing, View
from toolcrib.crib.crib import Crib


class LaneView(View):
    """A process of a server, or a session with it, that not all callers share."""

    caller: str
    session: str | None
    """Tells the sessions of one caller apart; it is not their id."""
    state: LinkState
    pid: int | None
    restarts: int
    idle_seconds: float
    error: str | None


class ServerView(Standing):
    """One configured server."""

    name: str
    description: str
    kind: Literal["command", "url"]
    runs: str | None
    """What is started or reached, without secrets; only for operators."""
    origin: str | None
    """Where it is configured; only for operators."""
    tools: int
    tokens: int
    """Roughly what its definitions cost a model's context."""
    discovery_status: DiscoveryStatus | None
    last_discovered: str | None
    error: str | None
    """Why the last discovery failed: what happened, its last words, and what to try."""
    problems: list[str]
    held: list[str]
    """Its tools in quarantine."""
    era: str | None
    share: Share
    """Who shares one process of it, or one session with it."""
    share_reason: str
    lanes: list[LaneView]
    """Those that are open; only for operators."""
    lanes_max: int
    """How many there may be at once; zero where all share one."""
    memory_bytes: int | None
    """What its processes that are open may use together, where `memory` limits each of them."""


class ServerList(View):
    """The servers a caller may know of."""

    servers: list[ServerView]


class ServerDetail(ServerView):
    """One server with all that is known of it."""

    tool_names: list[str]
    attempts: list[ServerAttempt]
    """How asking it for its tools went lately, the newest first; only for operators."""
    health: ServerHealth | None
    config: dict[str, Any] | None
    """What is configured, by the keys of toolcrib.toml, secrets masked; only for operators."""


class ServerOutcome(View):
    """A server after a change, and what came of asking it, if it was asked."""

    server: ServerDetail
    discovery: Discovery | None


class ServerLog(View):
    """The end of what a server wrote to stderr, without its secrets."""

    server: str
    lines: list[str]


def server_views(crib: Crib) -> list[ServerView]:
    """Every configured server by name."""
    return [view for name in sorted({*crib.shelves, *crib.disabled}) if (view := server_view(crib, name)) is not None]


def server_view(crib: Crib, name: str) -> ServerView | None:
    """One configured server."""
    if name in crib.shelves:
        shelf = crib.shelves[name]
        if shelf.elsewhere is not None and isinstance(shelf.elsewhere.standing, ServerView):
            return shelf.elsewhere.standing
        return _view(shelf.config, standing_of(shelf), crib.catalog.of_server(name), shelf)
    return _view(crib.disabled[name], standing_of_disabled(name)) if name in crib.disabled else None


def native_view(crib: Crib) -> list[ServerView]:
    """The native tools as one more row, if there are any beside toolcrib's own."""
    return [view for view in inner_views(crib) if view.name == NATIVE]


def inner_views(crib: Crib) -> list[ServerView]:
    """A row for the native tools, and one for those that toolcrib brings along, where there are any."""
    places = by_server(crib.catalog.of_server(""))
    found = [(name, places[name]) for name in (NATIVE, OWN) if name in places]
    return [
        structs.replace(_view(ServerConfig(name), IN_ORDER, routes), runs="in this process") for name, routes in found
    ]


def _view(
    server: ServerConfig, standing: Standing, routes: Sequence[Route] = (), shelf: ServerShelf | None = None
) -> ServerView:
    record = shelf.record if shelf is not None else Record(server.name)
    error = record.error if record.status is DiscoveryStatus.FAILED else None
    return ServerView(
        **structs.asdict(standing),
        name=server.name,
        description=server.description,
        kind="command" if server.url is None else "url",
        runs=runs(server),
        origin=f"{server.origin}:{server.line}" if server.line else server.origin,
        tools=len(routes),
        tokens=sum(route.tokens for route in routes),
        discovery_status=shelf.status if shelf is not None else None,
        last_discovered=record.last_discovery or None,
        error=barred_words(shelf) if shelf is not None and shelf.barred else error,
        problems=list(record.problems),
        held=sorted(route.name for route in routes if route.held),
        era=record.era or None,
        **_sharing(server, record, shelf),
    )


def _sharing(server: ServerConfig, record: Record, shelf: ServerShelf | None) -> dict[str, Any]:
    """Who shares a server, and who has what of it now."""
    sharing, status = sharing_of(server, asks=record.asks), shelf.source.status() if shelf is not None else None
    lanes = [_lane(lane) for lane in status.lanes] if status is not None else []
    running = len(lanes) + (status is not None and status.pid is not None)
    return {
        "share": sharing.share,
        "share_reason": sharing.reason,
        "lanes": lanes,
        "lanes_max": 0 if sharing.share is Share.ALL else lanes_of(server),
        "memory_bytes": server.memory_bytes * running if server.memory_bytes else None,
    }


def _lane(lane: LaneStatus) -> LaneView:
    known = lane.session or None, lane.state, lane.pid, lane.restarts
    return LaneView(lane.caller, *known, idle_seconds=round(lane.idle_s, 1), error=lane.error or None)


def runs(server: ServerConfig) -> str:
    """What is started or reached, without its secrets."""
    if server.url is not None:
        return shown_url(server.url)
    if server.is_own:
        return "in this process"
    return " ".join([server.command or "", *shown_args(server.args)])


def shown_config(server: ServerConfig) -> dict[str, Any]:
    """What is configured, by the keys of the file; secrets are masked, and what says nothing is left out."""
    found = [(name, key.mask, getattr(server, key.field, None)) for name, key in SERVER_KEYS.items()]
    return {name: as_written(masked(mask, value)) for name, mask, value in found if value not in (None, (), "", {})}


def log_lines(crib: Crib, name: str, count: int) -> list[str]:
    """What a server last wrote to stderr, without its secrets; of one that did not start, its last words."""
    source = crib.shelves[name].source
    if count < 1:
        return []
    lines = list(source.log_lines(count)) or list(source.status().details.get("stderr", ()))
    return [str(line) for line in lines][-count:]
