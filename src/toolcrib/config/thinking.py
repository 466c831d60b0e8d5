"""The model in the configuration: the one that chats, and that agents think with who are delegated to."""

from dataclasses import dataclass, field

MODEL_PROVIDERS = ("openai", "openai-responses", "anthropic", "ollama")


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The model of ``toolcrib chat`` and of agents that are delegated to."""

    provider: str = "openai"
    model: str = ""
    """Empty: there is none."""
    url: str = ""
    """Empty: the provider's own address."""
    key: str = field(default="", repr=False)
    """Empty: the provider's usual environment variable."""
    timeout_s: float = 120.0
    """How long it may be silent."""
    max_tokens: int = 4096
    """Of one answer."""
