"""What is particular to one model API: where it is, what is sent, and how an answer is read. Pure."""

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from toolcrib.core.errors import ProtocolError, SourceUnavailable
from toolcrib.models.talk import ModelReply, ModelRequest

Event = Mapping[str, Any]


class AnswerReader(Protocol):
    """Reads one answer, as it streams in or as a whole."""

    def feed(self, event: Event) -> str:
        """Take one event of a stream; the new words in it."""

    def whole(self, document: Event) -> None:
        """Take an answer that was not streamed."""

    def reply(self) -> ModelReply:
        """The model's turn, from all that has come; what is incomplete is a tool call with a problem."""


@dataclass(frozen=True, slots=True)
class Api:
    """One API."""

    name: str
    dialect: str
    """How it wants its tools: a name in ``schema.dialects``."""
    base_url: str
    path: str
    headers: Callable[[str], Mapping[str, str]]
    """From the key."""
    body: Callable[[str, ModelRequest], dict[str, Any]]
    """From the model's name and the request."""
    reader: Callable[[], AnswerReader]
    is_lines: bool = False
    """One JSON document per line instead of server-sent events."""


def bearer(key: str) -> Mapping[str, str]:
    """The usual header."""
    return {"authorization": f"Bearer {key}"} if key else {}


LINE_MAX = 4_000_000


class Lines:
    """Bytes as they arrive, as the JSON texts in them: lines, or the ``data:`` of server-sent events."""

    def __init__(self, *, is_lines: bool) -> None:
        self._is_lines = is_lines
        self._rest = b""

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """The documents that are complete now."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if len(self._rest) > LINE_MAX:
            raise ProtocolError(f"The model's server sent a line of more than {LINE_MAX} bytes.")
        for line in lines:
            text = line.strip() if self._is_lines else line.strip().removeprefix(b"data:").strip()
            if text.startswith(b"{") and (self._is_lines or line.startswith(b"data:")):
                yield text


class Model(Protocol):
    """Whoever continues a conversation."""

    @property
    def name(self) -> str:
        """Provider and model, for people."""

    @property
    def api(self) -> Api:
        """How it is spoken to."""

    def ask(self, request: ModelRequest) -> AsyncGenerator[str | ModelReply, None]:
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
