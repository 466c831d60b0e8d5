"""``toolcrib kb export``: documents as JSON lines."""

from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.exporting import export_to
from toolcrib.doors.cli.failures import OK
from toolcrib.doors.cli.invoke import Options, Parser, add_common
from toolcrib.doors.cli.knowledge import open_kb
from toolcrib.doors.cli.running import run_once
from toolcrib.knowledge.index import check_collections
from toolcrib.knowledge.transfer import export_lines

EXAMPLES = """\
examples:
  toolcrib kb export handbook -o handbook.jsonl
  toolcrib kb export | gzip > all.jsonl.gz"""


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("collections", nargs="*", metavar="COLLECTION", help="all of them if none is named")
    parser.add_argument("-o", "--output", metavar="FILE", help="write to this file, which only you may read")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """Write every document with its text; the index is made anew by `kb import`."""
    return run_once(_export(options, console))


async def _export(options: Options, console: Console) -> int:
    count = 0
    async with open_kb(options) as library:
        await check_collections(library.store, options.collections)
        chosen = options.collections or [collection.id for collection in await library.store.collections()]
        with export_to(options.output) as write:
            async for line in export_lines(library.store, chosen):
                write(line + b"\n")
                count += line.startswith(b'{"document"')
    if options.output:
        console.say(f"{count} documents written to {options.output}.")
    return OK
