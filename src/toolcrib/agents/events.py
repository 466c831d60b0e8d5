"""What an agent tells of its work."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from toolcrib.models.talk import ToolAnswer, Usage


@dataclass(frozen=True, slots=True)
class Said:
    """New words of the model."""

    text: str


@dataclass(frozen=True, slots=True)
class Started:
    """A tool is called."""

    id: str
    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Finished:
    """A tool has answered."""

    id: str
    tool: str
    answer: ToolAnswer
    seconds: float


@dataclass(frozen=True, slots=True)
class Done:
    """The question is answered, or a limit was reached."""

    text: str
    """The model's last words."""
    reason: str
    """``end``, or what ended it before: ``turns``, ``budget``, ``length``, ``refusal``."""
    turns: int
    usage: Usage


AgentEvent: TypeAlias = Said | Started | Finished | Done
