"""``toolcrib servers logs``: start a server and show what it writes to stderr."""

from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import OK, exit_code
from toolcrib.doors.cli.invoke import Options, Parser, add_common, add_json
from toolcrib.doors.cli.opening import discover, open_here
from toolcrib.doors.cli.running import run_once
from toolcrib.schema.text import printable


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("name", metavar="NAME", help="the server, as `toolcrib servers ls` shows it")
    parser.add_argument("-n", "--lines", type=int, default=100, metavar="COUNT", help="how many lines at most [100]")
    add_json(parser, "the lines")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """Start the server, let it list its tools, and show its own words."""
    return run_once(_show(options, console))


async def _show(options: Options, console: Console) -> int:
    async with open_here(options, console) as crib:
        record = (await discover(crib, console, [options.name]))[options.name]
        source = crib.shelves[options.name].source
        details = source.status().details
        lines = list(source.log_lines(options.lines)) or list(details.get("stderr", ()))
    if options.json:
        console.print_json(lines)
    for line in [] if options.json else lines:
        console.print(printable(line))
    if not lines:
        console.say(f"Server {options.name!r} wrote nothing to stderr.", "dim")
    if record.status == "failed":
        console.say(f"toolcrib: {record.error}")
        return exit_code("TOOL_UNAVAILABLE", details)
    return OK
