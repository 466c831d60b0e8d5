"""What is said between a program and a model, in no provider's words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec


class TextPart(msgspec.Struct, frozen=True):
    """Words."""

    text: str


@dataclass(frozen=True, slots=True)
class Picture:
    """An image."""

    mime: str
    data: str = field(repr=False)
    """In base64."""


class ToolRequest(msgspec.Struct, frozen=True):
    """A model's wish to use a tool."""

    id: str
    name: str
    """As the model knows it."""
    arguments: Mapping[str, Any] = {}
    problem: str = ""
    """Why it cannot be carried out: what came is cut off, or no JSON object."""


class ToolAnswer(msgspec.Struct, frozen=True):
    """What came of it."""

    id: str
    name: str
    parts: tuple["TextPart | Picture", ...] = ()
    is_error: bool = False

    @property
    def text(self) -> str:
        """Its words alone."""
        return "\n".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def pictures(self) -> list[Picture]:
        """Its images alone."""
        return [part for part in self.parts if isinstance(part, Picture)]


Part: TypeAlias = TextPart | Picture | ToolRequest | ToolAnswer


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn: the user's (``user``, also for what tools answered) or the model's (``assistant``)."""

    role: str
    parts: tuple[Part, ...]
    raw: Any = field(default=None, repr=False)
    """The model's own words as its API wrote them: they go back untouched, with all that we do not interpret."""
    spoken: str = ""
    """The API that ``raw`` belongs to."""

    @property
    def text(self) -> str:
        """Its words alone."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def uses(self) -> list[ToolRequest]:
        """The tools the model wants to use."""
        return [part for part in self.parts if isinstance(part, ToolRequest)]


def user(text: str) -> Turn:
    """What a person says."""
    return Turn("user", (TextPart(text),))


class TokenUsage(msgspec.Struct, frozen=True):
    """Tokens that were read and written."""

    input: int = 0
    output: int = 0
    cached: int = 0
    """Of those read, how many the provider had kept from before."""

    def __add__(self, other: "TokenUsage") -> "TokenUsage":
        return TokenUsage(self.input + other.input, self.output + other.output, self.cached + other.cached)

    @property
    def total(self) -> int:
        """All of them."""
        return self.input + self.output


class ModelReply(msgspec.Struct, frozen=True):
    """A model's whole turn."""

    turn: Turn
    stop: str = "end"
    """Why it stopped: ``end``, ``tools``, ``length``, ``refusal`` or the provider's own word; empty: it broke off."""
    usage: TokenUsage = TokenUsage()


class ModelRequest(msgspec.Struct, frozen=True):
    """What a model is asked."""

    turns: Sequence[Turn]
    system: str = ""
    tools: Sequence[Mapping[str, Any]] = ()
    """Definitions in the provider's own form."""
    max_tokens: int = 4096
    stream: bool = True
    extra: Mapping[str, Any] = {}
    """Further fields of the request, as the provider calls them (``temperature``)."""


def parse_use(use_id: str, name: str, written: str) -> ToolRequest:
    """A tool call from the arguments a model wrote; nothing at all stands for no arguments."""
    import msgspec

    try:
        arguments = msgspec.json.decode(written) if written.strip() else {}
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return ToolRequest(use_id, name, {}, f"its arguments are no complete JSON: {written[:200]!r}")
    if not isinstance(arguments, dict):
        return ToolRequest(use_id, name, {}, f"its arguments are no JSON object: {written[:200]!r}")
    return ToolRequest(use_id, name, arguments)
