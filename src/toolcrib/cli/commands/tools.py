"""``toolcrib ls``, ``find``, ``show`` and ``why``: the tools, one of them, and why it is here or not."""

from collections.abc import Iterator

from toolcrib.catalog.catalog import FORMATS, Route, offer_routes, signature_of
from toolcrib.catalog.explain import Explanation, ToolVerdict
from toolcrib.catalog.search import MOST, USUAL, RankedTool
from toolcrib.cli.console import Column, Console, one_line, print_table
from toolcrib.cli.content import example_call, parameter_rows, type_name
from toolcrib.cli.entries import say_errors
from toolcrib.cli.failures import NOT_FOUND, OK, UNREACHABLE, UsageError, unknown_server
from toolcrib.cli.invoke import Options, arg, as_json, command, in_profile
from toolcrib.cli.opening import discover, discover_unasked, make_known, open_here, open_window
from toolcrib.core.access import LOCAL_USER, Decision, decide, decided_by
from toolcrib.core.kinds import DiscoveryStatus, ServerState
from toolcrib.core.offers import Tool
from toolcrib.crib.crib import Crib
from toolcrib.project.running import has_only_builtin
from toolcrib.schema.text import printable
from toolcrib.server.views.servers import is_unasked, server_views
from toolcrib.server.views.tools import found_tool, listed_tool, missing_tool, tool_detail

COLUMNS = (Column("TOOL", styles=("bold",)), Column("DESCRIPTION", flexible=True))


@command(
    arg("--server", metavar="NAME", help="only the tools of this server"),
    in_profile("only the tools of this profile, as it shows them"),
    arg("--cached", action="store_true", help="only what is known already; start nothing"),
    arg(
        "--format",
        choices=FORMATS,
        metavar="FORM",
        help=f"the definitions as a provider wants them: {', '.join(FORMATS)}",
    ),
    as_json("the catalogue"),
    examples="""\
examples:
  toolcrib ls
  toolcrib ls --server github
  toolcrib ls --json | jq -r '.[].name'
  toolcrib ls --format anthropic > tools.json""",
)
async def run_ls(options: Options, console: Console) -> int:
    """List the tools; servers nobody has asked yet are asked first."""
    async with open_window(options, console) as window:
        crib = window.crib
        _check_server(crib, options.server)
        if not options.cached:
            await _ask(crib, console, options.server)
        routes = [route for route in window.catalog.routes.values() if options.server in (None, route.server)]
        if options.format:
            _show_definitions(console, routes, options.format)
        elif options.json:
            console.print_json([listed_tool(crib, route) for route in routes])
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
    first = next((line for line in route.tool.description.splitlines() if line.strip()), "")
    return f"(denied) {first}" if decided_by(route.policy) is Decision.DENIED else first


def _show_absent(crib: Crib, console: Console, server: str | None) -> None:
    """Say which servers are missing from the list, and what to do about it."""
    views = [view for view in server_views(crib) if server in (None, view.name)]
    say_errors(console, views)
    for view in views:
        if view.state in (ServerState.NEVER, ServerState.DISABLED):
            verb = "refresh" if view.state is ServerState.NEVER else "enable"
            note = "not asked yet" if view.state is ServerState.NEVER else "disabled"
            console.say(f"{view.name}: {note}. Run `toolcrib servers {verb} {view.name}`.", "dim")
    if has_only_builtin(crib):
        console.say("These are the built-in tools. Add a server: toolcrib servers add NAME -- command args…", "dim")


def _is_unreachable(crib: Crib, server: str | None) -> bool:
    """Whether the one server that was asked for has nothing to show."""
    shelf = crib.shelves.get(server or "")
    return shelf is not None and shelf.record.status is DiscoveryStatus.FAILED and not shelf.is_known


@command(
    arg("words", nargs="+", metavar="QUERY", help="what the tool is for"),
    arg("--limit", type=int, default=USUAL, metavar="N", help=f"how many at most [{USUAL}]"),
    in_profile("only the tools of this profile"),
    as_json("what was found, with scores,"),
    examples="""\
examples:
  toolcrib find "what time is it in Tokyo"
  toolcrib find create an issue --limit 3
  toolcrib find rename a file --json | jq -r '.[0].name'""",
)
async def run_find(options: Options, console: Console) -> int:
    """Find tools; servers nobody has asked yet are asked first."""
    if not 1 <= options.limit <= MOST:
        raise UsageError(f"--limit must be a number from 1 to {MOST}.")
    async with open_window(options, console) as window:
        crib = window.crib
        await discover_unasked(crib, console)
        hits = await window.find(" ".join(options.words), options.limit)
        if options.json:
            console.print_json([found_tool(crib, hit) for hit in hits])
        else:
            _show_found(hits, console)
        return OK if hits else NOT_FOUND


def _show_found(hits: list[RankedTool], console: Console) -> None:
    for hit in hits:
        name, line = hit.route.name, printable(signature_of(hit.route))
        console.print(console.paint(name, "bold") + line.removeprefix(name))
    if not hits:
        console.say("No tool seems to do that. Try other words, or see `toolcrib ls`.", "dim")


PARAMETER_COLUMNS = (
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


@command(
    arg("tool", metavar="TOOL", help="the tool's name, as `toolcrib ls` shows it"),
    as_json("the tool with its whole definition"),
)
async def run_show(options: Options, console: Console) -> None:
    """Show the tool; its server is asked if nobody has asked it yet."""
    async with open_here(options, console) as crib:
        await make_known(crib, console, options.tool)
        route = crib.lookup(options.tool)
        if route is None:
            raise missing_tool(crib, options.tool)
        if options.json:
            console.print_json(tool_detail(crib, route, for_operator=True))
        else:
            _print(route, crib, console)


def _print(route: Route, crib: Crib, console: Console) -> None:
    tool = route.tool
    title = f"  {console.paint(one_line(tool.title), 'dim')}" if tool.title else ""
    console.print(f"{console.paint(route.name, 'bold')}{title}")
    if tool.description:
        console.print(f"\n{printable(tool.description).strip()}")
    rows = parameter_rows(tool.input_schema)
    console.print()
    if rows:
        print_table(console, PARAMETER_COLUMNS, rows)
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


STYLES = {
    "available": "green",
    "stale": "yellow",
    "hidden": "yellow",
    "renamed": "yellow",
    "disabled": "yellow",
    "not discovered": "cyan",
}


@command(
    arg("tool", metavar="TOOL", help="the name of a tool, whether it is there or not"),
    in_profile("explain it within this profile"),
    as_json("the explanation"),
)
async def run_why(options: Options, console: Console) -> int:
    """Explain one name."""
    async with open_window(options, console) as window:
        story = window.explain(options.tool)
    if options.json:
        console.print_json(story)
    else:
        _print_why(story, console)
    return NOT_FOUND if story.verdict is ToolVerdict.MISSING else OK


def _print_why(story: Explanation, console: Console) -> None:
    verdict = console.paint(story.verdict, "bold", STYLES.get(story.verdict, "red"))
    console.print(f"{printable(story.name)}: {verdict}")
    for reason in story.reasons:
        console.print(f"  {printable(reason)}")
    if story.todo:
        console.print(f"  → {printable(story.todo)}")
