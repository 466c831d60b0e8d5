"""The servers: all of them, and everything of one."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from toolcrib.catalog.records import ServerShelf
from toolcrib.config.explain import explain
from toolcrib.config.lock import Record
from toolcrib.config.model import config_hash
from toolcrib.config.positions import dotted
from toolcrib.core.kinds import DiscoveryStatus, ServerState
from toolcrib.core.offers import OfferKind
from toolcrib.schema.text import printable
from toolcrib.server.answers import HttpAnswer, conflict, not_found
from toolcrib.server.rest.servers import note_server, restart_server, switch_server
from toolcrib.server.visit import PageRequest
from toolcrib.server.web.render import PageRoutes, Pages, go_on
from toolcrib.server.web.server_rows import LOOKS, ServerRow, known_row, server_rows
from toolcrib.server.web.words import sentence

ROUTES = PageRoutes()
ROWS = 100
MOST_ROWS = 10_000
LOG_LINES = 100


@ROUTES.get("/servers")
async def _list(pages: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    wanted, state, rows = visit.word("q", 100).lower(), visit.query.get("state", ""), server_rows(visit.view)
    fitting = [row for row in rows if _fits(row, wanted) and (not state or row.state == state)]
    shown = visit.number("shown", ROWS, MOST_ROWS) or ROWS
    return pages.render(
        visit,
        "servers/list.html",
        rows=fitting[:shown],
        total=len(fitting),
        next=shown + ROWS,
        all=len(rows),
        q=visit.query.get("q", ""),
        state=state,
        states=[(state, look.label) for state, look in LOOKS.items() if any(row.state is state for row in rows)],
    )


def _fits(row: ServerRow, wanted: str) -> bool:
    return not wanted or any(wanted in text.lower() for text in (row.name, row.runs or "", row.description))


@ROUTES.get("/servers/{name}")
async def _show(pages: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    view, row = visit.view, known_row(visit)
    routes, shelf = view.catalog.of_server(row.name), view.shelf(row.name)
    shown = visit.number("shown", ROWS, MOST_ROWS) or ROWS
    status = shelf.source.status() if shelf is not None else None
    return pages.render(
        visit,
        "servers/one.html",
        row=row,
        link=status,
        log=[printable(line) for line in view.log(row.name, LOG_LINES)],
        attempts=list(reversed(shelf.attempts)) if shelf is not None else [],
        autopsy=_autopsy(row, status.details if status is not None else {}),
        tools=routes[:shown],
        total=len(routes),
        others=_others(visit, row.name),
        next=shown + ROWS,
        settings=_settings(visit, row.name),
        config=view.project.config.servers.get(row.name),
        metrics=view.metrics.tools,
        held={"why": shelf.barred, "seen": entry_seen(shelf)} if shelf is not None and shelf.barred else None,
    )


def _others(visit: PageRequest, server: str) -> list[tuple[str, int]]:
    """How many resources and prompts a server offers, where there are any."""
    kinds = [route.offer.kind for route in visit.view.catalog.others.values() if route.server == server]
    prompts = kinds.count(OfferKind.PROMPT)
    return [(what, count) for what, count in (("resources", len(kinds) - prompts), ("prompts", prompts)) if count]


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


def _settings(visit: PageRequest, name: str) -> list[Any]:
    """What is configured, and where that is written; secrets are masked."""
    start = dotted(("servers", name)) + "."
    found = [entry for entry in explain(visit.served.project.config) if entry.setting.startswith(start)]
    written = [entry for entry in found if entry.origin != "default"]
    return [
        (entry.setting.removeprefix(start), shown_value(entry.value), shown_origin(visit, entry.origin))
        for entry in written or found
    ]


def shown_origin(visit: PageRequest, origin: str) -> str:
    """Where something was written, seen from the project."""
    return origin.removeprefix(f"{visit.served.project.directory}/")


def shown_value(value: Any) -> str:
    """A setting as it would be written."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return " ".join(map(str, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {shown_value(item)}" for key, item in value.items())
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


@ROUTES.get("/servers/{name}/remove")
async def _ask_to_remove(pages: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    return pages.render(visit, "servers/remove.html", row=known_row(visit))


@ROUTES.post("/servers/{name}/remove")
async def _remove(_: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    name = known_row(visit).name
    await note_server(visit, "removed", name)
    await visit.served.project.remove(name)
    return go_on("/servers", "removed", name)


@ROUTES.post("/servers/{name}/approve")
async def _approve(_: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    view, row, seen = visit.view, known_row(visit), visit.form().get("seen", "")

    def check() -> None:
        shelf = view.shelf(row.name)
        if shelf is None or not shelf.barred:
            raise not_found("server in quarantine", row.name, "Somebody may have accepted it already.")
        if entry_seen(shelf) != seen:
            raise conflict(f"Server {row.name!r} has changed again. Look at it anew.")

    await view.accept(row.name, check)
    return go_on(row.href, "accepted", row.name)


@ROUTES.post("/servers/{name}/refresh")
async def _refresh(_: Pages, visit: PageRequest) -> HttpAnswer:
    row = _enabled_row(visit)
    return go_on(row.href, outcome(await visit.served.project.discover(row.name), "asked"), row.name)


@ROUTES.post("/servers/{name}/restart")
async def _restart(_: Pages, visit: PageRequest) -> HttpAnswer:
    row = _enabled_row(visit)
    return go_on(row.href, outcome(await restart_server(visit, row.name), "restarted"), row.name)


@ROUTES.post("/servers/{name}/enable")
async def _enable(_: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    row = known_row(visit)
    return go_on(row.href, outcome(await switch_server(visit, row.name, enabled=True), "enabled"), row.name)


@ROUTES.post("/servers/{name}/disable")
async def _disable(_: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    row = known_row(visit)
    await switch_server(visit, row.name, enabled=False)
    return go_on(row.href, "disabled", row.name)


def _enabled_row(visit: PageRequest) -> ServerRow:
    visit.need_operator()
    row = known_row(visit)
    if row.state is ServerState.DISABLED:
        raise conflict(f"Server {row.name!r} is switched off. Switch it on first.")
    return row


def outcome(record: Record | None, fine: str) -> str:
    """The word for how a discovery ended; a server that is switched off is not asked."""
    return fine if record is None or record.status is DiscoveryStatus.SUCCESS else "still_failing"
