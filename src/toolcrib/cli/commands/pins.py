"""``toolcrib diff`` and ``approve``: what changed in tools in quarantine, and taking them out. Starts nothing."""

import shlex

from toolcrib.catalog.catalog import Route
from toolcrib.catalog.pins import FieldTrust
from toolcrib.cli.console import Console
from toolcrib.cli.failures import UsageError
from toolcrib.cli.invoke import Options, arg, as_json, command
from toolcrib.cli.opening import open_here
from toolcrib.crib.crib import Crib
from toolcrib.schema.text import printable
from toolcrib.server.views.tools import PinChange, change_of, changed_fields, check_seen, held_routes, missing_tool

COLOURS = {"+": ("green",), "-": ("red",), "@": ("cyan",)}


@command(
    arg("names", nargs="*", metavar="NAME", help="only these tools, prompts, URIs, or all of these servers"),
    as_json("old and new definitions"),
)
async def run_diff(options: Options, console: Console) -> None:
    """Show the changes."""
    async with open_here(options, console) as crib:
        _check_known(crib, options.names)
        changes = [change_of(crib, route) for route in held_routes(crib, options.names)]
        calm = [change_of(crib, route) for route in _named(crib, options.names) if not route.held and route.server]
    if options.json:
        console.print_json(changes)
        return
    for change in changes:
        _print(change, console)
    for change in calm:
        console.say(f"{change.name} is not in quarantine.")
        _say_uncounted(change, console)
    if not changes and not calm:
        console.say("Nothing is in quarantine." if not options.names else "It is not in quarantine.")


def _named(crib: Crib, names: list[str]) -> list[Route]:
    return [route for name in names if (route := crib.catalog.named(name)) is not None]


def _check_known(crib: Crib, names: list[str]) -> None:
    for name in names:
        if crib.catalog.named(name) is None and name not in crib.shelves:
            raise missing_tool(crib, name)


_TELLING = ("description", "title")
"""What tells a model what to do: whoever wants that to change unseen must think of it themselves."""


def _print(change: PinChange, console: Console) -> None:
    name = shlex.quote(change.name)
    console.print(f"{console.paint(change.name, 'bold')}: {change.reason}")
    for line in change.diff:
        console.print("  " + console.paint(printable(line), *COLOURS.get(line[:1], ())))
    _say_uncounted(change, console)
    console.print(f"  → accept it: toolcrib approve {name} --seen {change.seen}")
    fields = changed_fields(change)
    if len(fields) == 1 and fields[0].rpartition(".")[2] not in _TELLING:
        console.print(f"  → and let this field change from now on: --trust {shlex.quote(printable(fields[0]))}")
    console.print()


def _say_uncounted(change: PinChange, console: Console) -> None:
    """What of it may be different without being a change."""
    for field in change.disorder:
        console.print(f"  The order of {printable(field)} differs from one start to the next; harmless.")
    for field in change.trusted:
        console.print(f"  Changes of {printable(field)} do not count: it is trusted.")


@command(
    arg("names", nargs="*", metavar="NAME", help="tools, prompts, URIs, or servers for all of theirs"),
    arg("--all", action="store_true", help="everything that is in quarantine"),
    arg("--seen", metavar="HASH", help="only if it still is what `toolcrib diff` showed"),
    arg("--trust", action="append", metavar="FIELD", help="and let changes of this field count no more"),
    arg("--distrust", action="append", metavar="FIELD", help="and let changes of this field count again"),
    examples="""\
examples:
  toolcrib approve github__create_issue
  toolcrib approve 'prompt github__review'
  toolcrib approve jira__search --trust inputSchema.properties.fields.default
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
        if options.trust or options.distrust:
            await _trust(crib, wanted, options, console)
            return
        accepted = await crib.servers.approve(*wanted)
    for name in accepted:
        console.say(f"{name} is accepted as it is now.", "green")
    if not accepted:
        console.say("Nothing of that is in quarantine.")


async def _trust(crib: Crib, names: list[str], options: Options, console: Console) -> None:
    """Accept one of them as it is now, and have some of its fields count no more, or again."""
    if len(names) != 1 or crib.catalog.named(names[0]) is None:
        raise UsageError("--trust and --distrust go with the name of one tool, prompt or resource.")
    pin = await crib.servers.trust(names[0], FieldTrust(tuple(options.trust or ()), tuple(options.distrust or ())))
    console.say(f"{names[0]} is accepted as it is now.", "green")
    shown = ", ".join(map(printable, pin.trusted))
    console.say(f"Changes of {shown} do not count." if shown else "Every change of it counts.")


def _wanted(crib: Crib, options: Options) -> list[str]:
    if options.all:
        tools = [route.reach.key for route in held_routes(crib)]
        return [*tools, *(name for name, shelf in crib.shelves.items() if shelf.barred)]
    _check_known(crib, options.names)
    return list(options.names)


def _check_seen(crib: Crib, names: list[str], seen: str) -> None:
    """Refuse to accept what changed again after the person looked at it."""
    route = crib.catalog.named(names[0]) if len(names) == 1 else None
    if route is None or not route.server:
        raise UsageError("--seen goes with the name of one tool.", hint="`toolcrib diff` prints the whole line.")
    check_seen(crib, route, seen)
