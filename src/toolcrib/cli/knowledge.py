"""What the ``kb`` commands share: the tools they call, the library they look after, and how its contents are shown."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import msgspec

from toolcrib.cli.asking import attach_terminal
from toolcrib.cli.console import Console
from toolcrib.cli.failures import FailedCall, UsageError
from toolcrib.cli.invoke import Options, arg
from toolcrib.cli.logs import one_shot_log
from toolcrib.cli.opening import load_here, opened
from toolcrib.core.events import Emit, drop
from toolcrib.core.names import KB_PREFIX
from toolcrib.core.requests import SilentChannel
from toolcrib.crib.crib import Crib
from toolcrib.crib.knowledge import open_library
from toolcrib.knowledge.definitions import EVERY_COLLECTION
from toolcrib.schema.text import printable
from toolcrib.stores.paths import Environment

if TYPE_CHECKING:
    from toolcrib.knowledge.library import Library

DAY_S = 86_400.0
"""Whoever sits at a terminal ends a command that takes too long; so much is enough for all others."""
BAR = 20
PROGRESS = "notifications/progress"


class KnowledgeCalls:
    """The ``kb_*`` tools as a command calls them: through the same layers as everybody else."""

    def __init__(self, crib: Crib, console: Console, *, shows_progress: bool) -> None:
        self._crib, self.bar = crib, ProgressBar(console, is_shown=shows_progress)

    async def __call__(self, tool: str, **arguments: Any) -> Any:
        """What the tool answers; what is ``None`` is not given. Raises ``FailedCall``."""
        given = {name: value for name, value in arguments.items() if value is not None}
        try:
            result = await self._crib.call(f"{KB_PREFIX}{tool}", given, channel=self.bar, timeout_s=DAY_S)
        finally:
            self.bar.end()
        if result.error is not None:
            raise FailedCall(result.error.code, result.error.message, result.error.details)
        return result.structured


class ProgressBar(SilentChannel):
    """Shows how far a call is, where a person looks."""

    wants_progress = True

    def __init__(self, console: Console, *, is_shown: bool) -> None:
        self._console, self._is_shown = console, is_shown
        self.reached: Mapping[str, Any] = {}
        """What was told last."""

    def notify(self, method: str, params: bytes) -> None:
        """Take what is told of progress."""
        if method != PROGRESS:
            return
        self.reached = told = msgspec.json.decode(params, type=dict[str, Any])
        if self._is_shown:
            bar = ("█" * round(BAR * told["progress"] / max(told["total"], 1))).ljust(BAR, "·")
            self._console.status(f"{bar} {told['message']}")

    def end(self) -> None:
        """The call is over."""
        self._console.end_status()


@asynccontextmanager
async def open_tools(options: Options, console: Console, add_from: Sequence[str] = ()) -> AsyncIterator[KnowledgeCalls]:
    """The tools over the knowledge base that the command line points at, offered to agents or not.

    ``add_from`` is what was typed: nothing else may be read.
    """
    loaded = load_here(options)
    kb = replace(loaded.config.kb, enabled=True, add_from=tuple(add_from))
    loaded = replace(loaded, config=replace(loaded.config, kb=kb))
    async with opened(loaded, console, one_shot_log(options, console)) as crib:
        attach_terminal(console, crib.desk.attach)
        yield KnowledgeCalls(crib, console, shows_progress=not getattr(options, "json", False))


@asynccontextmanager
async def open_kb(options: Options, emit: Emit = drop) -> AsyncIterator["Library"]:
    """The library itself, for maintenance: workers, and a look at what is stored."""
    async with open_library(load_here(options).config, Environment(), emit) as library:
        yield library


WHERE = (
    arg("--collection", action="append", metavar="NAME", help="search only this one; may be repeated"),
    arg("--type", action="append", metavar="TYPE", help="only documents of this type, such as pdf"),
    arg("--since", metavar="DATE", help="only documents of this date or later, such as 2026-01-31"),
    arg("--until", metavar="DATE", help="only documents of this date or earlier"),
    arg("--meta", action="append", metavar="KEY=VALUE", help="only documents with this metadata"),
)
"""The options of every command that searches."""


async def where_to_search(kb: KnowledgeCalls, options: Options) -> dict[str, Any]:
    """What the command line says of where to look; without collections, all of them are meant."""
    known = [entry["collection_id"] for entry in (await kb("list_collections"))["collections"]]
    dates = {"start": options.since, "end": options.until and _end_of_day(options.until)}
    filters = {
        "document_types": options.type,
        "date_range": {name: date for name, date in dates.items() if date} or None,
        "metadata": read_pairs(options.meta) or None,
    }
    given = {name: value for name, value in filters.items() if value}
    every = [EVERY_COLLECTION] if known else []
    return {"collection_ids": options.collection or every, "top_k": options.number, "filters": given or None}


def _end_of_day(date: str) -> str:
    return f"{date}T23:59:59Z" if len(date) == len("2026-01-31") else date


def read_pairs(pairs: Sequence[str] | None) -> dict[str, Any]:
    """Metadata from ``key=value`` words; what reads as a JSON value is one."""
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


def print_location(console: Console, found: Mapping[str, Any]) -> str:
    """Where a passage stands, in one line."""
    place, source = found["place"], found["citation"]["source_url"]
    where = unquote(urlsplit(source).path) if source.startswith("file:") else source
    page, headings = place["page"], place["headings"]
    parts = [where, *([f"page {page}"] if page else []), *([" › ".join(headings)] if headings else [])]
    return console.paint(printable(", ".join(parts)), "dim")
