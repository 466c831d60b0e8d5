"""``toolcrib kb show``: one document, whole or in part."""

import re
from typing import Any

from toolcrib.core.knowledge import document_id
from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import OK, NotFound, UsageError
from toolcrib.doors.cli.invoke import Options, Parser, add_common, add_json
from toolcrib.doors.cli.knowledge import open_kb, tools_of
from toolcrib.doors.cli.running import run_once
from toolcrib.knowledge.library import Library

EVERYTHING = 200_000_000
EXAMPLES = """\
examples:
  toolcrib kb show 3f2a9c1d77e0b1aa --lines 10-40
  toolcrib kb show toolcrib/README.md
  toolcrib kb show 3f2a9c1d77e0b1aa-4-9be01c22        (a passage with its neighbours)"""


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("document", metavar="DOCUMENT", help="a document's id or source, or the id of a passage")
    for unit in ("lines", "pages", "characters"):
        parser.add_argument(f"--{unit}", metavar="A-B", help=f"only these {unit}")
    parser.add_argument("--heading", metavar="TITLE", help="only the part under this heading")
    add_json(parser, "the document and what is known of it")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """Print the text."""
    return run_once(_show(options, console))


async def _show(options: Options, console: Console) -> int:
    async with open_kb(options) as library:
        wanted = await _wanted(library, options.document)
        part = {"range": _range(options), "heading": options.heading, "max_characters": EVERYTHING}
        shown = await tools_of(library).get_document(wanted | part)
    if options.json:
        console.print_json(shown)
    else:
        console.print_foreign(shown["content"])
    return OK


async def _wanted(library: Library, name: str) -> dict[str, Any]:
    """By id, by passage, or by the source in whichever collection."""
    if re.fullmatch(r"[0-9a-f]{16}-\d+-\w+", name):
        return {"chunk_id": name}
    candidates = [name, *(document_id(each.id, name) for each in await library.store.collections())]
    for candidate in candidates:
        if await library.store.document(candidate) is not None:
            return {"document_id": candidate}
    raise NotFound(f"There is no document {name!r}.", hint="`toolcrib kb ls COLLECTION` names them.")


def _range(options: Options) -> dict[str, Any] | None:
    for unit in ("lines", "pages", "characters"):
        if written := getattr(options, unit):
            match = re.fullmatch(r"(\d+)(?:-(\d+)?)?", written)
            if match is None:
                raise UsageError(f"--{unit} {written!r} is no range.", hint="Write it like 10-40, or 10- to the end.")
            is_one = "-" not in written and unit != "characters"
            end = match[1] if is_one else match[2]
            return {"unit": unit, "start": int(match[1]), **({"end": int(end)} if end else {})}
    return None
