"""``toolcrib ls``, ``find``, ``show`` and ``why``: the tools and all else, one of them, and why it is here or not."""

import shlex
from collections.abc import Iterator

import msgspec

from toolcrib.catalog.catalog import FORMATS, Route, offer_routes, signature_of
from toolcrib.catalog.explain import Explanation, ToolVerdict
from toolcrib.catalog.search import MOST, USUAL, RankedTool
from toolcrib.catalog.standing import is_unasked
from toolcrib.cli.console import Column, Console, one_line, print_table
from toolcrib.cli.content import example_call, parameter_rows, type_name
from toolcrib.cli.entries import asking_code, next_words, say_errors
from toolcrib.cli.failures import NOT_FOUND, OK, UsageError, unknown_server
from toolcrib.cli.invoke import Options, arg, as_json, command, in_profile
from toolcrib.cli.opening import discover, discover_unasked, make_known, open_here, open_window
from toolcrib.core.access import LOCAL_USER, Decision, decide, decided_by
from toolcrib.core.kinds import ServerState
from toolcrib.core.offers import OfferKind, Tool, about_tool
from toolcrib.crib.crib import Crib
from toolcrib.crib.window import ProfileView
from toolcrib.project.running import has_only_builtin
from toolcrib.schema.text import printable
from toolcrib.server.views.offers import ListedOffer, found_offer, listed_offer, offer_detail, prompt_arguments
from toolcrib.server.views.servers import server_views
from toolcrib.server.views.tools import ListedTool, found_tool, listed_tool, missing_tool, tool_detail

_MEANT = {
    "tool": (OfferKind.TOOL,),
    "resource": (OfferKind.RESOURCE, OfferKind.TEMPLATE),
    "template": (OfferKind.TEMPLATE,),
    "prompt": (OfferKind.PROMPT,),
    "skill": (OfferKind.SKILL,),
    "all": tuple(OfferKind),
}
KINDS = tuple(_MEANT)


@command(
    arg("--server", metavar="NAME", help="only the tools of this server"),
    arg("--kind", choices=KINDS, default="tool", metavar="KIND", help=f"of what: {', '.join(KINDS)} [tool]"),
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
  toolcrib ls --kind prompt
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
        routes = _of_kind(window, options)
        if options.format:
            _show_definitions(console, routes, options.format)
        elif options.json:
            console.print_json([_entry(crib, route) for route in routes])
        else:
            _show(console, routes)
            _say_more(console, window, options)
        _show_absent(crib, console, options.server)
        return _code_of(crib, options.server)


def _of_kind(window: ProfileView, options: Options) -> list[Route]:
    kinds = _MEANT[options.kind]
    every = [*window.catalog.routes.values(), *window.catalog.others.values()]
    return [route for route in every if route.offer.kind in kinds and options.server in (None, route.server)]


def _entry(crib: Crib, route: Route) -> ListedTool | ListedOffer:
    return listed_tool(crib, route) if route.offer.kind is OfferKind.TOOL else listed_offer(route)


def _say_more(console: Console, window: ProfileView, options: Options) -> None:
    """Say that there is more than tools, to somebody who listed these."""
    others = [route for route in window.catalog.others.values() if options.server in (None, route.server)]
    if options.kind == "tool" and others:
        kinds = {"prompt": OfferKind.PROMPT, "skill": OfferKind.SKILL}
        found = {word: sum(route.offer.kind is kind for route in others) for word, kind in kinds.items()}
        counts = {"resource": len(others) - sum(found.values()), **found}
        told = " and ".join(f"{count} {word}{'' if count == 1 else 's'}" for word, count in counts.items() if count)
        console.say(f"There are {told} besides: toolcrib ls --kind all", "dim")


def _show_definitions(console: Console, routes: list[Route], format: str) -> None:  # noqa: A002
    """What the local user may call, for a request to a provider; what it would refuse is named beside."""
    if any(route.offer.kind is not OfferKind.TOOL for route in routes):
        raise UsageError("--format is for tools.", hint="Leave out --kind.")
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
    for kinds, title in ((_MEANT["tool"], "TOOL"), (_MEANT["resource"], "URI"), (_MEANT["prompt"], "PROMPT")):
        rows = [(_named(route), _description(route)) for route in routes if route.offer.kind in kinds]
        if rows:
            print_table(console, (Column(title, styles=("bold",)), Column("DESCRIPTION", flexible=True)), rows)


def _named(route: Route) -> str:
    """What people and clients ask for it by."""
    return route.uri if route.offer.kind in _MEANT["resource"] else route.name


def _description(route: Route) -> str:
    """What a tool says of itself; one in quarantine is not given the word."""
    if route.held:
        return f"(in quarantine: {route.held}; toolcrib diff {shlex.quote(route.reach.key)})"
    first = next((line for line in (route.offer.description or route.offer.title).splitlines() if line.strip()), "")
    return f"(denied) {first}" if decided_by(route.policy) is Decision.DENIED else first


def _show_absent(crib: Crib, console: Console, server: str | None) -> None:
    """Say which servers are missing from the list, and what to do about it."""
    views = [view for view in server_views(crib) if server in (None, view.name)]
    say_errors(console, views)
    for view in views:
        if view.state in (ServerState.NEVER, ServerState.DISABLED):
            console.say(f"{view.name}: {view.cause}. {next_words(view)}.", "dim")
        elif view.state.is_underway:
            console.say(f"{view.name}: {view.state}: {view.cause}.", "dim")
    if has_only_builtin(crib):
        console.say("These are the built-in tools. Add a server: toolcrib servers add NAME -- command args…", "dim")


def _code_of(crib: Crib, server: str | None) -> int:
    """The exit code: whether the one server that was asked for has something to show."""
    shelf = crib.shelves.get(server or "")
    return OK if shelf is None or shelf.is_known else asking_code(shelf.record)


@command(
    arg("words", nargs="+", metavar="QUERY", help="what the tool is for"),
    arg("--kind", choices=KINDS, default="all", metavar="KIND", help=f"of what: {', '.join(KINDS)} [all]"),
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
    """Find tools, resources and prompts; servers nobody has asked yet are asked first."""
    if not 1 <= options.limit <= MOST:
        raise UsageError(f"--limit must be a number from 1 to {MOST}.")
    async with open_window(options, console) as window:
        crib = window.crib
        await discover_unasked(crib, console)
        hits = await _find(window, options)
        if options.json:
            console.print_json([_found(crib, hit) for hit in hits])
        else:
            _show_found(hits, console)
        return OK if hits else NOT_FOUND


async def _find(window: ProfileView, options: Options) -> list[RankedTool]:
    """The best of all that is wanted; tools and all else are weighed by themselves, each from 0 to 1."""
    query, kinds = " ".join(options.words), _MEANT[options.kind]
    tools = await window.find(query, options.limit) if OfferKind.TOOL in kinds else []
    others = await window.find_others(query, MOST) if kinds != _MEANT["tool"] else []
    fit = [hit for hit in others if hit.route.offer.kind in kinds]
    return sorted([*tools, *fit], key=lambda hit: -hit.score)[: options.limit]


def _found(crib: Crib, hit: RankedTool) -> ListedTool | ListedOffer:
    return found_tool(crib, hit) if hit.route.offer.kind is OfferKind.TOOL else found_offer(hit)


def _show_found(hits: list[RankedTool], console: Console) -> None:
    for hit in hits:
        name, line, kind = _named(hit.route), printable(signature_of(hit.route)), hit.route.offer.kind
        what = "" if kind is OfferKind.TOOL else console.paint(f"{kind} ", "dim")
        console.print(what + console.paint(name, "bold") + line.removeprefix(name))
    if not hits:
        console.say("Nothing seems to do that. Try other words, or see `toolcrib ls`.", "dim")


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
    arg("name", metavar="NAME", help="a tool, prompt or URI, as `toolcrib ls --kind all` shows it"),
    as_json("the tool with its whole definition"),
)
async def run_show(options: Options, console: Console) -> None:
    """Show it, whatever its kind; its server is asked if nobody has asked it yet."""
    async with open_here(options, console) as crib:
        await make_known(crib, console, options.name)
        route = crib.catalog.named(options.name)
        if route is None:
            raise missing_tool(crib, options.name)
        is_tool = route.offer.kind is OfferKind.TOOL
        if options.json:
            show = tool_detail if is_tool else offer_detail
            console.print_json(show(crib, route, for_operator=True))
        else:
            _print(route, console, _facts(route, crib) if is_tool else _other_facts(route, crib))


def _print(route: Route, console: Console, facts: Iterator[tuple[str, str]]) -> None:
    """A definition for people; of what is in quarantine, only that."""
    offer, is_tool = route.offer, route.offer.kind is OfferKind.TOOL
    title = f"  {console.paint(one_line(offer.title), 'dim')}" if offer.title and (is_tool or not route.held) else ""
    console.print(f"{console.paint(printable(_named(route)), 'bold')}{title}")
    if offer.description and (is_tool or not route.held):
        console.print(f"\n{printable(offer.description).strip()}")
    console.print()
    _print_parameters(route, console)
    for label, value in facts:
        console.print(f"{console.paint(f'{label:<8}', 'dim')} {value}")


def _print_parameters(route: Route, console: Console) -> None:
    if route.offer.kind is OfferKind.PROMPT:
        named = prompt_arguments(route)
        rows = [(one.name, "string", "required" if one.required else "", one.description) for one in named]
    elif route.offer.kind is OfferKind.TOOL:
        rows = parameter_rows(route.offer.input_schema)
    else:
        return
    if rows:
        print_table(console, PARAMETER_COLUMNS, rows)
    else:
        console.print("It takes no parameters.")
    console.print()


def _other_facts(route: Route, crib: Crib) -> Iterator[tuple[str, str]]:
    offer, shelf = route.offer, crib.shelves.get(route.server)
    yield "kind", offer.kind
    if offer.kind is not OfferKind.PROMPT:
        yield "name", one_line(route.name)
        yield "type", one_line(str(offer.extra.get("mimeType") or "unknown"))
    yield "level", offer.security_level
    yield "policy", route.policy
    if route.held:
        yield "held", one_line(route.held)
    if shelf is not None:
        yield "server", f"{route.server}, asked {shelf.record.last_discovery or 'never'}"
    yield "example", one_line(_example(route))


def _example(route: Route) -> str:
    if route.offer.kind is not OfferKind.PROMPT:
        return f"toolcrib resources read {shlex.quote(route.uri)}"
    needed = [f"{one.name}=…" for one in prompt_arguments(route) if one.required]
    return " ".join(["toolcrib prompts get", shlex.quote(route.name), *needed])


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
    yield from _more_facts(tool)
    yield "example", one_line(example_call(route.name, tool))


def _more_facts(tool: Tool) -> Iterator[tuple[str, str]]:
    """What only native tools say of themselves, and timeouts."""
    if tool.deprecation is not None:
        instead = f" Use {tool.deprecation.use_instead} instead." if tool.deprecation.use_instead else ""
        yield "leaves", one_line(f"deprecated: {tool.deprecation.reason}{instead}")
    if tool.version:
        yield "version", one_line(tool.version)
    if tool.category:
        yield "for", tool.category
    if tool.capabilities:
        yield "needs", ", ".join(sorted(tool.capabilities))
    if tool.timeout_s is not None:
        yield "timeout", f"{tool.timeout_s:g} s"
    for example in about_tool(tool).get("examples", []):
        yield "such as", one_line(msgspec.json.encode(example).decode())


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
    arg("name", metavar="NAME", help="a tool, prompt or URI, whether it is there or not"),
    in_profile("explain it within this profile"),
    as_json("the explanation"),
)
async def run_why(options: Options, console: Console) -> int:
    """Explain one name."""
    async with open_window(options, console) as window:
        story = window.explain(options.name)
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
