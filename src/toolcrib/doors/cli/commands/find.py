"""``toolcrib find``: the tools for a purpose, in plain words."""

from typing import Any

from toolcrib.catalog.entries import tool_entry
from toolcrib.catalog.formats import signature_of
from toolcrib.catalog.search import MOST, USUAL, Found
from toolcrib.crib import Crib
from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import NOT_FOUND, OK, UsageError
from toolcrib.doors.cli.invoke import Options, Parser, add_common, add_json, add_profile
from toolcrib.doors.cli.opening import discover_unasked, open_window
from toolcrib.doors.cli.running import run_once
from toolcrib.schema.text import printable

EXAMPLES = """\
examples:
  toolcrib find "what time is it in Tokyo"
  toolcrib find create an issue --limit 3
  toolcrib find rename a file --json | jq -r '.[0].name'"""


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("words", nargs="+", metavar="QUERY", help="what the tool is for")
    parser.add_argument("--limit", type=int, default=USUAL, metavar="N", help=f"how many at most [{USUAL}]")
    add_profile(parser, "only the tools of this profile")
    add_json(parser, "what was found, with scores,")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """Find tools; servers nobody has asked yet are asked first."""
    if not 1 <= options.limit <= MOST:
        raise UsageError(f"--limit must be a number from 1 to {MOST}.")
    return run_once(_find(options, console))


async def _find(options: Options, console: Console) -> int:
    async with open_window(options, console) as window:
        crib = window.crib
        await discover_unasked(crib, console)
        hits = await window.find(" ".join(options.words), options.limit)
        if options.json:
            console.print_json([_entry(crib, hit) for hit in hits])
        else:
            _show(hits, console)
        return OK if hits else NOT_FOUND


def _entry(crib: Crib, hit: Found) -> dict[str, Any]:
    entry = tool_entry(hit.route, crib.shelves.get(hit.route.server))
    return entry | {"score": hit.score, "signature": signature_of(hit.route)}


def _show(hits: list[Found], console: Console) -> None:
    for hit in hits:
        name, line = hit.route.name, printable(signature_of(hit.route))
        console.print(console.paint(name, "bold") + line.removeprefix(name))
    if not hits:
        console.say("No tool seems to do that. Try other words, or see `toolcrib ls`.", "dim")
