"""What clients are shown of the catalogue, as frozen values: how much up front, and which parts under a name."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

ExposeMode = Literal["all", "search", "auto"]
EXPOSE_MODES: tuple[ExposeMode, ...] = ("all", "search", "auto")


@dataclass(frozen=True, slots=True)
class ExposeConfig:
    """How much of the catalogue MCP clients are shown up front."""

    mode: ExposeMode = "all"
    """``search``: the pinned tools, and three that find, describe and call the rest; ``auto``: beyond ``budget``."""
    budget: int = 10_000
    """Tokens, as far as they can be told without a model."""
    pinned: tuple[str, ...] = ()
    """Patterns of tools that are shown in any case."""
    clients: Mapping[str, ExposeMode] = field(default_factory=dict)
    """Pattern of a client's own name → the mode for it."""


SHOW_ALL = ExposeConfig()


@dataclass(frozen=True, slots=True)
class ProfileTool:
    """What a profile changes of one tool."""

    name: str = ""
    """Empty: its own."""
    description: str = ""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Parameters that toolcrib fills in; nobody else can."""
    hidden: tuple[str, ...] = ()
    """Parameters that are not shown, and cannot be given."""


@dataclass(frozen=True, slots=True)
class ProfileConfig:
    """A named part of the catalogue, dressed for a purpose; a tool must fit ``servers`` and ``tools``."""

    servers: tuple[str, ...] = ("*",)
    tools: tuple[str, ...] = ("*",)
    without: tuple[str, ...] = ()
    """Patterns of tools that are left out."""
    expose: ExposeMode | None = None
    budget: int | None = None
    pinned: tuple[str, ...] = ()
    change: Mapping[str, ProfileTool] = field(default_factory=dict)
    """By the name in the whole catalogue."""
