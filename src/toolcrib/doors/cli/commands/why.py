"""``toolcrib why``: why a tool is here, missing, hidden, stale or renamed. Starts nothing."""

from toolcrib.catalog.explain import Explanation
from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import NOT_FOUND, OK
from toolcrib.doors.cli.invoke import Options, Parser, add_common, add_json, add_profile
from toolcrib.doors.cli.opening import open_window
from toolcrib.doors.cli.running import run_once
from toolcrib.doors.views.tools import explained
from toolcrib.schema.text import printable

STYLES = {
    "available": "green",
    "stale": "yellow",
    "hidden": "yellow",
    "renamed": "yellow",
    "disabled": "yellow",
    "not discovered": "cyan",
}


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("tool", metavar="TOOL", help="the name of a tool, whether it is there or not")
    add_profile(parser, "explain it within this profile")
    add_json(parser, "the explanation")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """Explain one name."""
    return run_once(_explain(options, console))


async def _explain(options: Options, console: Console) -> int:
    async with open_window(options, console) as window:
        story = window.explain(options.tool)
    if options.json:
        console.print_json(explained(story))
    else:
        _print(story, console)
    return NOT_FOUND if story.verdict == "missing" else OK


def _print(story: Explanation, console: Console) -> None:
    verdict = console.paint(story.verdict, "bold", STYLES.get(story.verdict, "red"))
    console.print(f"{printable(story.name)}: {verdict}")
    for reason in story.reasons:
        console.print(f"  {printable(reason)}")
    if story.todo:
        console.print(f"  → {printable(story.todo)}")
