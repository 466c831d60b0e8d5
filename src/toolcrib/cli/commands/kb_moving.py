"""``toolcrib kb export`` and ``import``: documents as JSON lines."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from toolcrib.cli.console import Console
from toolcrib.cli.entries import export_to
from toolcrib.cli.failures import OK, NotFound
from toolcrib.cli.invoke import Options, Parser, add_common, add_json
from toolcrib.cli.knowledge import make_vectors, open_kb
from toolcrib.cli.running import run_once
from toolcrib.knowledge.index import check_collections
from toolcrib.knowledge.transfer import export_lines, import_lines

EXPORT_EXAMPLES = """\
examples:
  toolcrib kb export handbook -o handbook.jsonl
  toolcrib kb export | gzip > all.jsonl.gz"""


def add_export_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("collections", nargs="*", metavar="COLLECTION", help="all of them if none is named")
    parser.add_argument("-o", "--output", metavar="FILE", help="write to this file, which only you may read")
    add_common(parser)


def run_export(options: Options, console: Console) -> int:
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


IMPORT_EXAMPLES = """\
examples:
  toolcrib kb import handbook.jsonl
  gunzip < all.jsonl.gz | toolcrib kb import -"""


def add_import_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("file", metavar="FILE", help="what `toolcrib kb export` wrote, or - for stdin")
    add_json(parser, "how many documents came in")
    add_common(parser)


def run_import(options: Options, console: Console) -> int:
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
