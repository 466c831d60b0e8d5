"""Adding and changing a server by a form; one that runs a command only where the owner has said that this may be."""

import asyncio
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from toolcrib.config.edit import replace_server
from toolcrib.config.model import ServerConfig
from toolcrib.config.secrets import MASK, shown_args, shown_entry, shown_url
from toolcrib.core.errors import ConfigError, ToolcribError
from toolcrib.core.kinds import AUTO, IsolationChoice, IsolationLevel, Policy, Share
from toolcrib.core.names import check_server_name
from toolcrib.core.offers import SecurityLevel
from toolcrib.project.project import Project, file_of
from toolcrib.project.secrets import put_away
from toolcrib.server.answers import HttpAnswer, not_found
from toolcrib.server.rest.servers import need_right_to_set, note_server
from toolcrib.server.visit import PageRequest
from toolcrib.server.web.render import PageRoutes, Pages, go_on
from toolcrib.server.web.servers_page import outcome

ROUTES = PageRoutes()
MOST_PAIRS = 60
EMPTY_ROWS = 2
KEEP_SECRETS = "keep_secrets"


@dataclass(frozen=True, slots=True)
class NameValue:
    """One variable or header as the form shows it."""

    name: str = ""
    shown: str = ""
    is_kept: bool = False
    """Whether there is a value that is not shown; an empty field leaves it as it is."""


def command_line(server: ServerConfig) -> str:
    """The command as one line, without its secrets."""
    return shlex.join([server.command or "", *shown_args(server.args)]) if server.command else ""


def pairs_of(values: Mapping[str, str]) -> list[NameValue]:
    """Variables or headers, and a little room for more."""
    shown = [(name, shown_entry(name, value)) for name, value in values.items()]
    known = [NameValue(name, "" if MASK in text else text, MASK in text) for name, text in shown]
    return known + [NameValue()] * EMPTY_ROWS


def read_new(fields: Mapping[str, str]) -> ServerConfig:
    """The server a form describes; what cannot be used is an error that says so."""
    server = ServerConfig(check_server_name(fields.get("name", "").strip()))
    return read_changed(fields, server, is_command=fields.get("kind") == "command")


def read_changed(fields: Mapping[str, str], before: ServerConfig, *, is_command: bool) -> ServerConfig:
    """The server with what a form says of it."""
    server = replace(before, description=fields.get("description", "").strip(), policy=_policy(fields))
    server = replace(server, call_timeout_s=_seconds(fields, before), share=_share(fields, before))
    if is_command:
        command, *args = _command(fields.get("command", ""), before)
        env = _pairs(fields, "env", before.env)
        cwd = fields.get("cwd", "").strip() or None
        isolation = _isolation(fields)
        return replace(server, command=command, args=tuple(args), env=env, cwd=cwd, isolation=isolation)
    headers = _pairs(fields, "header", before.headers)
    return replace(server, url=_url(fields.get("url", "").strip(), before), headers=headers)


def _command(text: str, before: ServerConfig) -> list[str]:
    if before.command and text == command_line(before):
        return [before.command, *before.args]
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"The command cannot be read: {error}.", hint="Close every quote.") from None
    if not words:
        raise ConfigError("A server needs a command.", hint="For example: uvx mcp-server-time")
    _refuse_mask(text)
    return words


def _url(text: str, before: ServerConfig) -> str:
    if before.url and text == shown_url(before.url):
        return before.url
    if not text.startswith(("http://", "https://", "${")):
        raise ConfigError("The address must begin with http:// or https://.")
    _refuse_mask(text)
    return text


def _refuse_mask(text: str) -> None:
    if MASK in text:
        raise ConfigError(
            f"{MASK} stands for a secret that is not shown.", hint="Leave the whole line as it was, or write the value."
        )


def _pairs(fields: Mapping[str, str], kind: str, before: Mapping[str, str]) -> dict[str, str]:
    return {name: _value(name, value, before) for name, value in _rows(fields, kind) if name}


def _rows(fields: Mapping[str, str], kind: str) -> Iterator[tuple[str, str]]:
    for number in range(MOST_PAIRS):
        name = fields.get(f"{kind}_name_{number}")
        if name is not None:
            yield name.strip(), fields.get(f"{kind}_value_{number}", "").strip()


def _value(name: str, value: str, before: Mapping[str, str]) -> str:
    """What was entered; nothing leaves a value as it was, and a new variable is taken from toolcrib's own."""
    if value:
        return value
    return before.get(name, f"${{{name}}}")


def _policy(fields: Mapping[str, str]) -> Policy | None:
    chosen = fields.get("policy", "")
    return next((policy for policy in Policy if policy == chosen), None)


def _isolation(fields: Mapping[str, str]) -> IsolationChoice | Literal[""]:
    chosen = fields.get("isolation", "")
    return AUTO if chosen == AUTO else next((level for level in IsolationLevel if level == chosen), "")


def _share(fields: Mapping[str, str], before: ServerConfig) -> Share | Literal["", "auto"]:
    chosen = fields.get("share", before.share)
    return next((share for share in Share if share == chosen), "")


def _seconds(fields: Mapping[str, str], before: ServerConfig) -> float:
    given = fields.get("timeout", "").strip()
    if not given:
        return before.call_timeout_s
    try:
        seconds = float(given)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds <= 86_400:
        raise ConfigError(f"{given!r} is not a number of seconds.", hint="Write a number from 1 to 86400.")
    return seconds


KINDS = ("command", "url")


@ROUTES.get("/servers/add")
async def _show_add(pages: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    kind = visit.query.get("kind", "url" if not may_run(visit) else "command")
    return pages.render(visit, "servers/add.html", **_add_values(visit, kind, {}))


@ROUTES.post("/servers/add")
async def _add(pages: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    fields, project = visit.form(), visit.served.project
    try:
        server = read_new(fields)
        if server.name in project.config.servers:
            raise ConfigError(f"There is already a server {server.name!r}.", hint="Change it, or choose another name.")
        await need_right(visit, server)
        await note_server(visit, "added", server.name)
        record = await project.add(await _without_secrets(visit, server))
    except ToolcribError as error:
        values = _add_values(visit, fields.get("kind", ""), fields) | {"problem": str(error)}
        return pages.render(visit, "servers/add.html", status=422, **values)
    return go_on(f"/servers/{server.name}", outcome(record, "added"), server.name)


@ROUTES.get("/servers/{name}/edit")
async def _show_edit(pages: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    return pages.render(visit, "servers/edit.html", **_edit_values(visit, _server(visit)))


@ROUTES.post("/servers/{name}/edit")
async def _edit(pages: Pages, visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    before = _server(visit)
    try:
        after = read_changed(visit.form(), before, is_command=before.url is None)
        await need_right(visit, after, before)
        await note_server(visit, "changed", before.name)
        done = await _change(visit.served.project, before, await _without_secrets(visit, after))
    except ToolcribError as error:
        values = _edit_values(visit, before) | {"problem": str(error)}
        return pages.render(visit, "servers/edit.html", status=422, **values)
    return go_on(f"/servers/{before.name}", done, before.name)


async def _without_secrets(visit: PageRequest, server: ServerConfig) -> ServerConfig:
    """The server as it is written: with references, unless somebody wants its secrets in the file."""
    if KEEP_SECRETS not in visit.form():
        return server
    referring, _ = await asyncio.to_thread(put_away, server, visit.served.project.around)
    return referring


def may_run(visit: PageRequest) -> bool:
    """Whether this visitor may have a command run here, if only after a word at the terminal."""
    can_be = visit.served.edit_commands or visit.view.has_terminal
    return can_be and visit.is_operator(SecurityLevel.SYSTEM)


async def need_right(visit: PageRequest, server: ServerConfig, before: ServerConfig | None = None) -> None:
    """Stop whoever may not have such a server, or take it elsewhere; a program needs a word at the terminal first."""
    where = {"url": server.url, "headers": server.headers}
    is_moved = before is None or (server.url, server.headers) != (before.url, before.headers)
    is_asked = server.url is None and not visit.served.edit_commands and visit.view.has_terminal
    if is_asked:
        visit.need_operator(SecurityLevel.SYSTEM)
        await _confirm_at_terminal(visit, server, "change" if before is not None else "add")
    runs_command = server.url is None and not is_asked
    need_right_to_set(
        visit,
        where if is_moved else {},
        runs_command,
        is_new=before is None,
        no_commands=NO_COMMANDS.format(server.name),
    )


NO_COMMANDS = (
    "A program is set up here only where somebody can be asked at the terminal of toolcrib. "
    "Run: toolcrib servers add {} -- COMMAND"
)


async def _confirm_at_terminal(visit: PageRequest, server: ServerConfig, verb: str) -> None:
    program = {"command": command_line(server)} | {
        f"env {name}": shown_entry(name, value) for name, value in server.env.items()
    }
    if not await visit.view.confirm_program(f"toolcrib servers {verb} {server.name}", program):
        raise ConfigError("This was not confirmed at the terminal where toolcrib runs, so nothing was changed.")


def _server(visit: PageRequest) -> ServerConfig:
    server = visit.served.project.config.servers.get(visit.params["name"])
    if server is None:
        raise not_found("server", visit.params["name"], "It may have been removed.")
    return server


async def _change(project: Project, before: ServerConfig, after: ServerConfig) -> str:
    path = file_of(before.name, project.loaded)
    await project.edit(path, lambda text: replace_server(text, after, str(path)))
    return outcome(await project.discover(before.name), "changed") if after.enabled else "changed"


def _common(visit: PageRequest) -> dict[str, Any]:
    return {
        "may_run": may_run(visit),
        "is_asked": not visit.served.edit_commands and visit.view.has_terminal,
        "policies": tuple(Policy),
        "isolations": (AUTO, *IsolationLevel),
        "shares": tuple(Share),
        "problem": "",
    }


def _add_values(visit: PageRequest, kind: str, fields: Mapping[str, str]) -> dict[str, Any]:
    names = ("name", "command", "url", "cwd", "description", "policy", "isolation", "share", "timeout")
    return _common(visit) | {
        "kind": kind if kind in KINDS else "url",
        "fields": {name: fields.get(name, "") for name in names},
        "pairs": pairs_of({}),
        "file": visit.served.project.file,
    }


def _edit_values(visit: PageRequest, server: ServerConfig) -> dict[str, Any]:
    default = ServerConfig("").call_timeout_s
    fields = {
        "name": server.name,
        "command": command_line(server),
        "url": shown_url(server.url) if server.url else "",
        "cwd": server.cwd or "",
        "description": server.description,
        "policy": server.policy or "",
        "isolation": server.isolation,
        "share": server.share,
        "timeout": f"{server.call_timeout_s:g}" if server.call_timeout_s != default else "",
    }
    return _common(visit) | {
        "kind": "url" if server.url else "command",
        "fields": fields,
        "pairs": pairs_of(server.headers if server.url else server.env),
        "origin": server.origin,
    }
