"""Sub-agents: an errand with its own tools and budget goes out, an answer with a trace comes back.

Whoever has a model implements ``SubAgents``; the tools it may use, and how often, are decided before it sees them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from toolcrib.core.access import Caller
from toolcrib.core.call import BackChannel, ToolResult
from toolcrib.core.tool import Tool


@dataclass(frozen=True, slots=True)
class Budget:
    """The most a sub-agent may use."""

    turns: int = 20
    """Answers of its model."""
    calls: int = 50
    """Calls of tools."""
    tokens: int = 200_000
    """What goes into its model and comes out, all together."""
    seconds: float = 300.0


@dataclass(frozen=True, slots=True)
class Errand:
    """What a sub-agent is sent to do."""

    task: str
    context: str = ""
    """What it has to know, and cannot find out."""
    budget: Budget = Budget()


@dataclass(frozen=True, slots=True)
class Spent:
    """What a sub-agent used."""

    turns: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """What a sub-agent brings back."""

    answer: str
    is_complete: bool = True
    """Whether it came to an end by itself, not because its budget did."""
    spent: Spent = Spent()
    model: str = ""


@dataclass(frozen=True, slots=True)
class UsedTool:
    """One call that a sub-agent made."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    success: bool = True
    result: str = ""
    """The beginning of what came of it."""
    duration_ms: int = 0


class ToolUse(Protocol):
    """The tools of one sub-agent; a call beyond its budget fails like any other."""

    @property
    def tools(self) -> Sequence[Tool]:
        """What it may use, by exposed names."""

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Use one; failure is a result."""


class SubAgents(Protocol):
    """Whoever can send a sub-agent on an errand."""

    async def run(self, errand: Errand, use: ToolUse) -> Report:
        """Carry out the errand within its budget of turns and tokens; calls and time are watched over outside."""


class Tooling(Protocol):
    """The tools of everybody; a Crib is one."""

    async def tools(self, *, caller: Caller) -> list[Any]:
        """What a caller may use."""

    async def call(
        self, name: str, arguments: Mapping[str, Any] | None, *, caller: Caller, channel: BackChannel
    ) -> ToolResult:
        """Use one of them, as that caller."""
