"""``toolcrib diff`` and ``approve``: what changed in tools in quarantine, and taking them out. Starts nothing."""

from toolcrib.cli.console import Console
from toolcrib.cli.failures import UsageError
from toolcrib.cli.invoke import Options, arg, as_json, command
from toolcrib.cli.opening import open_here
from toolcrib.crib.crib import Crib
from toolcrib.schema.text import printable
from toolcrib.server.views.tools import PinChange, change_of, check_seen, held_routes, missing_tool

COLOURS = {"+": ("green",), "-": ("red",), "@": ("cyan",)}


@command(
    arg("names", nargs="*", metavar="TOOL", help="only these tools, or those of these servers"),
    as_json("old and new definitions"),
)
async def run_diff(options: Options, console: Console) -> None:
    """Show the changes."""
    async with open_here(options, console) as crib:
        _check_known(crib, options.names)
        changes = [change_of(crib, route) for route in held_routes(crib, options.names)]
    if options.json:
        console.print_json(changes)
        return
    for change in changes:
        _print(change, console)
    if not changes:
        console.say("Nothing is in quarantine." if not options.names else "It is not in quarantine.")


def _check_known(crib: Crib, names: list[str]) -> None:
    for name in names:
        if name not in crib.catalog.routes and name not in crib.shelves:
            raise missing_tool(crib, name)


def _print(change: PinChange, console: Console) -> None:
    console.print(f"{console.paint(change.name, 'bold')}: {change.reason}")
    for line in change.diff:
        console.print("  " + console.paint(printable(line), *COLOURS.get(line[:1], ())))
    console.print(f"  → accept it: toolcrib approve {change.name} --seen {change.seen}")
    console.print()


@command(
    arg("names", nargs="*", metavar="TOOL", help="tools, or servers for all of theirs"),
    arg("--all", action="store_true", help="everything that is in quarantine"),
    arg("--seen", metavar="HASH", help="only if it still is what `toolcrib diff` showed"),
    examples="""\
examples:
  toolcrib approve github__create_issue
  toolcrib approve github          everything of one server
  toolcrib approve --all""",
)
async def run_approve(options: Options, console: Console) -> None:
    """Take them out of quarantine."""
    if not options.names and not options.all:
        raise UsageError("Say what to accept.", hint="Name tools or servers, or give --all; see `toolcrib diff`.")
    async with open_here(options, console) as crib:
        wanted = _wanted(crib, options)
        if options.seen:
            _check_seen(crib, wanted, options.seen)
        accepted = await crib.servers.approve(*wanted)
    for name in accepted:
        console.say(f"{name} is accepted as it is now.", "green")
    if not accepted:
        console.say("Nothing of that is in quarantine.")


def _wanted(crib: Crib, options: Options) -> list[str]:
    if options.all:
        tools = [name for name, route in crib.catalog.routes.items() if route.held]
        return [*tools, *(name for name, shelf in crib.shelves.items() if shelf.barred)]
    _check_known(crib, options.names)
    return list(options.names)


def _check_seen(crib: Crib, names: list[str], seen: str) -> None:
    """Refuse to accept what changed again after the person looked at it."""
    route = crib.catalog.routes.get(names[0]) if len(names) == 1 else None
    if route is None or not route.server:
        raise UsageError("--seen goes with the name of one tool.", hint="`toolcrib diff` prints the whole line.")
    check_seen(crib, route, seen)
