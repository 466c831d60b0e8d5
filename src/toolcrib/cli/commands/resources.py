"""``toolcrib resources``: what servers offer to read; and what the commands for prompts share with these."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from toolcrib.catalog.catalog import Route
from toolcrib.cli.asking import attach_terminal
from toolcrib.cli.console import Column, Console, print_table
from toolcrib.cli.content import Block, lines_of
from toolcrib.cli.failures import OK, FailedCall, exit_code
from toolcrib.cli.invoke import Options, arg, as_json, command, in_profile
from toolcrib.cli.opening import discover_unasked, open_window, wait_with_status
from toolcrib.core.access import Decision, decided_by
from toolcrib.core.offers import OfferKind, RequestKind
from toolcrib.core.requests import Result
from toolcrib.crib.window import ProfileView
from toolcrib.server.views.offers import listed_offer

RESOURCE_COLUMNS = (Column("URI", styles=("bold",)), Column("TYPE"), Column("DESCRIPTION", flexible=True))
PROMPT_COLUMNS = (Column("PROMPT", styles=("bold",)), Column("ARGUMENTS"), Column("DESCRIPTION", flexible=True))
RESOURCES = (OfferKind.RESOURCE, OfferKind.TEMPLATE)


@command(
    arg("--server", metavar="NAME", help="only those of this server"),
    in_profile("only those of this profile"),
    arg("--cached", action="store_true", help="only what is known already; start nothing"),
    as_json("the list"),
    examples="""\
examples:
  toolcrib resources ls
  toolcrib resources ls --server docs --json | jq -r '.[].uri'""",
)
async def run_ls(options: Options, console: Console) -> None:
    """List the resources, and the templates of many; servers nobody has asked yet are asked first."""
    await list_offers(options, console, RESOURCES, "resources")


async def list_offers(options: Options, console: Console, kinds: Sequence[OfferKind], what: str) -> None:
    """Print what there is of these kinds."""
    async with open_window(options, console) as window:
        if not options.cached:
            await discover_unasked(window.crib, console)
        others = window.catalog.others.values()
        routes = [route for route in others if route.offer.kind in kinds and options.server in (None, route.server)]
        if options.json:
            console.print_json([listed_offer(route) for route in routes])
        elif routes:
            is_prompt = kinds == (OfferKind.PROMPT,)
            print_table(console, PROMPT_COLUMNS if is_prompt else RESOURCE_COLUMNS, [_row(route) for route in routes])
        else:
            console.say(f"No server offers {what}.", "dim")


def _row(route: Route) -> tuple[str, str, str]:
    about = listed_offer(route)
    first = next((line for line in (about.description or about.title).splitlines() if line.strip()), "")
    shown = f"(in quarantine: {route.held}; toolcrib diff {shlex.quote(route.reach.key)})" if route.held else first
    if decided_by(route.policy) is Decision.DENIED:
        shown = f"(denied) {shown}".rstrip()
    if route.offer.kind is not OfferKind.PROMPT:
        return route.uri, about.mime_type or "", shown
    return route.name, " ".join(one.name if one.required else f"[{one.name}]" for one in about.arguments or ()), shown


@command(
    arg("uri", metavar="URI", help="as `toolcrib resources ls` shows it, a template with its parts filled in"),
    arg("--save", type=Path, metavar="DIR", help="write what is no text to this folder"),
    in_profile("read it as this profile shows it"),
    as_json("the whole result"),
    examples="""\
examples:
  toolcrib resources read docs://guides/start.md
  toolcrib resources read image://photos/42 --save .""",
)
async def run_read(options: Options, console: Console) -> int:
    """Read a resource; its text goes to stdout as it is."""
    async with open_window(options, console) as window:
        await discover_unasked(window.crib, console)
        name = window.crib.resource_name(options.uri)
        result = await ask_for(window, console, name, {}, RequestKind.READ)
        if options.json or result.error is not None:
            return finish(result, options, console)
        parts = [part for part in result.mcp.get("contents", ()) if isinstance(part, dict)]
        blocks: list[Block] = [{"type": "resource", "resource": part} for part in parts]
        for text in lines_of(blocks, options.save, options.uri.rpartition("/")[2] or "resource"):
            console.print_foreign(text)
        return OK


async def ask_for(
    window: ProfileView, console: Console, name: str, arguments: dict[str, object], kind: RequestKind
) -> Result:
    """Read a resource or get a prompt; a person at the terminal may be asked first."""
    attach_terminal(console, window.crib.desk.attach)
    request = window.request(name, arguments, kind=kind)
    return await wait_with_status(console, window.run(request), f"asking for {name}")


def finish(result: Result, options: Options, console: Console) -> int:
    """With ``--json`` the result is on stdout whatever it is; a person is told of a failure."""
    if options.json:
        console.print_json(result.mcp if result.error is None else {"error": result.error})
    if result.error is None:
        return OK
    if options.json:
        return exit_code(result.error.code, result.error.details)
    raise FailedCall(result.error.code, result.error.message, result.error.details)
