"""From configuration to the library behind the ``kb_*`` tools, with its embedders and whoever writes answers.

Imports all of the knowledge base, numpy included: ``crib/knowledge`` does not import this before it is needed.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

from toolcrib.config.model import Config
from toolcrib.config.references import resolve
from toolcrib.config.sections import EmbedderConfig, KbConfig
from toolcrib.core.errors import ConfigError, EmbedderUnavailable
from toolcrib.core.events import Emit, drop
from toolcrib.core.network import Network
from toolcrib.crib.backend import find_backend
from toolcrib.isolate.worker import Workers
from toolcrib.knowledge.answer import Answerer
from toolcrib.knowledge.embedding import Embedders, InProcess, Prefixes, TextEmbedder
from toolcrib.knowledge.endpoints import Endpoint, EndpointEmbedder
from toolcrib.knowledge.library import Library, own_documents
from toolcrib.knowledge.onnx_model import OnnxEmbedder
from toolcrib.knowledge.parse.reading import Parsers
from toolcrib.knowledge.survey import AllowedFolders
from toolcrib.knowledge.tools import KnowledgeTools
from toolcrib.models.api import ModelSettings
from toolcrib.models.http_model import HttpModel
from toolcrib.search.model import bundled
from toolcrib.search.vectors import Embedder
from toolcrib.sources.native.running import report_progress
from toolcrib.stores.local import Backend
from toolcrib.stores.paths import Environment, upload_directory
from toolcrib.version import VERSION


def make_library(
    config: KbConfig,
    around: Environment,
    workers: Callable[[], Workers] | None = None,
    backend: Backend | None = None,
    emit: Emit = drop,
) -> Library:
    """The library that a configuration describes; to be opened and closed by the caller.

    Without ``workers``, foreign formats are not read.
    """
    own = own_documents(Path(__file__).parent.parent, VERSION) if config.docs else None
    store = (backend or find_backend(Config(kb=config), around)).knowledge()
    load = lru_cache(maxsize=1)(bundled)
    embedders = make_embedders(config, around, load)
    compare = (lambda: None) if config.embedder == "none" else load
    named = (Path(path).expanduser() for path in config.add_from)
    allowed = AllowedFolders(around.cwd, (*named, upload_directory(around.env)))
    library = Library(store, compare, own, Parsers(workers()) if workers else None, embedders, allowed)
    library.network, library.emit = Network.of(around.env), emit
    return library


def make_tools(config: KbConfig, around: Environment, make: Callable[[], Library], *, fills: bool) -> KnowledgeTools:
    """What answers the ``kb_*`` tools; ``make`` is called by the first of them."""
    return KnowledgeTools(make, partial(make_answerer, config, around), report_progress, fills=fills)


def make_embedders(config: KbConfig, around: Environment, load: Callable[[], Embedder] = bundled) -> Embedders:
    """All configured embedders; none is loaded yet."""
    makers: dict[str, Callable[[], TextEmbedder]] = {"bundled": lambda: InProcess(load())}
    for name, described in config.embedders.items():
        is_bundled = described.kind == "bundled"
        makers[name] = makers["bundled"] if is_bundled else partial(make_embedder, name, described, around)
    return Embedders(makers, config.embedder)


def make_embedder(name: str, described: EmbedderConfig, around: Environment) -> TextEmbedder:
    """One that is configured; a reference that leads nowhere keeps it from being used, and nothing else."""

    def read(key: str) -> str:
        return resolve(getattr(described, key), around.variables, field=f"kb.embedders.{name}.{key}")

    try:
        model, url, key, path = read("model"), read("url"), read("api_key"), read("path")
    except ConfigError as error:
        raise EmbedderUnavailable(f"The embedder {name!r}: {error.message}", hint=error.hint) from None
    prefixes = Prefixes(described.query_prefix, described.document_prefix)
    if described.kind == "onnx":
        folder = (around.cwd / Path(path).expanduser()).absolute()
        return OnnxEmbedder(name, folder, prefixes, described.batch, described.dimensions)
    endpoint = Endpoint(name, described.kind, model, url, key, described.dimensions, described.batch)
    network = Network.of(around.env)
    return EndpointEmbedder(replace(endpoint, timeout_s=described.timeout_s, prefixes=prefixes, network=network))


def make_answerer(config: KbConfig, around: Environment) -> Answerer:
    """What writes answers: the configured model, or nobody, for the best sentences of the documents."""
    if not config.model:
        return Answerer()

    def read(name: str) -> str:
        return resolve(getattr(config, name), around.variables, field=f"kb.{name}")

    settings = ModelSettings(config.provider, read("model"), read("url"), read("key"), config.timeout_s, "[kb]")
    return Answerer(HttpModel(settings, Network.of(around.env)))
