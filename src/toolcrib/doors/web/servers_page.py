"""The servers: all of them, and everything of one."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from toolcrib.catalog.shelf import Shelf
from toolcrib.config.explain import explain
from toolcrib.config.model import ServerConfig, config_hash
from toolcrib.config.written import dotted
from toolcrib.doors.http.answers import Answer, not_found
from toolcrib.doors.http.router import RouteSpec
from toolcrib.doors.http.visit import Visit
from toolcrib.doors.views.servers import log_lines
from toolcrib.doors.web.render import Pages
from toolcrib.doors.web.server_rows import LABELS, Costs, ServerRow, server_row, server_rows
from toolcrib.doors.web.words import sentence
from toolcrib.schema.text import printable

ROWS = 100
MOST_ROWS = 10_000
LOG_LINES = 100


def servers_routes(pages: Pages, costs: Costs) -> list[RouteSpec]:
    """The table, and the page of one server."""

    async def show_all(visit: Visit) -> Answer:
        visit.need_operator()
        return pages.render(visit, "servers/list.html", **_listed(pages, visit, costs))

    async def show_one(visit: Visit) -> Answer:
        visit.need_operator()
        row = known_server(pages, visit, costs)
        return pages.render(visit, "servers/one.html", **_one(pages, visit, row))

    return [RouteSpec("GET", "/servers", show_all), RouteSpec("GET", "/servers/{name}", show_one)]


def known_server(pages: Pages, visit: Visit, costs: Costs) -> ServerRow:
    """The server an address names."""
    row = server_row(pages.premises.crib, costs, visit.params["name"])
    if row is None:
        raise not_found("server", visit.params["name"], "It may have been removed.")
    return row


def config_of(pages: Pages, name: str) -> ServerConfig | None:
    """What is configured for a server."""
    return pages.premises.project.config.servers.get(name)


def _listed(pages: Pages, visit: Visit, costs: Costs) -> dict[str, Any]:
    wanted, state = visit.query.get("q", "").strip().lower()[:100], visit.query.get("state", "")
    rows = server_rows(pages.premises.crib, costs)
    fitting = [row for row in rows if _fits(row, wanted) and (not state or row.state == state)]
    shown = visit.number("shown", ROWS, MOST_ROWS) or ROWS
    return {
        "rows": fitting[:shown],
        "total": len(fitting),
        "next": shown + ROWS,
        "all": len(rows),
        "q": visit.query.get("q", ""),
        "state": state,
        "states": [(key, label) for key, label in LABELS.items() if any(row.state == key for row in rows)],
    }


def _fits(row: ServerRow, wanted: str) -> bool:
    return not wanted or any(wanted in text.lower() for text in (row.name, row.runs, row.description))


def _one(pages: Pages, visit: Visit, row: ServerRow) -> dict[str, Any]:
    crib = pages.premises.crib
    routes = crib.catalog.of_server(row.name)
    shown = visit.number("shown", ROWS, MOST_ROWS) or ROWS
    shelf = crib.shelves.get(row.name)
    status = shelf.source.status() if shelf is not None else None
    return {
        "row": row,
        "link": status,
        "log": [printable(line) for line in log_lines(crib, row.name, LOG_LINES)] if shelf is not None else [],
        "autopsy": _autopsy(row, status.details if status is not None else {}),
        "tools": routes[:shown],
        "total": len(routes),
        "next": shown + ROWS,
        "settings": _settings(pages, row.name),
        "config": config_of(pages, row.name),
        "metrics": crib.metrics.tools,
        "held": {"why": shelf.barred, "seen": entry_seen(shelf)} if shelf is not None and shelf.barred else None,
        "has_tool_pages": "/tools/{name}" in pages.paths,
    }


def entry_seen(shelf: Shelf) -> str:
    """Stands for what a platform says of a server and where it leads: what somebody looks at who accepts it."""
    return sha256(f"{shelf.config.entry} {config_hash(shelf.config)}".encode()).hexdigest()


def _autopsy(row: ServerRow, details: Mapping[str, Any]) -> dict[str, Any] | None:
    """Why a server is not there, in parts: what happened, its last words, and what to try."""
    if not row.error:
        return None
    story, _, advice = row.trouble.partition(" Try: ")
    words = [printable(str(line)) for line in details.get("stderr", ())]
    return {
        "story": sentence(story.partition(" It wrote: ")[0] if words else story),
        "advice": sentence(advice),
        "words": words,
        "phase": details.get("phase", ""),
        "exit_code": details.get("exit_code"),
        "noise": [printable(str(line)) for line in details.get("stdout", ())][:5],
    }


def _settings(pages: Pages, name: str) -> list[Any]:
    """What is configured, and where that is written; secrets are masked."""
    start = dotted(("servers", name)) + "."
    found = [entry for entry in explain(pages.premises.project.config) if entry.setting.startswith(start)]
    written = [entry for entry in found if entry.origin != "default"]
    return [
        (entry.setting.removeprefix(start), shown_value(entry.value), shown_origin(pages, entry.origin))
        for entry in written or found
    ]


def shown_origin(pages: Pages, origin: str) -> str:
    """Where something was written, seen from the project."""
    return origin.removeprefix(f"{pages.premises.project.directory}/")


def shown_value(value: Any) -> str:
    """A setting as it would be written."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return " ".join(map(str, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {shown_value(item)}" for key, item in value.items())
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
