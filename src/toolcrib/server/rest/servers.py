"""The servers over REST: how they are doing, and adding, changing, switching and removing them."""

from collections.abc import Iterator, Mapping
from types import NoneType
from typing import Annotated, Any, get_args, get_origin

import msgspec
from msgspec import UNSET, Meta, UnsetType, structs

from toolcrib.catalog.entries import discovery_of
from toolcrib.config.keys import Key
from toolcrib.config.lock import Record
from toolcrib.config.merge import merge
from toolcrib.config.parse import parse_server
from toolcrib.config.secrets import MASK
from toolcrib.config.tables import SERVER_KEYS
from toolcrib.core.audit import AuditEntry
from toolcrib.core.limits import Rate
from toolcrib.core.offers import SecurityLevel
from toolcrib.server.answers import HttpAnswer, HttpProblem, conflict, forbidden, json_answer, not_found, unfit
from toolcrib.server.rest.about import About, Param, RestResource, count
from toolcrib.server.views.servers import ServerDetail, ServerList, ServerLog, ServerOutcome
from toolcrib.server.visit import PageRequest

SERVERS = RestResource("servers", "The MCP servers behind it.")
ServerName = Annotated[str, Meta(pattern="^[a-z][a-z0-9_]*$", max_length=64)]
Address = Annotated[str, Meta(pattern=r"^(https?://|\$\{)")]
PLACE = "the request"

HARMLESS = frozenset(name for name, key in SERVER_KEYS.items() if key.http_level is SecurityLevel.ADMIN)
"""What somebody may set who reaches no further than ``admin``; of a new server, its address as well."""
CONNECTION = frozenset({"url", "headers"})


def _json_type(key: Key, *, in_part: bool) -> Any:
    """What a key of the file is in JSON; where a table is given in part, ``null`` takes an entry out."""
    if key.name == "url":
        return Address
    if get_origin(key.type) is tuple:
        return list[str]
    if get_origin(key.type) is Mapping:
        return dict[str, str | None] if in_part else dict[str, str]
    kind = next(kind for kind in (*get_args(key.type), key.type) if kind is not NoneType)
    return {float: float | str, Rate: str}.get(kind, kind)


_OPTIONS: Any = {"rename": "camel", "forbid_unknown_fields": True}
_KEYS = [(name, key) for name, key in SERVER_KEYS.items() if key.http_level]
NewServer = msgspec.defstruct(
    "NewServer",
    [
        ("name", ServerName),
        *((name, _json_type(key, in_part=False) | None, None) for name, key in _KEYS),
        ("user", bool, False),
    ],
    namespace={"__doc__": "A server to add: a ``command`` to start, or a ``url`` to reach."},
    **_OPTIONS,
)
ServerChange = msgspec.defstruct(
    "ServerChange",
    [(name, _json_type(key, in_part=True) | UnsetType | None, UNSET) for name, key in _KEYS],
    namespace={
        "__doc__": "What to change: keys that are left out stay, ``null`` takes one out; ``env`` and ``headers`` entry "
        "by entry."
    },
    **_OPTIONS,
)


def refuse_masks(table: Mapping[str, Any]) -> None:
    """Stop a value that was read masked and is sent back."""
    if any(MASK in text for text in _texts(table)):
        raise unfit(f"{MASK} stands for a value that is not shown; leave it out.")


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


ONE = "/servers/{name}"
MOST_LINES = 1_000
USUAL_LINES = 200
GATE = "One that runs a command needs `--edit-commands` and a token of level system."


@SERVERS.route("GET", "/servers", About("List the servers", ServerList, "Starts nothing."))
async def _list(visit: PageRequest) -> HttpAnswer:
    visit.need_known()
    return json_answer(ServerList(visit.view.servers()))


@SERVERS.route("GET", ONE, About("Show one server", ServerDetail, problems=(404,)))
async def _show(visit: PageRequest) -> HttpAnswer:
    return json_answer(_detail(visit, _known_server(visit)))


@SERVERS.route(
    "GET",
    f"{ONE}/logs",
    About(
        "Show what a server wrote to stderr",
        ServerLog,
        "The end of it, as long as toolcrib keeps it; starts nothing.",
        params=(Param("lines", f"how many at most, up to {MOST_LINES}", count(USUAL_LINES)),),
        problems=(403, 404, 422),
    ),
)
async def _log(visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    name, lines = _known_server(visit), visit.number("lines", USUAL_LINES, MOST_LINES)
    return json_answer(ServerLog(name, visit.view.log(name, lines)))


@SERVERS.route(
    "POST",
    "/servers",
    About(
        "Add a server",
        ServerOutcome,
        f"It is asked for its tools at once; that this failed is told in `discovery`, the server stays. {GATE}",
        status=201,
        body=NewServer,
        example={
            "name": "docs",
            "url": "https://docs.example/mcp",
            "headers": {"Authorization": "Bearer ${DOCS_TOKEN}"},
        },
        problems=(403, 409, 415, 422),
    ),
)
async def _add(visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    body = structs.asdict(visit.json(NewServer))
    name, user = body.pop("name"), body.pop("user")
    table = {key: value for key, value in body.items() if value is not None}
    refuse_masks(table)
    need_right_to_set(visit, table, "command" in table)
    if visit.view.server(name) is not None:
        raise conflict(f"There is already a server {name!r}. Change it, or remove it.")
    server = merge(parse_server(name, table, PLACE)).servers[name]
    await note_server(visit, "added", name)
    return _outcome(visit, name, await visit.served.project.add(server, user=user), status=201)


@SERVERS.route(
    "PATCH",
    ONE,
    About(
        "Change a server",
        ServerOutcome,
        f"If it is another server then, it is asked again. {GATE}",
        body=ServerChange,
        example={"description": "the handbook", "callTimeout": "20s"},
        problems=(403, 404, 415, 422),
    ),
)
async def _change(visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    name, project = _known_server(visit), visit.served.project
    body = structs.asdict(visit.json(ServerChange))
    table = {key: value for key, value in body.items() if value is not UNSET}
    project.home_of(name)
    runs_command = project.config.servers[name].command is not None
    refuse_masks(table)
    need_right_to_set(visit, table, runs_command or table.get("command") is not None, is_new=False)
    await note_server(visit, "changed", name, keys=sorted(table))
    return _outcome(visit, name, await project.change(name, table))


@SERVERS.route("DELETE", ONE, About("Remove a server", status=204, problems=(403, 404, 422)))
async def _remove(visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    name, project = _known_server(visit), visit.served.project
    project.home_of(name)
    await note_server(visit, "removed", name)
    await project.remove(name)
    return HttpAnswer(204)


@SERVERS.route("POST", f"{ONE}/enable", About("Switch a server on", ServerOutcome, problems=(403, 404, 422)))
async def _enable(visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    name = _known_server(visit)
    return _outcome(visit, name, await switch_server(visit, name, enabled=True))


@SERVERS.route("POST", f"{ONE}/disable", About("Switch a server off", ServerOutcome, problems=(403, 404, 422)))
async def _disable(visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    name = _known_server(visit)
    return _outcome(visit, name, await switch_server(visit, name, enabled=False))


@SERVERS.route(
    "POST", f"{ONE}/refresh", About("Ask a server for its tools now", ServerOutcome, problems=(403, 404, 409))
)
async def _refresh(visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    name = _enabled_server(visit)
    return _outcome(visit, name, await visit.served.project.discover(name))


@SERVERS.route(
    "POST", f"{ONE}/restart", About("Stop a server and start it anew", ServerOutcome, problems=(403, 404, 409))
)
async def _restart(visit: PageRequest) -> HttpAnswer:
    visit.need_operator()
    name = _enabled_server(visit)
    return _outcome(visit, name, await restart_server(visit, name))


async def switch_server(visit: PageRequest, name: str, *, enabled: bool) -> Record | None:
    """Switch a server on, and ask it for its tools; or switch it off."""
    await note_server(visit, "enabled" if enabled else "disabled", name)
    await visit.served.project.set_enabled(name, enabled)
    return await visit.served.project.discover(name) if enabled else None


async def restart_server(visit: PageRequest, name: str) -> Record:
    """Stop a server and start it anew."""
    await note_server(visit, "restarted", name)
    return await visit.view.restart(name)


async def note_server(visit: PageRequest, decision: str, name: str, **details: Any) -> None:
    """Write down who changes which server."""
    await visit.view.note(AuditEntry("server", server=name, decision=decision, details=details))


def _known_server(visit: PageRequest) -> str:
    """The server a visit is about, if its caller may know of it."""
    visit.need_known()
    name = visit.params["name"]
    if not visit.view.has_server(name):
        raise _no_server(name)
    return name


def _no_server(name: str) -> HttpProblem:
    return not_found("server", name, "GET /api/v1/servers lists them.")


def _enabled_server(visit: PageRequest) -> str:
    name = _known_server(visit)
    if not visit.view.is_enabled(name):
        raise conflict(f"Server {name!r} is switched off. Enable it first.")
    return name


NO_COMMANDS = (
    "Servers that run a command cannot be added or changed over HTTP here. Start toolcrib with --edit-commands, or use"
    " `toolcrib servers add` on its machine."
)


def need_right_to_set(
    visit: PageRequest,
    table: Mapping[str, Any],
    runs_command: bool,
    *,
    is_new: bool = True,
    no_commands: str = NO_COMMANDS,
) -> None:
    """Stop who may not set these keys of a server; a command can do anything on this machine."""
    if runs_command or needs_system(table, is_new=is_new):
        visit.need_operator(SecurityLevel.SYSTEM)
    if runs_command and not visit.served.edit_commands:
        raise forbidden(no_commands)


def _detail(visit: PageRequest, name: str) -> ServerDetail:
    found = visit.view.server_detail(name)
    if found is None:  # it is switched on or off this very moment
        raise _no_server(name)
    return found


def _outcome(visit: PageRequest, name: str, record: Record | None, *, status: int = 200) -> HttpAnswer:
    discovery = None if record is None else discovery_of(record)
    return json_answer(ServerOutcome(_detail(visit, name), discovery), status)
