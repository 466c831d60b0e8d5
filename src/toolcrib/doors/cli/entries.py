"""Catalogue entries and server states as the commands show them."""

from collections.abc import Mapping, Sequence
from typing import Any

from toolcrib.catalog.formats import approximate_tokens
from toolcrib.catalog.shelf import Shelf
from toolcrib.config.masks import shown_args, shown_url
from toolcrib.config.model import ServerConfig
from toolcrib.core.errors import ToolcribError, UnknownTool
from toolcrib.core.names import is_own
from toolcrib.crib import Crib
from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.opening import is_unasked
from toolcrib.doors.cli.table import Column, print_table

STATE_STYLES: Mapping[str, tuple[str, ...]] = {
    "ok": ("green",),
    "stale": ("yellow",),
    "failed": ("red",),
    "disabled": ("dim",),
    "asking": ("cyan",),
    "never": ("cyan",),
}


def server_entries(crib: Crib) -> list[dict[str, Any]]:
    """Every configured server by name, as ``--json`` shows it."""
    enabled = {name: _enabled_entry(crib, shelf) for name, shelf in crib.shelves.items()}
    disabled = {name: _entry(server, "disabled") for name, server in crib.disabled.items()}
    return [entry for _, entry in sorted((enabled | disabled).items())]


def _enabled_entry(crib: Crib, shelf: Shelf) -> dict[str, Any]:
    routes = crib.catalog.of_server(shelf.config.name)
    record = shelf.record
    return _entry(shelf.config, state_of(shelf)) | {
        "tools": len(routes),
        "tokens": sum(map(approximate_tokens, routes)),
        "discoveryStatus": shelf.status,
        "lastDiscovered": record.last_discovery or None,
        "error": record.error if record.status == "failed" else None,
        "problems": list(record.problems),
        "held": sorted(route.name for route in routes if route.held),
        "era": record.era or None,
    }


def _entry(server: ServerConfig, state: str) -> dict[str, Any]:
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


def state_of(shelf: Shelf) -> str:
    """``ok``, ``stale`` (an old listing, the last discovery failed), ``failed``, ``asking`` or ``never``."""
    if shelf.flight is not None and not shelf.is_known:
        return "asking"
    if is_unasked(shelf):
        return "never"
    if shelf.record.status == "failed":
        return "stale" if shelf.is_known else "failed"
    return "ok"


def runs(server: ServerConfig) -> str:
    """What is started or reached, without its secrets."""
    if server.url is not None:
        return shown_url(server.url)
    return " ".join([server.command or "", *shown_args(server.args)])


def what_to_do(entry: Mapping[str, Any]) -> str:
    """The next step for a server that is not in order."""
    name, state = entry["name"], entry["state"]
    if state == "disabled":
        return f"toolcrib servers enable {name}"
    if state == "never":
        return f"toolcrib servers refresh {name}"
    if state == "asking":
        return f"trying again: {entry['error']}" if entry["error"] else "still starting; the log will tell"
    if state in ("failed", "stale"):
        return f"toolcrib servers logs {name}"
    if entry["held"]:
        return f"{len(entry['held'])} in quarantine: toolcrib diff {name}"
    return f"{len(entry['problems'])} left out: toolcrib doctor" if entry["problems"] else ""


def native_entry(crib: Crib) -> list[dict[str, Any]]:
    """The native tools as one more row, if there are any beside toolcrib's own."""
    routes = [route for route in crib.catalog.routes.values() if not route.server and not is_own(route.name)]
    tokens = sum(map(approximate_tokens, routes))
    row = _entry(ServerConfig("native"), "ok") | {"tools": len(routes), "tokens": tokens, "runs": "in this process"}
    return [row] if routes else []


def print_servers(console: Console, entries: Sequence[Mapping[str, Any]]) -> None:
    """The one table: server, tools, approximate tokens, state, what to do."""
    columns = (
        Column("SERVER", styles=("bold",)),
        Column("TOOLS", right=True),
        Column("~TOKENS", right=True),
        Column("STATE", coloured=STATE_STYLES),
        Column("WHAT TO DO", flexible=True),
    )
    rows = [_row(entry) for entry in entries]
    if len(entries) > 1:
        total = {key: sum(entry[key] for entry in entries) for key in ("tools", "tokens")}
        rows.append(("total", str(total["tools"]), f"{total['tokens']:,}", "", ""))
    print_table(console, columns, rows)
    say_errors(console, entries)


def say_errors(console: Console, entries: Sequence[Mapping[str, Any]]) -> None:
    """Below a table, what is wrong with the servers that are not in order."""
    for entry in entries:
        if entry["error"] and entry["state"] != "asking":
            console.out.flush()
            named = entry["error"] if repr(entry["name"]) in entry["error"] else f"{entry['name']}: {entry['error']}"
            console.say(named, "yellow")


def _row(entry: Mapping[str, Any]) -> tuple[str, ...]:
    return entry["name"], str(entry["tools"]), f"{entry['tokens']:,}", entry["state"], what_to_do(entry)


def missing_tool(crib: Crib, name: str) -> ToolcribError:
    """Why a tool cannot be shown, with the reason that ``why`` would give."""
    story = crib.explain(name)
    unknown = UnknownTool(name, known=list(crib.catalog.routes))
    if story.verdict != "missing":
        unknown.hint = " ".join([*story.reasons, story.todo]).strip()
    if story.verdict == "failed":
        unknown.code = "TOOL_UNAVAILABLE"
    return unknown
