"""``toolcrib kb import``: what was exported comes in."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import OK, NotFound
from toolcrib.doors.cli.invoke import Options, Parser, add_common, add_json
from toolcrib.doors.cli.knowledge import make_vectors, open_kb
from toolcrib.doors.cli.running import run_once
from toolcrib.knowledge.transfer import import_lines

EXAMPLES = """\
examples:
  toolcrib kb import handbook.jsonl
  gunzip < all.jsonl.gz | toolcrib kb import -"""


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("file", metavar="FILE", help="what `toolcrib kb export` wrote, or - for stdin")
    add_json(parser, "how many documents came in")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """Take the documents in and index them."""
    with _lines(options.file) as lines:
        return run_once(_import(options, console, lines))


@contextmanager
def _lines(file: str) -> Iterator[BinaryIO]:
    if file == "-":
        yield sys.stdin.buffer
    elif Path(file).is_file():
        with Path(file).open("rb") as lines:
            yield lines
    else:
        raise NotFound(f"There is no file {file!r}.", hint="Check the path.")


async def _import(options: Options, console: Console, lines: BinaryIO) -> int:
    async with open_kb(options) as library:
        count = await import_lines(library.store, library.embedders, lines)
        for collection in await library.store.incomplete():
            if trouble := await make_vectors(library, collection, console):
                console.say(f"{collection}: found by words alone until its vectors are made: {trouble}", "yellow")
    if options.json:
        console.print_json({"documents": count})
    else:
        console.print(f"{count} documents came in.")
    return OK
