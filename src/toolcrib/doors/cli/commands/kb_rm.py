"""``toolcrib kb rm``: a collection, or documents of one, leave the knowledge base."""

from collections.abc import Sequence
from pathlib import Path

from toolcrib.core.knowledge import Change, Document
from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import OK, NotFound
from toolcrib.doors.cli.invoke import Options, Parser, add_common, add_json
from toolcrib.doors.cli.knowledge import open_kb
from toolcrib.doors.cli.running import run_once
from toolcrib.knowledge.compact import compact
from toolcrib.knowledge.index import check_collections
from toolcrib.knowledge.library import Library

EXAMPLES = """\
examples:
  toolcrib kb rm handbook
  toolcrib kb rm handbook 3f2a9c1d77e0b1aa docs/old/"""


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("collection", metavar="COLLECTION")
    parser.add_argument("documents", nargs="*", metavar="DOCUMENT", help="ids, files, folders; without any, all of it")
    add_json(parser, "how many documents left")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """Take them out; files are never touched."""
    return run_once(_remove(options, console))


async def _remove(options: Options, console: Console) -> int:
    async with open_kb(options) as library:
        await check_collections(library.store, [options.collection])
        count = await _documents(library, options) if options.documents else await _whole(library, options)
    if options.json:
        console.print_json({"collection": options.collection, "removed": count})
    else:
        console.print(f"{count} documents left {options.collection}. No file was touched.")
    return OK


async def _whole(library: Library, options: Options) -> int:
    count = len(await library.store.documents(options.collection))
    await library.store.remove_collection(options.collection)
    return count


async def _documents(library: Library, options: Options) -> int:
    known = await library.store.documents(options.collection)
    chosen: dict[str, None] = {}
    for name in options.documents:
        found = _meant(known, name)
        if not found:
            raise NotFound(f"There is no document {name!r} in {options.collection!r}.", hint="See `toolcrib kb ls`.")
        chosen |= dict.fromkeys(found)
    await library.store.apply(Change(options.collection, removals=tuple(chosen)))
    await compact(library.store, options.collection, drop_dead=True)
    return len(chosen)


def _meant(known: Sequence[Document], name: str) -> list[str]:
    path = str(Path(name).expanduser().resolve())
    return [
        document.id
        for document in known
        if document.id == name
        or document.source in (name, path)
        or document.source.startswith((f"{path}/", f"{name.rstrip('/')}/"))
    ]
