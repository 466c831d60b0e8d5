"""``toolcrib ls``: the tools, native and of every server."""

from typing import Any

from toolcrib.catalog.catalog import Route
from toolcrib.catalog.entries import tool_entry
from toolcrib.catalog.formats import FORMATS, offer_routes
from toolcrib.core.access import LOCAL_USER, decide
from toolcrib.crib import Crib
from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.entries import say_errors
from toolcrib.doors.cli.failures import OK, UNREACHABLE, unknown_server
from toolcrib.doors.cli.invoke import Options, Parser, add_common, add_json, add_profile
from toolcrib.doors.cli.opening import discover, discover_unasked, has_only_builtin, open_window
from toolcrib.doors.cli.running import run_once
from toolcrib.doors.cli.table import Column, print_table
from toolcrib.doors.views.servers import is_unasked, server_entries

COLUMNS = (Column("TOOL", styles=("bold",)), Column("DESCRIPTION", flexible=True))
EXAMPLES = """\
examples:
  toolcrib ls
  toolcrib ls --server github
  toolcrib ls --json | jq -r '.[].name'
  toolcrib ls --format anthropic > tools.json"""


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("--server", metavar="NAME", help="only the tools of this server")
    add_profile(parser, "only the tools of this profile, as it shows them")
    parser.add_argument("--cached", action="store_true", help="only what is known already; start nothing")
    parser.add_argument(
        "--format",
        choices=FORMATS,
        metavar="FORM",
        help=f"the definitions as a provider wants them: {', '.join(FORMATS)}",
    )
    add_json(parser, "the catalogue")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """List the tools; servers nobody has asked yet are asked first."""
    return run_once(_list(options, console))


async def _list(options: Options, console: Console) -> int:
    async with open_window(options, console) as window:
        crib = window.crib
        _check_server(crib, options.server)
        if not options.cached:
            await _ask(crib, console, options.server)
        routes = [route for route in window.catalog.routes.values() if options.server in (None, route.server)]
        if options.format:
            _show_definitions(console, routes, options.format)
        elif options.json:
            console.print_json([_entry(crib, route) for route in routes])
        else:
            _show(console, routes)
        _show_absent(crib, console, options.server)
        return UNREACHABLE if _is_unreachable(crib, options.server) else OK


def _show_definitions(console: Console, routes: list[Route], format: str) -> None:  # noqa: A002
    """What the local user may call, for a request to a provider; what it would refuse is named beside."""
    offer = offer_routes([route for route in routes if decide(LOCAL_USER.grants, route.reach).is_listed], format)
    console.print_json(list(offer.definitions))
    for name, reason in offer.left_out.items():
        console.say(f"{name} is left out: {reason}.", "dim")


def _entry(crib: Crib, route: Route) -> dict[str, Any]:
    return tool_entry(route, crib.shelves.get(route.server)) | {"tokens": route.tokens}


def _check_server(crib: Crib, name: str | None) -> None:
    known = [*crib.shelves, *crib.disabled]
    if name is not None and name not in known:
        raise unknown_server(name, known)


async def _ask(crib: Crib, console: Console, server: str | None) -> None:
    if server is None:
        await discover_unasked(crib, console)
    elif server in crib.shelves and is_unasked(crib.shelves[server]):
        await discover(crib, console, [server])


def _show(console: Console, routes: list[Route]) -> None:
    if routes:
        print_table(console, COLUMNS, [(route.name, _description(route)) for route in routes])


def _description(route: Route) -> str:
    """What a tool says of itself; one in quarantine is not given the word."""
    if route.held:
        return f"(in quarantine: {route.held}; toolcrib diff {route.name})"
    return ("(denied) " if route.policy == "deny" else "") + _first_line(route.tool.description)


def _first_line(text: str) -> str:
    return next((line for line in text.splitlines() if line.strip()), "")


def _show_absent(crib: Crib, console: Console, server: str | None) -> None:
    """Say which servers are missing from the list, and what to do about it."""
    entries = [entry for entry in server_entries(crib) if server in (None, entry["name"])]
    say_errors(console, entries)
    for entry in entries:
        if entry["state"] in ("never", "disabled"):
            verb = "refresh" if entry["state"] == "never" else "enable"
            note = "not asked yet" if entry["state"] == "never" else "disabled"
            console.say(f"{entry['name']}: {note}. Run `toolcrib servers {verb} {entry['name']}`.", "dim")
    if has_only_builtin(crib):
        console.say("These are the built-in tools. Add a server: toolcrib servers add NAME -- command args…", "dim")


def _is_unreachable(crib: Crib, server: str | None) -> bool:
    """Whether the one server that was asked for has nothing to show."""
    shelf = crib.shelves.get(server or "")
    return shelf is not None and shelf.record.status == "failed" and not shelf.is_known
