"""The three tools that stand for a whole catalogue: find, describe, call. Every word in them costs tokens."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolcrib.core.access import Reach
from toolcrib.core.names import TOOLS_CALL, TOOLS_DESCRIBE, TOOLS_FIND
from toolcrib.core.tool import SecurityLevel, Tool, to_mcp


@dataclass(frozen=True, slots=True)
class MetaTool:
    """One of them, as a listing shows it."""

    tool: Tool
    reach: Reach

    def to_mcp(self) -> dict[str, Any]:
        """The definition."""
        return to_mcp(self.tool)


def _text(*names: str) -> dict[str, Any]:
    return {name: {"type": "string"} for name in names}


def _define(name: str, description: str, properties: Mapping[str, Any], *required: str) -> MetaTool:
    """Whoever may use any tool sees these: they show and run no more than the caller may reach."""
    schema = {"type": "object", "properties": properties, "required": list(required)}
    annotations = {} if name == TOOLS_CALL else {"readOnlyHint": True}
    reach = Reach(name, level=SecurityLevel.READ_ONLY, reads_results=True)
    return MetaTool(Tool(name, description, schema, annotations=annotations), reach)


META: Mapping[str, MetaTool] = {
    made.tool.name: made
    for made in (
        _define(
            TOOLS_FIND,
            "Find more tools by what they do. Lists signatures.",
            {**_text("query"), "limit": {"type": "integer"}},
            "query",
        ),
        _define(TOOLS_DESCRIBE, "Show a tool's full schema.", _text("name"), "name"),
        _define(TOOLS_CALL, "Call a tool that was found.", {**_text("name"), "arguments": {"type": "object"}}, "name"),
    )
}
