"""Servers: their states, what they run, and their configuration without its secrets."""

from collections.abc import Mapping
from typing import Any

from toolcrib.catalog.records import ServerShelf, barred_words
from toolcrib.config.model import ServerConfig, config_hash
from toolcrib.config.secrets import shown_args, shown_entry, shown_url
from toolcrib.config.tables import SERVER_KEYS
from toolcrib.core.kinds import DiscoveryStatus, ServerState
from toolcrib.core.limits import Rate
from toolcrib.core.names import is_own
from toolcrib.crib.crib import Crib


def server_entries(crib: Crib) -> list[dict[str, Any]]:
    """Every configured server by name."""
    enabled = {name: _enabled_entry(crib, shelf) for name, shelf in crib.shelves.items()}
    disabled = {name: _entry(server, ServerState.DISABLED) for name, server in crib.disabled.items()}
    return [entry for _, entry in sorted((enabled | disabled).items())]


def server_entry(crib: Crib, name: str) -> dict[str, Any] | None:
    """One configured server."""
    if name in crib.shelves:
        return _enabled_entry(crib, crib.shelves[name])
    return _entry(crib.disabled[name], ServerState.DISABLED) if name in crib.disabled else None


def _enabled_entry(crib: Crib, shelf: ServerShelf) -> dict[str, Any]:
    routes = crib.catalog.of_server(shelf.config.name)
    record = shelf.record
    return _entry(shelf.config, state_of(shelf)) | {
        "tools": len(routes),
        "tokens": sum(route.tokens for route in routes),
        "discoveryStatus": shelf.status,
        "lastDiscovered": record.last_discovery or None,
        "error": barred_words(shelf)
        if shelf.barred
        else record.error
        if record.status is DiscoveryStatus.FAILED
        else None,
        "problems": list(record.problems),
        "held": sorted(route.name for route in routes if route.held),
        "era": record.era or None,
    }


def _entry(server: ServerConfig, state: ServerState) -> dict[str, Any]:
    return {
        "name": server.name,
        "state": state,
        "runs": runs(server),
        "origin": f"{server.origin}:{server.line}" if server.line else server.origin,
        "tools": 0,
        "tokens": 0,
        "discoveryStatus": None,
        "lastDiscovered": None,
        "error": None,
        "problems": [],
        "held": [],
        "era": None,
    }


def native_entry(crib: Crib) -> list[dict[str, Any]]:
    """The native tools as one more row, if there are any beside toolcrib's own."""
    routes = [route for route in crib.catalog.routes.values() if not route.server and not is_own(route.name)]
    tokens = sum(route.tokens for route in routes)
    row = _entry(ServerConfig("native"), ServerState.OK) | {
        "tools": len(routes),
        "tokens": tokens,
        "runs": "in this process",
    }
    return [row] if routes else []


def state_of(shelf: ServerShelf) -> ServerState:
    """How a server that is switched on stands."""
    if shelf.barred:
        return ServerState.HELD
    if shelf.flight is not None and not shelf.is_known:
        return ServerState.ASKING
    if is_unasked(shelf):
        return ServerState.NEVER
    if shelf.record.status is DiscoveryStatus.FAILED:
        return ServerState.STALE if shelf.is_known else ServerState.FAILED
    return ServerState.OK


def is_unasked(shelf: ServerShelf) -> bool:
    """Whether a server was never asked for its tools as it is configured now."""
    record = shelf.record
    failed_as_it_is = record.status is DiscoveryStatus.FAILED and record.config_hash == config_hash(shelf.config)
    return not shelf.is_known and not failed_as_it_is and not shelf.barred


def runs(server: ServerConfig) -> str:
    """What is started or reached, without its secrets."""
    if server.url is not None:
        return shown_url(server.url)
    if server.is_own:
        return "in this process"
    return " ".join([server.command or "", *shown_args(server.args)])


def shown_config(server: ServerConfig) -> dict[str, Any]:
    """What is configured, by the keys of the file; secrets are masked, and what says nothing is left out."""
    found = {key: getattr(server, spec.field, None) for key, spec in SERVER_KEYS.items()}
    return {key: _shown(key, value) for key, value in found.items() if value not in (None, (), "", {})}


def _shown(key: str, value: Any) -> Any:
    if key == "args":
        return shown_args(value)
    if key == "url":
        return shown_url(value)
    if isinstance(value, Mapping):
        return {name: shown_entry(name, text) for name, text in value.items()}
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, Rate) else value


def log_lines(crib: Crib, name: str, count: int) -> list[str]:
    """What a server last wrote to stderr, without its secrets; of one that did not start, its last words."""
    source = crib.shelves[name].source
    if count < 1:
        return []
    lines = list(source.log_lines(count)) or list(source.status().details.get("stderr", ()))
    return [str(line) for line in lines][-count:]
