"""``toolcrib show``: one tool, what it does and what it takes."""

from collections.abc import Iterator

from toolcrib.catalog.catalog import Route
from toolcrib.core.tool import Tool
from toolcrib.crib import Crib
from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import OK
from toolcrib.doors.cli.invoke import Options, Parser, add_common, add_json
from toolcrib.doors.cli.opening import make_known, open_here
from toolcrib.doors.cli.running import run_once
from toolcrib.doors.cli.schemas import example_call, parameter_rows, type_name
from toolcrib.doors.cli.table import Column, one_line, print_table
from toolcrib.doors.views.tools import missing_tool
from toolcrib.schema.text import printable

COLUMNS = (
    Column("PARAMETER", styles=("bold",)),
    Column("TYPE"),
    Column(""),
    Column("DESCRIPTION", flexible=True),
)
HINTS = {
    "readOnlyHint": ("only reads", "may change things"),
    "destructiveHint": ("may destroy", "never destroys"),
    "idempotentHint": ("can be repeated", "must not be repeated"),
    "openWorldHint": ("reaches outside", "stays inside"),
}


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("tool", metavar="TOOL", help="the tool's name, as `toolcrib ls` shows it")
    add_json(parser, "the MCP definition")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """Show the tool; its server is asked if nobody has asked it yet."""
    return run_once(_show(options, console))


async def _show(options: Options, console: Console) -> int:
    async with open_here(options, console) as crib:
        await make_known(crib, console, options.tool)
        route = crib.catalog.routes.get(options.tool)
        if route is None:
            raise missing_tool(crib, options.tool)
        if options.json:
            console.print_json(route.to_mcp())
        else:
            _print(route, crib, console)
    return OK


def _print(route: Route, crib: Crib, console: Console) -> None:
    tool = route.tool
    title = f"  {console.paint(one_line(tool.title), 'dim')}" if tool.title else ""
    console.print(f"{console.paint(route.name, 'bold')}{title}")
    if tool.description:
        console.print(f"\n{printable(tool.description).strip()}")
    rows = parameter_rows(tool.input_schema)
    console.print()
    if rows:
        print_table(console, COLUMNS, rows)
    else:
        console.print("It takes no parameters.")
    console.print()
    for label, value in _facts(route, crib):
        console.print(f"{console.paint(f'{label:<8}', 'dim')} {value}")


def _facts(route: Route, crib: Crib) -> Iterator[tuple[str, str]]:
    tool, shelf = route.tool, crib.shelves.get(route.server)
    if tool.output_schema is not None:
        yield "returns", one_line(_output(tool))
    hints = [words[0 if tool.annotations[key] else 1] for key, words in HINTS.items() if key in tool.annotations]
    if hints:
        yield "says", ", ".join(hints)
    yield "level", tool.security_level
    yield "policy", route.policy
    if route.held:
        yield "held", one_line(route.held)
    if shelf is not None:
        yield "server", f"{route.server}, asked {shelf.record.last_discovery or 'never'}"
    yield "tokens", f"about {route.tokens}"
    yield "example", one_line(example_call(route.name, tool))


def _output(tool: Tool) -> str:
    schema = tool.output_schema or {}
    properties = schema.get("properties")
    if not properties:
        return type_name(schema)
    return ", ".join(f"{name}: {type_name(part)}" for name, part in properties.items())
