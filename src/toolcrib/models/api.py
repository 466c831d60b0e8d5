"""What is particular to one model API: where it is, what is sent, and how an answer is read. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from toolcrib.models.talk import Reply, Request

Event = Mapping[str, Any]


class Reader(Protocol):
    """Reads one answer, as it streams in or as a whole."""

    def feed(self, event: Event) -> str:
        """Take one event of a stream; the new words in it."""

    def whole(self, document: Event) -> None:
        """Take an answer that was not streamed."""

    def reply(self) -> Reply:
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
    body: Callable[[str, Request], dict[str, Any]]
    """From the model's name and the request."""
    reader: Callable[[], Reader]
    is_lines: bool = False
    """One JSON document per line instead of server-sent events."""


def bearer(key: str) -> Mapping[str, str]:
    """The usual header."""
    return {"authorization": f"Bearer {key}"} if key else {}
