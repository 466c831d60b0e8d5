"""``toolcrib kb embed``: who makes a collection's vectors, and those that are missing are made."""

from toolcrib.core.errors import EmbedderUnavailable
from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import OK
from toolcrib.doors.cli.invoke import Options, Parser, add_common, add_json
from toolcrib.doors.cli.knowledge import make_vectors, open_kb
from toolcrib.doors.cli.running import run_once
from toolcrib.knowledge.fill import choose_embedder, find_collection
from toolcrib.knowledge.library import Library

EXAMPLES = """\
examples:
  toolcrib kb embed handbook --embedder better
  toolcrib kb embed handbook --embedder better --later     (a running toolcrib makes them)
  toolcrib kb embed handbook                               (goes on with what is missing)"""


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("collection", metavar="COLLECTION")
    parser.add_argument("--embedder", default="", metavar="NAME", help="bundled, none, or one of [kb.embedders]")
    parser.add_argument("--again", action="store_true", help="make all vectors anew, even by the same model")
    parser.add_argument("--later", action="store_true", help="only note it; a running toolcrib makes them")
    add_json(parser, "what the collection has then")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """The old vectors answer until the new ones are complete; an interrupted run goes on where it was."""
    return run_once(_embed(options, console))


async def _embed(options: Options, console: Console) -> int:
    async with open_kb(options) as library:
        await _choose(library, options)
        trouble = "" if options.later else await make_vectors(library, options.collection, console)
        if trouble:
            raise EmbedderUnavailable(
                f"Not all vectors of {options.collection!r} are made: {trouble}",
                hint="What was made stays; run it again to go on.",
            )
        await _tell(library, options, console)
    return OK


async def _choose(library: Library, options: Options) -> None:
    known = await find_collection(library.store, options.collection)
    if options.embedder or options.again:
        name = options.embedder or (known.coming or known.embedding).name or library.embedders.default
        await choose_embedder(library.store, library.embedders, known.id, name, again=options.again)


async def _tell(library: Library, options: Options, console: Console) -> None:
    known = await find_collection(library.store, options.collection)
    held = await library.store.counts(known.id)
    coming = known.coming
    if options.json:
        shown = {"collection": known.id, "embedder_name": known.embedder_name, "embedder": known.embedder}
        more = {"dimensions": known.dimensions, "passages": held.passages, "coming": coming.name if coming else None}
        console.print_json(shown | more)
    elif coming is not None:
        console.print(f"{known.id}: {coming.name} will make its {held.passages} vectors.")
    elif known.embedder:
        made = f"{known.embedder_name} ({known.embedder}, {known.dimensions} numbers each)"
        console.print(f"{known.id}: {held.passages} passages with vectors by {made}.")
    else:
        console.print(f"{known.id}: {held.passages} passages without vectors; words alone find them.")
