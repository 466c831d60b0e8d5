"""The servers: all of them, and everything of one."""

from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from typing import Any

from toolcrib.catalog.records import ServerShelf
from toolcrib.config.explain import explain
from toolcrib.config.lock import Record
from toolcrib.config.model import ServerConfig, config_hash
from toolcrib.config.positions import dotted
from toolcrib.core.kinds import DiscoveryStatus, ServerState
from toolcrib.project.project import Project
from toolcrib.schema.text import printable
from toolcrib.server.answers import HttpAnswer, HttpProblem, not_found
from toolcrib.server.router import Respond, RouteSpec
from toolcrib.server.views.servers import log_lines
from toolcrib.server.visit import PageRequest
from toolcrib.server.web.render import Pages, go_on, note_server
from toolcrib.server.web.server_rows import LOOKS, ServerRow, server_row, server_rows
from toolcrib.server.web.words import sentence

ROWS = 100
MOST_ROWS = 10_000
LOG_LINES = 100


def servers_routes(pages: Pages) -> list[RouteSpec]:
    """The table, and the page of one server."""

    async def show_all(visit: PageRequest) -> HttpAnswer:
        visit.need_operator()
        return pages.render(visit, "servers/list.html", **_listed(pages, visit))

    async def show_one(visit: PageRequest) -> HttpAnswer:
        visit.need_operator()
        row = known_server(pages, visit)
        return pages.render(visit, "servers/one.html", **_one(pages, visit, row))

    return [RouteSpec("GET", "/servers", show_all), RouteSpec("GET", "/servers/{name}", show_one)]


def known_server(pages: Pages, visit: PageRequest) -> ServerRow:
    """The server an address names."""
    row = server_row(pages.premises.crib, visit.params["name"])
    if row is None:
        raise not_found("server", visit.params["name"], "It may have been removed.")
    return row


def config_of(pages: Pages, name: str) -> ServerConfig | None:
    """What is configured for a server."""
    return pages.premises.project.config.servers.get(name)


def _listed(pages: Pages, visit: PageRequest) -> dict[str, Any]:
    wanted, state = visit.query.get("q", "").strip().lower()[:100], visit.query.get("state", "")
    rows = server_rows(pages.premises.crib)
    fitting = [row for row in rows if _fits(row, wanted) and (not state or row.state == state)]
    shown = visit.number("shown", ROWS, MOST_ROWS) or ROWS
    return {
        "rows": fitting[:shown],
        "total": len(fitting),
        "next": shown + ROWS,
        "all": len(rows),
        "q": visit.query.get("q", ""),
        "state": state,
        "states": [(state, look.label) for state, look in LOOKS.items() if any(row.state is state for row in rows)],
    }


def _fits(row: ServerRow, wanted: str) -> bool:
    return not wanted or any(wanted in text.lower() for text in (row.name, row.runs or "", row.description))


def _one(pages: Pages, visit: PageRequest, row: ServerRow) -> dict[str, Any]:
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


def entry_seen(shelf: ServerShelf) -> str:
    """Stands for what a platform says of a server and where it leads: what somebody looks at who accepts it."""
    return sha256(f"{shelf.config.entry} {config_hash(shelf.config)}".encode()).hexdigest()


def _autopsy(row: ServerRow, details: Mapping[str, Any]) -> dict[str, Any] | None:
    """Why a server is not there, in parts: what happened, its last words, and what to try."""
    if not row.error or row.state is ServerState.HELD:
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


Deed = Callable[[Project, str], Awaitable[str]]
"""Does something to a server; the word for what came of it."""


def deed_routes(pages: Pages) -> list[RouteSpec]:
    """The buttons of a server's page."""

    async def ask_to_remove(visit: PageRequest) -> HttpAnswer:
        visit.need_operator()
        return pages.render(visit, "servers/remove.html", row=known_server(pages, visit))

    async def remove(visit: PageRequest) -> HttpAnswer:
        visit.need_operator()
        name = known_server(pages, visit).name
        await note_server(pages, visit, "removed", name)
        await pages.premises.project.remove(name)
        return go_on("/servers", "removed", name)

    async def approve(visit: PageRequest) -> HttpAnswer:
        visit.need_operator()
        row, seen = known_server(pages, visit), visit.form().get("seen", "")
        crib = pages.premises.crib

        def check() -> None:
            shelf = crib.shelves.get(row.name)
            if shelf is None or not shelf.barred:
                raise not_found("server in quarantine", row.name, "Somebody may have accepted it already.")
            if entry_seen(shelf) != seen:
                raise HttpProblem(409, "HTTP_CONFLICT", f"Server {row.name!r} has changed again. Look at it anew.")

        check()
        await crib.servers.approve(row.name, by=visit.caller, still=check)
        return go_on(row.href, "accepted", row.name)

    deeds = {"refresh": _refresh, "restart": _restart, "enable": _enable, "disable": _disable}
    return [
        RouteSpec("GET", "/servers/{name}/remove", ask_to_remove),
        RouteSpec("POST", "/servers/{name}/remove", remove),
        RouteSpec("POST", "/servers/{name}/approve", approve),
        *(RouteSpec("POST", f"/servers/{{name}}/{word}", _doing(pages, deed)) for word, deed in deeds.items()),
    ]


def _doing(pages: Pages, deed: Deed) -> Respond:
    async def respond(visit: PageRequest) -> HttpAnswer:
        visit.need_operator()
        row = known_server(pages, visit)
        if row.state is ServerState.DISABLED and deed in (_refresh, _restart):
            raise HttpProblem(409, "HTTP_CONFLICT", f"Server {row.name!r} is switched off. Switch it on first.")
        if (decision := DECISIONS.get(deed)) is not None:
            await note_server(pages, visit, decision, row.name)
        done = await deed(pages.premises.project, row.name)
        return go_on(row.href, done, row.name)

    return respond


def outcome(record: Record | None, fine: str) -> str:
    """The word for how a discovery ended; a server that is switched off is not asked."""
    return fine if record is None or record.status is DiscoveryStatus.SUCCESS else "still_failing"


async def _refresh(project: Project, name: str) -> str:
    return outcome(await project.discover(name), "asked")


async def _restart(project: Project, name: str) -> str:
    return outcome(await project.crib.servers.restart(name), "restarted")


async def _enable(project: Project, name: str) -> str:
    await project.set_enabled(name, enabled=True)
    return outcome(await project.discover(name), "enabled")


async def _disable(project: Project, name: str) -> str:
    await project.set_enabled(name, enabled=False)
    return "disabled"


DECISIONS: dict[Deed, str] = {_enable: "enabled", _disable: "disabled", _restart: "restarted"}
"""What is written down before it is done."""
