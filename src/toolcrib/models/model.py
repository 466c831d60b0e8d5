"""A model to talk to: what is asked goes out, words come back as they are written, then the whole turn."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Protocol

from toolcrib.core.errors import SourceUnavailable
from toolcrib.models.api import Api
from toolcrib.models.talk import Reply, Request


class Model(Protocol):
    """Whoever continues a conversation."""

    @property
    def name(self) -> str:
        """Provider and model, for people."""

    @property
    def api(self) -> Api:
        """How it is spoken to."""

    def ask(self, request: Request) -> AsyncGenerator[str | Reply, None]:
        """The words of its turn in pieces, as far as it streams, and at last the turn itself."""


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Which model, where, and with what key; the key is shown nowhere."""

    provider: str
    model: str
    url: str = ""
    key: str = field(default="", repr=False)
    timeout_s: float = 60.0
    """How long it may be silent."""
    setting: str = "[model]"
    """Where it is configured, for whoever has to mend it."""


class ModelFailed(SourceUnavailable):
    """A model gave no answer, or broke off."""
