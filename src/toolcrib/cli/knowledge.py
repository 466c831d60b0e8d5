"""What the ``kb`` commands share: the library they work with, and how its contents are shown."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from toolcrib.cli.console import Console
from toolcrib.cli.failures import UsageError
from toolcrib.cli.invoke import Options, Parser
from toolcrib.cli.opening import load_here
from toolcrib.config.references import Environment
from toolcrib.core.errors import EmbedderUnavailable
from toolcrib.core.knowledge import DocumentInfo
from toolcrib.crib.knowledge import make_answerer, open_library
from toolcrib.knowledge.answer import Answerer
from toolcrib.knowledge.fill import Filling
from toolcrib.knowledge.index import check_collections
from toolcrib.knowledge.library import Library
from toolcrib.knowledge.retrieve import Search, read_filter
from toolcrib.knowledge.tools import KnowledgeTools
from toolcrib.schema.text import printable


@asynccontextmanager
async def open_kb(options: Options) -> AsyncIterator[Library]:
    """The library of the configuration the command line points at."""
    async with open_library(load_here(options).config, Environment()) as library:
        yield library


def answerer(options: Options) -> Answerer:
    """Who writes answers here."""
    return make_answerer(load_here(options).config.kb, Environment())


async def make_vectors(library: Library, collection: str, console: Console) -> str:
    """Make the vectors that are missing, and show how far it is; why it cannot be done, or nothing."""
    try:
        await library.fill(collection, lambda made: console.status(_filling(made)))
    except EmbedderUnavailable as error:
        return str(error)
    finally:
        console.end_status()
    return ""


def _filling(filling: Filling) -> str:
    return f"{filling.collection}: {filling.done} of {filling.total} passages have vectors, {filling.percent} %"


def tools_of(library: Library) -> KnowledgeTools:
    """The tools over a library that is open already."""

    async def opened() -> Library:
        return library

    return KnowledgeTools(opened, Answerer)


def add_where(parser: Parser) -> None:
    """The options of every command that searches."""
    parser.add_argument("--collection", action="append", metavar="NAME", help="search only this one; may be repeated")
    parser.add_argument("--type", action="append", metavar="TYPE", help="only documents of this type, such as pdf")
    parser.add_argument("--since", metavar="DATE", help="only documents of this date or later, such as 2026-01-31")
    parser.add_argument("--until", metavar="DATE", help="only documents of this date or earlier")
    parser.add_argument("--meta", action="append", metavar="KEY=VALUE", help="only documents with this metadata")


async def search_of(library: Library, options: Options, words: Sequence[str]) -> Search:
    """The search that the command line asks for; without collections, all of them are meant."""
    known = [collection.id for collection in await library.store.collections()]
    chosen = options.collection or known
    await check_collections(library.store, chosen)
    filters = {
        "document_types": options.type or [],
        "date_range": {"start": options.since, "end": options.until and _end_of_day(options.until)},
        "metadata": read_pairs(options.meta),
    }
    return Search(" ".join(words), tuple(chosen), options.number, read_filter(filters))


def _end_of_day(date: str) -> str:
    return f"{date}T23:59:59Z" if len(date) == len("2026-01-31") else date


def read_pairs(pairs: Sequence[str] | None) -> dict[str, Any]:
    """Metadata from ``key=value`` words; what reads as a JSON value is one."""
    import msgspec

    found: dict[str, Any] = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise UsageError(f"{pair!r} is not KEY=VALUE.", hint="Write it like --meta team=docs.")
        try:
            found[key] = msgspec.json.decode(value)
        except msgspec.DecodeError:
            found[key] = value
    return found


def document_entry(document: DocumentInfo) -> Mapping[str, Any]:
    """A document for programs."""
    return {
        "document_id": document.id,
        "source": document.source,
        "title": document.title,
        "type": document.type,
        "date": document.date or None,
        "licence": document.licence,
        "version": document.version,
        "metadata": document.metadata,
        "bytes": document.stamp.size,
        "added": document.added,
    }


def print_location(console: Console, document: DocumentInfo, page: int | None, headings: Sequence[str]) -> str:
    """Where something stands, in one line."""
    parts = [document.source, *([f"page {page}"] if page else []), *([" › ".join(headings)] if headings else [])]
    return console.paint(printable(", ".join(parts)), "dim")
