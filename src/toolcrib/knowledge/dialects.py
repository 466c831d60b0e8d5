"""How the HTTP APIs of language models are spoken: what is sent, and where the text is in what comes back. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from toolcrib.core.errors import ProtocolError

Provider = Literal["openai", "anthropic", "ollama"]
LINE_MAX = 1_000_000
PROVIDERS: tuple[Provider, ...] = ("openai", "anthropic", "ollama")


@dataclass(frozen=True, slots=True)
class Message:
    """One turn; ``role`` is ``system``, ``user`` or ``assistant``."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Dialect:
    """One API."""

    base_url: str
    path: str
    headers: Callable[[str], Mapping[str, str]]
    """From the key."""
    body: Callable[[str, Sequence[Message], int], dict[str, Any]]
    """From the model's name, the messages, and the most tokens to answer with."""
    text: Callable[[Mapping[str, Any]], str]
    """The new text in one event."""
    is_lines: bool = False
    """One JSON document per line instead of server-sent events."""


def _plain(messages: Sequence[Message]) -> list[dict[str, str]]:
    return [{"role": message.role, "content": message.text} for message in messages]


def _bearer(key: str) -> Mapping[str, str]:
    return {"authorization": f"Bearer {key}"} if key else {}


def _openai_body(model: str, messages: Sequence[Message], limit: int) -> dict[str, Any]:
    return {"model": model, "messages": _plain(messages), "max_tokens": limit, "temperature": 0, "stream": True}


def _openai_text(event: Mapping[str, Any]) -> str:
    choices = event.get("choices") or [{}]
    return str((choices[0].get("delta") or {}).get("content") or "")


def _anthropic_body(model: str, messages: Sequence[Message], limit: int) -> dict[str, Any]:
    said = "\n\n".join(message.text for message in messages if message.role == "system")
    turns = _plain([message for message in messages if message.role != "system"])
    return {"model": model, "system": said, "messages": turns, "max_tokens": limit, "temperature": 0, "stream": True}


def _anthropic_text(event: Mapping[str, Any]) -> str:
    return str((event.get("delta") or {}).get("text") or "")


def _ollama_body(model: str, messages: Sequence[Message], limit: int) -> dict[str, Any]:
    options = {"num_predict": limit, "temperature": 0}
    return {"model": model, "messages": _plain(messages), "options": options, "stream": True}


def _ollama_text(event: Mapping[str, Any]) -> str:
    return str((event.get("message") or {}).get("content") or "")


DIALECTS: Mapping[str, Dialect] = {
    "openai": Dialect("https://api.openai.com/v1", "/chat/completions", _bearer, _openai_body, _openai_text),
    "anthropic": Dialect(
        "https://api.anthropic.com/v1",
        "/messages",
        lambda key: {"x-api-key": key, "anthropic-version": "2023-06-01"},
        _anthropic_body,
        _anthropic_text,
    ),
    "ollama": Dialect("http://127.0.0.1:11434", "/api/chat", _bearer, _ollama_body, _ollama_text, is_lines=True),
}


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
