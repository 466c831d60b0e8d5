"""``toolcrib diff``: what changed in the tools that are in quarantine. Starts nothing."""

from typing import Any

from toolcrib.catalog.catalog import Route
from toolcrib.crib import Crib
from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import OK
from toolcrib.doors.cli.invoke import Options, Parser, add_common, add_json
from toolcrib.doors.cli.opening import open_here
from toolcrib.doors.cli.running import run_once
from toolcrib.doors.views.tools import change_of, diff_lines, held_routes, missing_tool
from toolcrib.schema.text import printable

COLOURS = {"+": ("green",), "-": ("red",), "@": ("cyan",)}


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("names", nargs="*", metavar="TOOL", help="only these tools, or those of these servers")
    add_json(parser, "old and new definitions")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """Show the changes."""
    return run_once(_diff(options, console))


async def _diff(options: Options, console: Console) -> int:
    async with open_here(options, console) as crib:
        routes = _held(crib, options.names)
        changes = [change_of(crib, route) for route in routes]
    if options.json:
        console.print_json(changes)
        return OK
    for change in changes:
        _print(change, console)
    if not changes:
        console.say("Nothing is in quarantine." if not options.names else "It is not in quarantine.")
    return OK


def _held(crib: Crib, names: list[str]) -> list[Route]:
    for name in names:
        if name not in crib.catalog.routes and name not in crib.shelves:
            raise missing_tool(crib, name)
    return held_routes(crib, names)


def _print(change: dict[str, Any], console: Console) -> None:
    console.print(f"{console.paint(change['name'], 'bold')}: {change['reason']}")
    for line in diff_lines(change["old"], change["new"]):
        console.print("  " + console.paint(printable(line), *COLOURS.get(line[:1], ())))
    console.print(f"  → accept it: toolcrib approve {change['name']} --seen {change['seen']}")
    console.print()
