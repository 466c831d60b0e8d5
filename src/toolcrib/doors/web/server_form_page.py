"""Adding and changing a server by a form; one that runs a command only where the owner has said that this may be."""

from collections.abc import Mapping
from typing import Any

from toolcrib.config.edit import replace_server
from toolcrib.config.masks import shown_url
from toolcrib.config.model import ServerConfig
from toolcrib.config.security import ISOLATIONS, POLICIES
from toolcrib.core.errors import ConfigError, ToolcribError
from toolcrib.core.tool import SecurityLevel
from toolcrib.doors.http.answers import Answer, Problem, not_found
from toolcrib.doors.http.router import RouteSpec
from toolcrib.doors.http.visit import Visit
from toolcrib.doors.web.ledger import note_server
from toolcrib.doors.web.notices import go_on
from toolcrib.doors.web.render import Pages, me_of
from toolcrib.doors.web.server_deeds import outcome
from toolcrib.doors.web.server_form import command_line, pairs_of, read_changed, read_new
from toolcrib.doors.web.servers_page import config_of
from toolcrib.project import file_of

KINDS = ("command", "url")


def form_routes(pages: Pages) -> list[RouteSpec]:
    """The forms, and what they send."""

    async def show_add(visit: Visit) -> Answer:
        visit.need_operator()
        kind = visit.query.get("kind", "url" if not may_run(pages, visit) else "command")
        return pages.render(visit, "servers/add.html", **_add_values(pages, visit, kind, {}))

    async def add(visit: Visit) -> Answer:
        visit.need_operator()
        fields = visit.form()
        kind = fields.get("kind", "")
        try:
            server = read_new(fields)
            need_right(pages, visit, server)
            _refuse_known(pages, server)
            await note_server(pages, visit, "added", server.name)
            record = await pages.premises.project.add(server)
        except ToolcribError as error:
            values = _add_values(pages, visit, kind, fields) | {"problem": str(error)}
            return pages.render(visit, "servers/add.html", status=422, **values)
        return go_on(f"/servers/{server.name}", outcome(record, "added"), server.name)

    async def show_edit(visit: Visit) -> Answer:
        visit.need_operator()
        return pages.render(visit, "servers/edit.html", **_edit_values(pages, visit, _server(pages, visit)))

    async def edit(visit: Visit) -> Answer:
        visit.need_operator()
        before = _server(pages, visit)
        try:
            after = read_changed(visit.form(), before, is_command=before.url is None)
            need_right(pages, visit, after, before)
            await note_server(pages, visit, "changed", before.name)
            done = await _change(pages, before, after)
        except ToolcribError as error:
            values = _edit_values(pages, visit, before) | {"problem": str(error)}
            return pages.render(visit, "servers/edit.html", status=422, **values)
        return go_on(f"/servers/{before.name}", done, before.name)

    return [
        RouteSpec("GET", "/servers/add", show_add),
        RouteSpec("POST", "/servers/add", add),
        RouteSpec("GET", "/servers/{name}/edit", show_edit),
        RouteSpec("POST", "/servers/{name}/edit", edit),
    ]


def may_run(pages: Pages, visit: Visit) -> bool:
    """Whether this visitor may have a command run here."""
    return pages.premises.edit_commands and me_of(visit).is_system


def need_right(pages: Pages, visit: Visit, server: ServerConfig, before: ServerConfig | None = None) -> None:
    """Stop whoever may not have such a server.

    A command can do anything on this machine; a reference takes its value from toolcrib's own environment; and the
    address and the headers of a known server decide who gets its secrets.
    """
    if server.url is None:
        need_commands(pages, visit)
    takes_values = any("${" in text for text in (server.url or "", *server.headers.values()))
    is_moved = before is not None and (server.url, server.headers) != (before.url, before.headers)
    if is_moved or (before is None and takes_values):
        visit.need_operator(SecurityLevel.SYSTEM)


def _refuse_known(pages: Pages, server: ServerConfig) -> None:
    if server.name in pages.premises.project.config.servers:
        raise ConfigError(f"There is already a server {server.name!r}.", hint="Change it, or choose another name.")


def need_commands(pages: Pages, visit: Visit) -> None:
    """Stop whoever may not have a command run here."""
    visit.need_operator(SecurityLevel.SYSTEM)
    if not pages.premises.edit_commands:
        raise Problem(403, "HTTP_FORBIDDEN", "Commands can be changed here only after `toolcrib up --edit-commands`.")


def _server(pages: Pages, visit: Visit) -> ServerConfig:
    server = config_of(pages, visit.params["name"])
    if server is None:
        raise not_found("server", visit.params["name"], "It may have been removed.")
    return server


async def _change(pages: Pages, before: ServerConfig, after: ServerConfig) -> str:
    project = pages.premises.project
    path = file_of(before.name, project.loaded)
    await project.edit(path, lambda text: replace_server(text, after, str(path)))
    if not after.enabled:
        return "changed"
    return outcome(await project.discover(before.name), "changed")


def _common(pages: Pages, visit: Visit) -> dict[str, Any]:
    return {"may_run": may_run(pages, visit), "policies": POLICIES, "isolations": ("auto", *ISOLATIONS), "problem": ""}


def _add_values(pages: Pages, visit: Visit, kind: str, fields: Mapping[str, str]) -> dict[str, Any]:
    names = ("name", "command", "url", "cwd", "description", "policy", "isolation", "timeout")
    return _common(pages, visit) | {
        "kind": kind if kind in KINDS else "url",
        "fields": {name: fields.get(name, "") for name in names},
        "pairs": pairs_of({}),
        "file": pages.premises.project.file,
    }


def _edit_values(pages: Pages, visit: Visit, server: ServerConfig) -> dict[str, Any]:
    default = ServerConfig("").call_timeout_s
    fields = {
        "name": server.name,
        "command": command_line(server),
        "url": shown_url(server.url) if server.url else "",
        "cwd": server.cwd or "",
        "description": server.description,
        "policy": server.policy or "",
        "isolation": server.isolation,
        "timeout": f"{server.call_timeout_s:g}" if server.call_timeout_s != default else "",
    }
    return _common(pages, visit) | {
        "kind": "url" if server.url else "command",
        "fields": fields,
        "pairs": pairs_of(server.headers if server.url else server.env),
        "origin": server.origin,
    }
