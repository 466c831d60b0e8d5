"""What can be done to a server at the press of a button; each ends where its outcome is seen."""

from collections.abc import Awaitable, Callable

from toolcrib.config.lock import Record
from toolcrib.doors.http.answers import Answer, Problem, not_found
from toolcrib.doors.http.router import Respond, RouteSpec
from toolcrib.doors.http.visit import Visit
from toolcrib.doors.web.ledger import note_server
from toolcrib.doors.web.notices import go_on
from toolcrib.doors.web.render import Pages
from toolcrib.doors.web.server_rows import Costs
from toolcrib.doors.web.servers_page import entry_seen, known_server
from toolcrib.project import Project

Deed = Callable[[Project, str], Awaitable[str]]
"""Does something to a server; the word for what came of it."""


def deed_routes(pages: Pages, costs: Costs) -> list[RouteSpec]:
    """The buttons of a server's page."""

    async def ask_to_remove(visit: Visit) -> Answer:
        visit.need_operator()
        return pages.render(visit, "servers/remove.html", row=known_server(pages, visit, costs))

    async def remove(visit: Visit) -> Answer:
        visit.need_operator()
        name = known_server(pages, visit, costs).name
        await note_server(pages, visit, "removed", name)
        await pages.premises.project.remove(name)
        return go_on("/servers", "removed", name)

    async def approve(visit: Visit) -> Answer:
        visit.need_operator()
        row, seen = known_server(pages, visit, costs), visit.form().get("seen", "")
        crib = pages.premises.crib

        def check() -> None:
            shelf = crib.shelves.get(row.name)
            if shelf is None or not shelf.barred:
                raise not_found("server in quarantine", row.name, "Somebody may have accepted it already.")
            if entry_seen(shelf) != seen:
                raise Problem(409, "HTTP_CONFLICT", f"Server {row.name!r} has changed again. Look at it anew.")

        check()
        await crib.servers.approve(row.name, by=visit.caller, still=check)
        return go_on(row.href, "accepted", row.name)

    deeds = {"refresh": _refresh, "restart": _restart, "enable": _enable, "disable": _disable}
    return [
        RouteSpec("GET", "/servers/{name}/remove", ask_to_remove),
        RouteSpec("POST", "/servers/{name}/remove", remove),
        RouteSpec("POST", "/servers/{name}/approve", approve),
        *(RouteSpec("POST", f"/servers/{{name}}/{word}", _doing(pages, costs, deed)) for word, deed in deeds.items()),
    ]


def _doing(pages: Pages, costs: Costs, deed: Deed) -> Respond:
    async def respond(visit: Visit) -> Answer:
        visit.need_operator()
        row = known_server(pages, visit, costs)
        if row.state == "disabled" and deed in (_refresh, _restart):
            raise Problem(409, "HTTP_CONFLICT", f"Server {row.name!r} is switched off. Switch it on first.")
        if (decision := DECISIONS.get(deed)) is not None:
            await note_server(pages, visit, decision, row.name)
        done = await deed(pages.premises.project, row.name)
        return go_on(row.href, done, row.name)

    return respond


def outcome(record: Record | None, fine: str) -> str:
    """The word for how a discovery ended; a server that is switched off is not asked."""
    return fine if record is None or record.status == "success" else "still_failing"


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
