"""What a tool is: one frozen definition, the same for native functions and MCP servers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from msgspec import UNSET

from toolcrib.core.limits import UNLIMITED, ToolLimits

JsonObject = Mapping[str, Any]

OPEN_OBJECT: JsonObject = {"type": "object"}


class SecurityLevel(StrEnum):
    """How far a tool reaches; each level includes the caution of those before it."""

    READ_ONLY = "read_only"
    WRITE = "write"
    ADMIN = "admin"
    SYSTEM = "system"

    @property
    def rank(self) -> int:
        """How far it reaches, from 0; what counts when levels are compared."""
        return _RANKS[self]


_RANKS = {level: rank for rank, level in enumerate(SecurityLevel)}


class Category(StrEnum):
    """What a tool is for."""

    SEARCH = "search"
    DOCUMENT = "document"
    COLLECTION = "collection"
    ADMIN = "admin"
    ANALYSIS = "analysis"


@dataclass(frozen=True, slots=True)
class Deprecation:
    """A tool on its way out: why, and what to use instead."""

    reason: str
    use_instead: str = ""


@dataclass(frozen=True, slots=True)
class Example:
    """One way to call a tool, checked against its schema at registration."""

    arguments: JsonObject
    description: str = ""
    expected_output: Any = UNSET
    """What the tool gives for them, as JSON; checked against its output schema, and by ``testing.run_examples``."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A definition as its source gave it; ``name`` is the source's own, unprefixed one."""

    name: str
    description: str = ""
    input_schema: JsonObject = field(default_factory=lambda: OPEN_OBJECT)
    output_schema: JsonObject | None = None
    title: str = ""
    annotations: JsonObject = field(default_factory=dict)
    extra: JsonObject = field(default_factory=dict)
    """Fields of the source's definition that toolcrib does not interpret; they pass through untouched."""
    version: str = ""
    category: str = ""
    security_level: SecurityLevel = SecurityLevel.WRITE
    capabilities: frozenset[str] = frozenset()
    examples: tuple[Example, ...] = ()
    timeout_s: float | None = None
    deprecation: Deprecation | None = None
    completions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    renames: Mapping[str, str] = field(default_factory=dict)
    """Parameter names the user wants translated: what a model writes → what the source wants."""
    replayable: bool | None = None
    """What the user says of running it twice; ``None`` leaves it to the tool's own word."""
    limits: ToolLimits = UNLIMITED
    """How often, and how often at once, the user lets it be called."""
    result_limit: int | None = None
    """Results of more bytes than this are kept; zero is no limit, ``None`` leaves it to the configuration."""

    reads_results: bool = False
    """Whether it is toolcrib's own way to read large results; not for anybody else to set."""

    @property
    def is_replayable(self) -> bool:
        """Whether running it twice does no more than running it once, by the user's or else its own word."""
        if self.replayable is not None:
            return self.replayable
        return self.annotations.get("readOnlyHint") is True or self.annotations.get("idempotentHint") is True


def to_mcp(tool: Tool, name: str | None = None) -> dict[str, Any]:
    """The definition as MCP's ``tools/list`` shows it, under ``name`` if another one is exposed."""
    shown: dict[str, Any] = {"name": name or tool.name}
    if tool.title:
        shown["title"] = tool.title
    if tool.description:
        shown["description"] = tool.description
    shown["inputSchema"] = tool.input_schema
    if tool.output_schema is not None:
        shown["outputSchema"] = tool.output_schema
    if tool.annotations:
        shown["annotations"] = tool.annotations
    shown.update(tool.extra)
    return shown


_MCP_FIELDS = frozenset({"name", "title", "description", "inputSchema", "outputSchema", "annotations"})


def from_mcp(shown: Mapping[str, Any]) -> Tool:
    """The tool behind one entry of ``tools/list``; nothing a server says of itself lowers its security level."""
    annotations = shown.get("annotations")
    output = shown.get("outputSchema")
    return Tool(
        name=str(shown["name"]),
        title=_text(shown.get("title")),
        description=_text(shown.get("description")),
        input_schema=shown.get("inputSchema") or OPEN_OBJECT,
        output_schema=output if isinstance(output, Mapping) else None,
        annotations=annotations if isinstance(annotations, Mapping) else {},
        extra={key: value for key, value in shown.items() if key not in _MCP_FIELDS},
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
