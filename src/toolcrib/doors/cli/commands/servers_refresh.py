"""``toolcrib servers refresh``: ask servers for their tools now, however fresh the last answer is."""

from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import OK
from toolcrib.doors.cli.invoke import Options, Parser, add_common, add_json
from toolcrib.doors.cli.opening import open_here
from toolcrib.doors.cli.outcomes import ask_and_show
from toolcrib.doors.cli.running import run_once


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument(
        "names", metavar="NAME", nargs="*", default=[], help="the servers to ask; all when none is named"
    )
    add_json(parser, "the outcome")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """Ask, and show the outcome."""
    return run_once(_refresh(options, console))


async def _refresh(options: Options, console: Console) -> int:
    async with open_here(options, console) as crib:
        names = options.names or sorted(crib.shelves)
        if not names and not options.json:
            console.say("No server is enabled. Add one: toolcrib servers add NAME -- command args…")
            return OK
        return await ask_and_show(crib, console, names, as_json=options.json)
