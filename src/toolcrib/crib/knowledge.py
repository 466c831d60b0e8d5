"""From configuration to the knowledge base: its tools for the catalogue, and the library that is opened behind them.

Nothing is opened or imported before a ``kb.*`` tool or command is used for the first time.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from toolcrib.config.model import Config
from toolcrib.config.references import resolve
from toolcrib.config.sections import EmbedderConfig, KbConfig
from toolcrib.core.errors import ConfigError, EmbedderUnavailable, UnreadableSource
from toolcrib.core.events import Emit, drop
from toolcrib.core.network import Network
from toolcrib.core.tool import Tool
from toolcrib.crib.backend import find_backend
from toolcrib.knowledge.tools import KnowledgeTools
from toolcrib.sources.native.functions import NativeTool, define
from toolcrib.stores.local import Backend
from toolcrib.stores.paths import Environment, for_network
from toolcrib.version import VERSION

if TYPE_CHECKING:
    from toolcrib.isolate.worker import Workers
    from toolcrib.knowledge.answer import Answerer
    from toolcrib.knowledge.embedding import Embedders, TextEmbedder
    from toolcrib.knowledge.ingest import ParseForeign
    from toolcrib.knowledge.library import Library
    from toolcrib.knowledge.parse.parsed import Parsed
    from toolcrib.knowledge.parse.reading import Parsers
    from toolcrib.search.vectors import Embedder


def kb_tools(config: KbConfig) -> list[Tool]:
    """The definitions of the ``kb.*`` tools, for a catalogue that calls nothing."""
    return [made.tool for made in LateLibrary(config, Environment()).tools()]


class LateLibrary:
    """The knowledge base of a configuration, opened when it is first needed."""

    def __init__(
        self,
        config: KbConfig,
        surroundings: Environment,
        backend: Backend | None = None,
        workers: "Callable[[], Workers] | None" = None,
        emit: Emit = drop,
    ) -> None:
        self._config, self._around, self._backend = config, surroundings, backend
        self._workers, self._emit = workers, emit
        self._library: Library | None = None
        self._parsers: Parsers | None = None
        self._opening = asyncio.Lock()
        self.fills_in_background = True
        """Whether vectors that are missing are made while nobody waits for them."""

    def tools(self) -> list[NativeTool]:
        """The ``kb.*`` tools, none of which has opened anything yet."""
        made = KnowledgeTools(self.open, self.answerer)
        reading = [define(tool, **options, security_level="read_only") for tool, options in made.reading()]
        return reading + [_define_change(tool, options) for tool, options in made.changing()]

    async def open(self) -> "Library":
        """The library; what could not be opened is tried again the next time."""
        async with self._opening:
            if self._library is None:
                library = make_library(self._config, self._around, self._parse, self._backend)
                library.emit = self._emit
                try:
                    await (library.fill_in_background() if self.fills_in_background else library.open())
                except BaseException:
                    await library.close()
                    raise
                self._library = library
        return self._library

    async def _parse(self, kind: str, content: bytes) -> "Parsed":
        """Foreign formats are parsed in workers, which are started for the first of them."""
        from toolcrib.knowledge.parse.reading import Parsers

        if self._workers is None:
            raise UnreadableSource(f"{kind} is not read here")
        if self._parsers is None:
            self._parsers = Parsers(self._workers())
        return await self._parsers(kind, content)

    def answerer(self) -> "Answerer":
        """Who writes answers, as configured."""
        return make_answerer(self._config, self._around)

    async def close(self) -> None:
        """Let go of the file, and of the workers."""
        if self._library is not None:
            await self._library.close()
        if self._parsers is not None:
            self._parsers.close()


def _define_change(function: Callable[..., object], options: dict[str, object]) -> NativeTool:
    """A tool that is told of its call, which tells who wants to hear of its progress."""
    named = {
        name: value for name, value in options.items() if name not in ("input_schema", "output_schema", "examples")
    }
    made = define(function, **named, security_level="write")
    written = define(_take_all, **options, security_level="write").tool
    return replace(made, tool=written)


def _take_all(arguments: dict[str, object]) -> None:
    """Only to have schemas and examples checked."""
    del arguments


def make_library(
    config: KbConfig,
    surroundings: Environment,
    parse_foreign: "ParseForeign | None" = None,
    backend: Backend | None = None,
) -> "Library":
    """The library that a configuration describes; to be opened and closed by the caller."""
    from toolcrib.knowledge.library import Library, own_documents, refuse_foreign
    from toolcrib.knowledge.survey import AllowedFolders

    own = own_documents(Path(__file__).parent.parent, VERSION) if config.docs else None
    store = (backend or find_backend(Config(kb=config), surroundings)).knowledge()
    load = lru_cache(maxsize=1)(load_bundled)
    embedders = make_embedders(config, surroundings, load)
    compare = (lambda: None) if config.embedder == "none" else load
    allowed = AllowedFolders(surroundings.cwd, tuple(Path(path).expanduser() for path in config.add_from))
    library = Library(store, compare, own, parse_foreign or refuse_foreign, embedders, allowed)
    library.network = Network.of(surroundings.env)
    return library


def load_bundled() -> "Embedder":
    """The embedder that comes with the package."""
    from toolcrib.search.model import bundled

    return bundled()


def make_embedders(
    config: KbConfig, surroundings: Environment, load: "Callable[[], Embedder]" = load_bundled
) -> "Embedders":
    """All configured embedders; none is loaded yet."""
    from toolcrib.knowledge.embedding import Embedders, InProcess

    makers: dict[str, Callable[[], TextEmbedder]] = {"bundled": lambda: InProcess(load())}
    for name, described in config.embedders.items():
        is_bundled = described.kind == "bundled"
        makers[name] = makers["bundled"] if is_bundled else partial(make_embedder, name, described, surroundings)
    return Embedders(makers, config.embedder)


def make_embedder(name: str, described: EmbedderConfig, surroundings: Environment) -> "TextEmbedder":
    """One that is configured; a reference that leads nowhere keeps it from being used, and nothing else."""
    from toolcrib.knowledge.embedding import Prefixes
    from toolcrib.knowledge.endpoints import Endpoint, EndpointEmbedder
    from toolcrib.knowledge.onnx_model import OnnxEmbedder

    def read(key: str) -> str:
        return resolve(getattr(described, key), surroundings.env, field=f"kb.embedders.{name}.{key}")

    try:
        model, url, key, path = read("model"), read("url"), read("api_key"), read("path")
    except ConfigError as error:
        raise EmbedderUnavailable(f"The embedder {name!r}: {error.message}", hint=error.hint) from None
    prefixes = Prefixes(described.query_prefix, described.document_prefix)
    if described.kind == "onnx":
        folder = (surroundings.cwd / Path(path).expanduser()).absolute()
        return OnnxEmbedder(name, folder, prefixes, described.batch, described.dimensions)
    endpoint = Endpoint(name, described.kind, model, url, key, described.dimensions, described.batch)
    network = Network.of(surroundings.env)
    return EndpointEmbedder(replace(endpoint, timeout_s=described.timeout_s, prefixes=prefixes, network=network))


def make_answerer(config: KbConfig, surroundings: Environment) -> "Answerer":
    """What writes answers: the configured model, or ``None`` for the best sentences of the documents."""
    from toolcrib.knowledge.answer import Answerer

    if not config.model:
        return Answerer()
    from toolcrib.models.api import ModelSettings
    from toolcrib.models.http_model import HttpModel

    def read(name: str) -> str:
        return resolve(getattr(config, name), surroundings.env, field=f"kb.{name}")

    settings = ModelSettings(config.provider, read("model"), read("url"), read("key"), config.timeout_s, "[kb]")
    return Answerer(HttpModel(settings, Network.of(surroundings.env)))


@asynccontextmanager
async def open_library(config: Config, surroundings: Environment) -> AsyncIterator["Library"]:
    """The library with all it takes to add documents: foreign formats are parsed in workers of their own."""
    from toolcrib.isolate.worker import Workers
    from toolcrib.knowledge.parse.reading import Parsers
    from toolcrib.sources.mcp.bounds import Isolator
    from toolcrib.transports.process.spawn import Spawner

    surroundings = for_network(surroundings, config)
    spawner = Spawner()
    bounds = Isolator(spawner, surroundings.env, config.isolation, VERSION)
    workers = Workers(spawner, bounds.host, bounds.prover, surroundings.env)
    parsers = Parsers(workers)
    library = make_library(config.kb, surroundings, parsers, find_backend(config, surroundings))
    try:
        yield await library.open()
    finally:
        await library.close()
        parsers.close()
        await spawner.close()
