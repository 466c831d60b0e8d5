"""``toolcrib kb ls``: the collections, or the documents of one."""

from toolcrib.core.knowledge import Document
from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import OK
from toolcrib.doors.cli.invoke import Options, Parser, add_common, add_json
from toolcrib.doors.cli.knowledge import document_entry, open_kb, tools_of
from toolcrib.doors.cli.running import run_once
from toolcrib.doors.cli.table import Column, print_table
from toolcrib.knowledge.index import check_collections
from toolcrib.knowledge.library import Library

COLLECTIONS = (
    Column("COLLECTION", styles=("bold",)),
    Column("DOCUMENTS", right=True),
    Column("PASSAGES", right=True),
    Column("DESCRIPTION", flexible=True),
)
DOCUMENTS = (
    Column("DOCUMENT", styles=("dim",)),
    Column("TYPE"),
    Column("DATE"),
    Column("TITLE", styles=("bold",)),
    Column("SOURCE", flexible=True),
)


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("collection", nargs="?", metavar="COLLECTION", help="list its documents")
    add_json(parser, "the list")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """List what there is."""
    return run_once(_list(options, console))


async def _list(options: Options, console: Console) -> int:
    async with open_kb(options) as library:
        if options.collection is None:
            await _collections(library, options, console)
            return OK
        await check_collections(library.store, [options.collection])
        documents = await library.store.documents(options.collection)
    if options.json:
        console.print_json([document_entry(document) for document in documents])
    elif documents:
        print_table(console, DOCUMENTS, [_row(document) for document in documents])
    else:
        console.say("It is empty.")
    return OK


def _row(document: Document) -> tuple[str, ...]:
    return document.id, document.type, document.date[:10], document.title, document.source


async def _collections(library: Library, options: Options, console: Console) -> None:
    listed = (await tools_of(library).list_collections({}))["collections"]
    if options.json:
        console.print_json(listed)
        return
    if listed:
        rows = [(e["collection_id"], str(e["documents"]), str(e["passages"]), e["description"]) for e in listed]
        print_table(console, COLLECTIONS, rows)
    console.say("Add your own: toolcrib kb add PATH --collection NAME", "dim")
