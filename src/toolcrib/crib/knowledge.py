"""From configuration to the knowledge base as a source. Nothing is opened or imported before it is first used."""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from toolcrib.config.model import DEFAULT, Config
from toolcrib.config.sections import KbConfig
from toolcrib.core.events import Emit, drop
from toolcrib.core.offers import Tool
from toolcrib.crib.backend import find_backend
from toolcrib.crib.sources import SourceMaker
from toolcrib.isolate.worker import Workers
from toolcrib.knowledge.source import Declared, KnowledgeSource, Look
from toolcrib.sources.native.functions import define
from toolcrib.sources.native.source import NativeSource
from toolcrib.stores.local import Backend
from toolcrib.stores.paths import Environment, for_network

if TYPE_CHECKING:
    from toolcrib.knowledge.library import Library
    from toolcrib.knowledge.tools import KnowledgeTools


LOOK_EVERY_S = 30.0


class Holdings:
    """Whether something was put into the knowledge base: asked again when its file changed, or after a while where it
    is in no file."""

    def __init__(self, backend: Backend, clock: Callable[[], float] = time.monotonic) -> None:
        self._backend, self._clock = backend, clock
        self._seen: object = None
        self._holds = False

    async def __call__(self, is_due: bool = False) -> bool:
        """Look, if there may be something new."""
        seen = self._state()
        if is_due or seen != self._seen:
            self._seen, self._holds = seen, await self._backend.has_documents()
        return self._holds

    def _state(self) -> object:
        path = self._backend.knowledge_file()
        if path is None:
            return self._clock() // LOOK_EVERY_S
        return [_stamp(place) for place in (path, path.with_name(f"{path.name}-wal"))]


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


def wants_listed(config: Config) -> bool | None:
    """Whether the tools are to be listed; ``None``: once there is something to search."""
    if config.kb.expose != "auto":
        return config.kb.expose == "always"
    return None if config.origins.get("kb.enabled") == DEFAULT else True


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


def look_of(config: Config, backend: Backend) -> Look | None:
    """What decides whether the tools are listed; ``None`` where they always are."""
    wanted = wants_listed(config)
    if wanted:
        return None
    return Holdings(backend) if wanted is None else _never


async def _never(is_due: bool) -> bool:
    del is_due
    return False


def kb_tools(config: Config) -> list[Tool]:
    """The definitions of the ``kb_*`` tools that a list has in any case, for a catalogue that calls nothing."""
    listed = config.kb.enabled and wants_listed(config)
    return list(make_knowledge(config.kb, Environment()).listing.tools) if listed else []


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
