"""The servers over REST: how they are doing, and adding, changing, switching and removing them."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType, structs

from toolcrib.catalog.entries import discovery_of
from toolcrib.config.lock import Record
from toolcrib.config.merge import merge
from toolcrib.config.model import ServerConfig
from toolcrib.config.parse import parse_server
from toolcrib.config.secrets import MASK
from toolcrib.core.access import matches
from toolcrib.core.audit import AuditEntry
from toolcrib.core.kinds import Policy
from toolcrib.core.tool import SecurityLevel
from toolcrib.core.view import ServerHealth
from toolcrib.server.answers import HttpAnswer, HttpProblem, json_answer, not_found
from toolcrib.server.rest.about import About, Param, count
from toolcrib.server.router import RouteSpec
from toolcrib.server.views.servers import (
    ServerDetail,
    ServerList,
    ServerLog,
    ServerOutcome,
    ServerView,
    log_lines,
    server_view,
    server_views,
    shown_config,
)
from toolcrib.server.visit import PageRequest, ServedProject

ServerName = Annotated[str, Meta(pattern="^[a-z][a-z0-9_]*$", max_length=64)]
Address = Annotated[str, Meta(pattern=r"^(https?://|\$\{)")]
Duration = float | str
PLACE = "the request"

TIMES = frozenset({"call_timeout", "discovery_timeout", "idle_timeout"})
HARMLESS = frozenset({"description", "enabled", "policy", "rate", "parallel"}) | TIMES
"""What somebody may set who reaches no further than ``admin``; of a new server, its address as well."""
CONNECTION = frozenset({"url", "headers"})


class NewServer(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """A server to add: a ``command`` to start, or a ``url`` to reach."""

    name: ServerName
    command: str | None = None
    args: list[str] | None = None
    env: dict[str, str] | None = None
    cwd: str | None = None
    url: Address | None = None
    headers: dict[str, str] | None = None
    description: str | None = None
    enabled: bool | None = None
    policy: Policy | None = None
    level: SecurityLevel | None = None
    rate: str | None = None
    parallel: int | None = None
    call_timeout: Duration | None = None
    discovery_timeout: Duration | None = None
    idle_timeout: Duration | None = None
    user: bool = False
    """Write it into the user's file, not the project's."""

    def table(self) -> dict[str, Any]:
        """What was given, by the keys of the file."""
        found = {key: getattr(self, key) for key in self.__struct_fields__ if key not in ("name", "user")}
        return {key: value for key, value in found.items() if value is not None}

    def to_config(self) -> ServerConfig:
        """The server; what a file could not say either is an error in the same words."""
        return merge(parse_server(self.name, self.table(), PLACE)).servers[self.name]


class ServerChange(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """What to change: keys that are left out stay, ``null`` takes one out; ``env`` and ``headers`` entry by entry."""

    command: str | UnsetType | None = UNSET
    args: list[str] | UnsetType | None = UNSET
    env: dict[str, str | None] | UnsetType | None = UNSET
    cwd: str | UnsetType | None = UNSET
    url: Address | UnsetType | None = UNSET
    headers: dict[str, str | None] | UnsetType | None = UNSET
    description: str | UnsetType | None = UNSET
    enabled: bool | UnsetType | None = UNSET
    policy: Policy | UnsetType | None = UNSET
    level: SecurityLevel | UnsetType | None = UNSET
    rate: str | UnsetType | None = UNSET
    parallel: int | UnsetType | None = UNSET
    call_timeout: Duration | UnsetType | None = UNSET
    discovery_timeout: Duration | UnsetType | None = UNSET
    idle_timeout: Duration | UnsetType | None = UNSET

    def table(self) -> dict[str, Any]:
        """What was given, by the keys of the file."""
        found = {key: getattr(self, key) for key in self.__struct_fields__}
        return {key: value for key, value in found.items() if value is not UNSET}


def refuse_masks(table: Mapping[str, Any]) -> None:
    """Stop a value that was read masked and is sent back."""
    if any(MASK in text for text in _texts(table)):
        raise HttpProblem(422, "TOOL_INVALID_INPUT", f"{MASK} stands for a value that is not shown; leave it out.")


def needs_system(table: Mapping[str, Any], *, is_new: bool) -> bool:
    """Whether only somebody may set this who may reach everything.

    A reference takes its value from toolcrib's own environment, and the address of a known server decides who gets
    its secrets; a level says who may use its tools.
    """
    keys = HARMLESS | CONNECTION if is_new else HARMLESS
    return not keys.issuperset(table) or any("${" in text for text in _texts(table))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


PATH = "/api/v1/servers"
ONE = f"{PATH}/{{name}}"
MOST_LINES = 1_000
USUAL_LINES = 200


def server_routes(premises: ServedProject) -> list[RouteSpec]:
    """The routes of the servers."""
    return [*_reading(premises), *_changing(premises), *_deeds(premises)]


def _reading(premises: ServedProject) -> list[RouteSpec]:
    async def ls(visit: PageRequest) -> HttpAnswer:
        visit.need_known()
        return json_answer(
            ServerList([_for(visit, view) for view in server_views(premises.crib) if may_see(visit, view.name)])
        )

    async def show(visit: PageRequest) -> HttpAnswer:
        return json_answer(_detail(premises, visit, known_server(premises, visit)))

    async def logs(visit: PageRequest) -> HttpAnswer:
        visit.need_operator()
        name, lines = known_server(premises, visit), visit.number("lines", USUAL_LINES, MOST_LINES)
        found = log_lines(premises.crib, name, lines) if name in premises.crib.shelves else []
        return json_answer(ServerLog(name, found))

    lines = Param("lines", f"how many at most, up to {MOST_LINES}", count(USUAL_LINES))
    return [
        RouteSpec("GET", PATH, ls, About("List the servers", "servers", ServerList, "Starts nothing.")),
        RouteSpec("GET", ONE, show, About("Show one server", "servers", ServerDetail, problems=(404,))),
        RouteSpec(
            "GET",
            f"{ONE}/logs",
            logs,
            About(
                "Show what a server wrote to stderr",
                "servers",
                ServerLog,
                "The end of it, as long as toolcrib keeps it; starts nothing.",
                params=(lines,),
                problems=(403, 404, 422),
            ),
        ),
    ]


def _changing(premises: ServedProject) -> list[RouteSpec]:
    async def add(visit: PageRequest) -> HttpAnswer:
        visit.need_operator()
        body = visit.json(NewServer)
        need_right_to_set(premises, visit, body.table(), body.command is not None)
        if server_view(premises.crib, body.name) is not None:
            raise HttpProblem(
                409, "HTTP_CONFLICT", f"There is already a server {body.name!r}. Change it, or remove it."
            )
        server = body.to_config()
        await _write_down(premises, visit, body.name, "added")
        record = await premises.project.add(server, user=body.user)
        return _outcome(premises, visit, body.name, record, status=201)

    async def change(visit: PageRequest) -> HttpAnswer:
        visit.need_operator()
        name, table = known_server(premises, visit), visit.json(ServerChange).table()
        premises.project.home_of(name)
        runs_command = premises.project.config.servers[name].command is not None
        need_right_to_set(premises, visit, table, runs_command or table.get("command") is not None, is_new=False)
        await _write_down(premises, visit, name, "changed", keys=sorted(table))
        record = await premises.project.change(name, table)
        return _outcome(premises, visit, name, record)

    async def remove(visit: PageRequest) -> HttpAnswer:
        visit.need_operator()
        name = known_server(premises, visit)
        premises.project.home_of(name)
        await _write_down(premises, visit, name, "removed")
        await premises.project.remove(name)
        return HttpAnswer(204)

    return [
        RouteSpec("POST", PATH, add, ADD),
        RouteSpec("PATCH", ONE, change, CHANGE),
        RouteSpec("DELETE", ONE, remove, About("Remove a server", "servers", status=204, problems=(403, 404, 422))),
    ]


GATE = "One that runs a command needs `--edit-commands` and a token of level system."
ADD = About(
    "Add a server",
    "servers",
    ServerOutcome,
    f"It is asked for its tools at once; that this failed is told in `discovery`, the server stays. {GATE}",
    status=201,
    body=NewServer,
    example={"name": "docs", "url": "https://docs.example/mcp", "headers": {"Authorization": "Bearer ${DOCS_TOKEN}"}},
    problems=(403, 409, 415, 422),
)
CHANGE = About(
    "Change a server",
    "servers",
    ServerOutcome,
    f"If it is another server then, it is asked again. {GATE}",
    body=ServerChange,
    example={"description": "the handbook", "callTimeout": "20s"},
    problems=(403, 404, 415, 422),
)


def _deeds(premises: ServedProject) -> list[RouteSpec]:
    project = premises.project

    async def enable(visit: PageRequest) -> HttpAnswer:
        visit.need_operator()
        name = known_server(premises, visit)
        await _write_down(premises, visit, name, "enabled")
        await project.set_enabled(name, True)
        return _outcome(premises, visit, name, await project.discover(name))

    async def disable(visit: PageRequest) -> HttpAnswer:
        visit.need_operator()
        name = known_server(premises, visit)
        await _write_down(premises, visit, name, "disabled")
        await project.set_enabled(name, False)
        return _outcome(premises, visit, name, None)

    async def refresh(visit: PageRequest) -> HttpAnswer:
        visit.need_operator()
        name = _enabled_server(premises, visit)
        return _outcome(premises, visit, name, await project.discover(name))

    async def restart(visit: PageRequest) -> HttpAnswer:
        visit.need_operator()
        name = _enabled_server(premises, visit)
        await _write_down(premises, visit, name, "restarted")
        return _outcome(premises, visit, name, await premises.crib.servers.restart(name))

    deeds = {
        "enable": (enable, "Switch a server on", (403, 404, 422)),
        "disable": (disable, "Switch a server off", (403, 404, 422)),
        "refresh": (refresh, "Ask a server for its tools now", (403, 404, 409)),
        "restart": (restart, "Stop a server and start it anew", (403, 404, 409)),
    }
    return [
        RouteSpec("POST", f"{ONE}/{word}", respond, About(text, "servers", ServerOutcome, problems=problems))
        for word, (respond, text, problems) in deeds.items()
    ]


def may_see(visit: PageRequest, server: str) -> bool:
    """Whether a caller may know of a server."""
    grants = visit.caller.grants
    return grants.level is not None and matches(server, grants.servers)


def known_server(premises: ServedProject, visit: PageRequest) -> str:
    """The server a visit is about, if its caller may know of it."""
    visit.need_known()
    name = visit.params["name"]
    is_there = name in premises.project.config.servers or name in premises.crib.shelves
    if not is_there or not may_see(visit, name):
        raise not_found("server", name, "GET /api/v1/servers lists them.")
    return name


def _enabled_server(premises: ServedProject, visit: PageRequest) -> str:
    name = known_server(premises, visit)
    if name not in premises.crib.shelves:
        raise HttpProblem(409, "HTTP_CONFLICT", f"Server {name!r} is switched off. Enable it first.")
    return name


def need_right_to_set(
    premises: ServedProject, visit: PageRequest, table: dict[str, Any], runs_command: bool, *, is_new: bool = True
) -> None:
    """Stop who may not set these keys of a server."""
    refuse_masks(table)
    if runs_command or needs_system(table, is_new=is_new):
        visit.need_operator(SecurityLevel.SYSTEM)
    if runs_command and not premises.edit_commands:
        hint = "Start toolcrib with --edit-commands, or use `toolcrib servers add` on its machine."
        detail = f"Servers that run a command cannot be added or changed over HTTP here. {hint}"
        raise HttpProblem(403, "HTTP_FORBIDDEN", detail)


def _detail(premises: ServedProject, visit: PageRequest, name: str) -> ServerDetail:
    """One server with all that its caller may know."""
    crib = premises.crib
    view = server_view(crib, name)
    if view is None:  # it is switched on or off this very moment
        raise not_found("server", name, "GET /api/v1/servers lists them.")
    shelf = crib.shelves.get(name)
    routes = crib.catalog.of_server(name)
    shown = routes if visit.is_operator() else [r for r in crib.catalog.visible_to(visit.caller.grants) if r in routes]
    config = shelf.config if shelf else crib.disabled.get(name)
    health = crib.servers.health().get(name)
    return ServerDetail(
        **structs.asdict(_for(visit, view)),
        tool_names=[route.name for route in shown],
        health=health and shown_health(visit, health),
        config=shown_config(config) if visit.is_operator() and config is not None else None,
    )


def _for(visit: PageRequest, view: ServerView) -> ServerView:
    """What went wrong quotes what a server wrote and where it is; that is for operators, as its log is."""
    if visit.is_operator():
        return view
    return structs.replace(view, runs=None, origin=None, error=None, problems=[], held=[])


def shown_health(visit: PageRequest, health: ServerHealth) -> ServerHealth:
    """How a server is doing, as far as the visitor may know."""
    return health if visit.is_operator() else structs.replace(health, error="")


def _outcome(
    premises: ServedProject, visit: PageRequest, name: str, record: Record | None, *, status: int = 200
) -> HttpAnswer:
    discovery = None if record is None else discovery_of(record)
    return json_answer(ServerOutcome(_detail(premises, visit, name), discovery), status)


async def _write_down(premises: ServedProject, visit: PageRequest, name: str, decision: str, **details: Any) -> None:
    """Before it is done: what cannot be recorded does not happen."""
    caller = visit.caller
    entry = AuditEntry("server", "", name, caller.id, caller.kind, decision=decision, details=details)
    await premises.crib.audit.commit(entry)
