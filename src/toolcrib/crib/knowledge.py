"""From configuration to the knowledge base as a source. Nothing is opened or imported before it is first used."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from toolcrib.config.model import Config
from toolcrib.config.sections import KbConfig
from toolcrib.core.events import Emit, drop
from toolcrib.core.offers import Tool
from toolcrib.crib.backend import find_backend
from toolcrib.crib.sources import SourceMaker
from toolcrib.isolate.worker import Workers
from toolcrib.knowledge.source import Declared, KnowledgeSource
from toolcrib.sources.native.functions import define
from toolcrib.sources.native.source import NativeSource
from toolcrib.stores.local import Backend
from toolcrib.stores.paths import Environment, for_network

if TYPE_CHECKING:
    from toolcrib.knowledge.library import Library
    from toolcrib.knowledge.tools import KnowledgeTools


def make_knowledge(
    config: KbConfig,
    around: Environment,
    backend: Backend | None = None,
    workers: Callable[[], Workers] | None = None,
    emit: Emit = drop,
    *,
    fills: bool = True,
) -> KnowledgeSource:
    """The knowledge base of a configuration; with ``fills``, missing vectors are made while nobody waits for them."""

    def load() -> "KnowledgeTools":
        from toolcrib.crib import library  # with numpy and the rest of the room: only for those who use it

        make = partial(library.make_library, config, around, workers, backend, emit)
        return library.make_tools(config, around, make, fills=fills)

    def offer(declared: Sequence[Declared]) -> NativeSource:
        return NativeSource([define(function, **options) for function, options in declared], emit=emit)

    return KnowledgeSource(load, offer)


def kb_tools(config: KbConfig) -> list[Tool]:
    """The definitions of the ``kb.*`` tools, for a catalogue that calls nothing."""
    return list(make_knowledge(config, Environment()).listing.tools)


@asynccontextmanager
async def open_library(config: Config, around: Environment, emit: Emit = drop) -> AsyncIterator["Library"]:
    """The library itself, for maintenance: not for what a caller wants of the documents."""
    from toolcrib.crib import library

    around = for_network(around, config)
    maker = SourceMaker(config, around, emit)
    async with AsyncExitStack() as closing:
        closing.push_async_callback(maker.close)
        made = library.make_library(config.kb, around, maker.workers, find_backend(config, around), emit)
        closing.push_async_callback(made.close)
        yield await made.open()
