"""``toolcrib servers ls``: every configured server and how it is doing; starts nothing unless asked to."""

from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.entries import STATE_STYLES, say_errors
from toolcrib.doors.cli.failures import OK
from toolcrib.doors.cli.invoke import Options, Parser, add_common, add_json
from toolcrib.doors.cli.opening import discover, open_here
from toolcrib.doors.cli.running import run_once
from toolcrib.doors.cli.table import Column, print_table
from toolcrib.doors.views.servers import server_entries

COLUMNS = (
    Column("SERVER", styles=("bold",)),
    Column("STATE", coloured=STATE_STYLES),
    Column("TOOLS", right=True),
    Column("LAST ASKED"),
    Column("RUNS", flexible=True),
)


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("--probe", action="store_true", help="ask every server first")
    add_json(parser, "the servers")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """List the servers."""
    return run_once(_list(options, console))


async def _list(options: Options, console: Console) -> int:
    async with open_here(options, console) as crib:
        if options.probe:
            await discover(crib, console, sorted(crib.shelves))
        entries = server_entries(crib)
    if options.json:
        console.print_json(entries)
    elif entries:
        rows = [(e["name"], e["state"], str(e["tools"]), e["lastDiscovered"] or "never", e["runs"]) for e in entries]
        print_table(console, COLUMNS, rows)
        say_errors(console, entries)
    else:
        console.say("No server is configured. Add one: toolcrib servers add NAME -- command args…")
    return OK
