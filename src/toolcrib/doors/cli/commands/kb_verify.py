"""``toolcrib kb verify``: whether everything that was stored is there and fits together."""

from toolcrib.core.errors import DamagedIndex
from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import FAILURE, OK
from toolcrib.doors.cli.invoke import Options, Parser, add_common, add_json
from toolcrib.doors.cli.knowledge import open_kb
from toolcrib.doors.cli.running import run_once
from toolcrib.knowledge.library import Library


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("--repair", action="store_true", help="make a damaged index anew from the texts that are kept")
    add_json(parser, "what was found")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """Check the file, every passage, and every part of the index."""
    return run_once(_verify(options, console))


async def _verify(options: Options, console: Console) -> int:
    async with open_kb(options) as library:
        problems = await library.store.verify()
        damaged = await _damaged(library)
        if damaged and options.repair:
            await library.reindex(list(damaged))
            console.say(f"Made anew: the index of {', '.join(damaged)}.")
            damaged = await _damaged(library)
    problems += [f"{collection}: {reason}" for collection, reason in damaged.items()]
    if options.json:
        console.print_json({"ok": not problems, "problems": problems})
    else:
        for problem in problems:
            console.say(problem, "red")
        console.print("Something is wrong; see above." if problems else "Everything is there and fits together.")
    return FAILURE if problems else OK


async def _damaged(library: Library) -> dict[str, str]:
    """Collections with a part of the index that cannot be read, and why."""
    from toolcrib.search.hybrid import Segment

    found: dict[str, str] = {}
    for record in await library.store.segments():
        encoded = await library.store.segment_bytes(record.id)
        try:
            size = record.size if encoded is None else len(Segment.from_bytes(encoded))
        except DamagedIndex as error:
            found[record.collection] = str(error)
            continue
        if size != record.size:
            found[record.collection] = f"A part of its index has {size} passages instead of {record.size}."
    return found
