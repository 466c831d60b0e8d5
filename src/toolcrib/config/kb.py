"""The knowledge base in the configuration: where it is, who makes its vectors, and who writes its answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field

BUILT_IN_EMBEDDERS = ("bundled", "none")
EMBEDDER_KINDS = ("bundled", "onnx", "openai", "ollama")


@dataclass(frozen=True, slots=True)
class EmbedderConfig:
    """One way to make vectors of documents; references stay references here."""

    kind: str
    model: str = ""
    url: str = ""
    """Empty: the provider's own address."""
    path: str = ""
    """The folder of an ONNX model."""
    api_key: str = field(default="", repr=False)
    dimensions: int = 0
    """Zero: as long as the model makes them."""
    query_prefix: str = ""
    document_prefix: str = ""
    batch: int = 0
    """How many texts are given at once; zero leaves it to the kind."""
    timeout_s: float = 30.0


@dataclass(frozen=True, slots=True)
class KbConfig:
    """The knowledge base: where it is, how it is searched, and who writes its answers."""

    enabled: bool = False
    """Whether the ``kb.*`` tools are in the catalogue; what comes from files has them unless it says no."""
    path: str = ""
    """Empty: ``kb.db`` in the user's state directory."""
    docs: bool = True
    """Whether toolcrib's own documentation is a collection of its own."""
    embedder: str = "bundled"
    """For new collections: what is built in, or a name out of ``embedders``."""
    embedders: Mapping[str, EmbedderConfig] = field(default_factory=dict)
    provider: str = "openai"
    model: str = ""
    """Empty: answers are made of the best sentences, without a model."""
    url: str = ""
    """Empty: the provider's own address."""
    key: str = field(default="", repr=False)
    timeout_s: float = 60.0
