"""``toolcrib approve``: accept changed tools as they are now."""

from toolcrib.crib import Crib
from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import OK, UsageError
from toolcrib.doors.cli.invoke import Options, Parser, add_common
from toolcrib.doors.cli.opening import open_here
from toolcrib.doors.cli.running import run_once
from toolcrib.doors.views.tools import check_seen, missing_tool

EXAMPLES = """\
examples:
  toolcrib approve github__create_issue
  toolcrib approve github          everything of one server
  toolcrib approve --all"""


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("names", nargs="*", metavar="TOOL", help="tools, or servers for all of theirs")
    parser.add_argument("--all", action="store_true", help="everything that is in quarantine")
    parser.add_argument("--seen", metavar="HASH", help="only if it still is what `toolcrib diff` showed")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """Take them out of quarantine."""
    if not options.names and not options.all:
        raise UsageError("Say what to accept.", hint="Name tools or servers, or give --all; see `toolcrib diff`.")
    return run_once(_approve(options, console))


async def _approve(options: Options, console: Console) -> int:
    async with open_here(options, console) as crib:
        wanted = _wanted(crib, options)
        if options.seen:
            _check_seen(crib, wanted, options.seen)
        accepted = await crib.servers.approve(*wanted)
    for name in accepted:
        console.say(f"{name} is accepted as it is now.", "green")
    if not accepted:
        console.say("Nothing of that is in quarantine.")
    return OK


def _wanted(crib: Crib, options: Options) -> list[str]:
    if options.all:
        tools = [name for name, route in crib.catalog.routes.items() if route.held]
        return [*tools, *(name for name, shelf in crib.shelves.items() if shelf.barred)]
    for name in options.names:
        if name not in crib.catalog.routes and name not in crib.shelves:
            raise missing_tool(crib, name)
    return list(options.names)


def _check_seen(crib: Crib, names: list[str], seen: str) -> None:
    """Refuse to accept what changed again after the person looked at it."""
    route = crib.catalog.routes.get(names[0]) if len(names) == 1 else None
    if route is None or not route.server:
        raise UsageError("--seen goes with the name of one tool.", hint="`toolcrib diff` prints the whole line.")
    check_seen(crib, route, seen)
