"""OpenAI, chat completions and responses: an object at the top, items for every array, strict where it does no harm."""

from collections.abc import Sequence
from typing import Any

from toolcrib.core.names import SEPARATOR
from toolcrib.core.tool import Tool
from toolcrib.schema.dialects.names import TOOL_NAMES, NameTable
from toolcrib.schema.dialects.offer import Definition, Dialect, Options, Shown, one_by_one
from toolcrib.schema.dialects.openai_strict import strict_view
from toolcrib.schema.dialects.reduce import View, reduce_schema
from toolcrib.schema.dialects.subset import Subset

MOST_TOOLS = 128

SUBSET = Subset(
    without=frozenset({"not", "if", "then", "else", "contains", "minContains", "maxContains", "propertyNames"})
    | {"dependentSchemas", "patternProperties", "allOf", "oneOf", "prefixItems"},
    needs_items=True,
    needs_properties=True,
)


def _view(tool: Tool, options: Options) -> tuple[View, NameTable | None]:
    strict = strict_view(tool.input_schema) if options.strict else None
    return strict or reduce_schema(tool.input_schema, SUBSET), None


def _function(shown: Shown) -> dict[str, Any]:
    return {"name": shown.name, "description": shown.description, "parameters": shown.view.schema}


def _define_chat(shown: Shown, _options: Options) -> Definition:
    strict = {"strict": True} if shown.view.is_strict else {}
    return {"type": "function", "function": _function(shown) | strict}


def _define_response(shown: Shown, _options: Options) -> Definition:
    """Strict or not is always said: unsaid, the service tries to make it so."""
    definition = {"type": "function", **_function(shown), "strict": shown.view.is_strict}
    return definition | {"defer_loading": True} if shown.is_deferred else definition


def _wrap(pairs: Sequence[tuple[Shown, Definition]], _options: Options) -> list[Definition]:
    """Tools to be searched, by server, behind the others."""
    spaces: dict[str, list[Definition]] = {}
    plain: list[Definition] = []
    for shown, definition in pairs:
        server, separator, _ = shown.tool.name.partition(SEPARATOR)
        own = spaces.setdefault(server, []) if shown.is_deferred and separator and server else plain
        own.append(definition)
    names = NameTable.of(spaces, TOOL_NAMES)
    spaced = [
        {"type": "namespace", "name": names.alias(server), "description": f"Tools of {server}.", "tools": tools}
        for server, tools in spaces.items()
    ]
    search: list[Definition] = [{"type": "tool_search"}] if any(shown.is_deferred for shown, _ in pairs) else []
    return [*plain, *spaced, *search]


OPENAI = Dialect("openai", _view, _define_chat, one_by_one, most_tools=MOST_TOOLS)
OPENAI_RESPONSES = Dialect("openai-responses", _view, _define_response, _wrap, most_tools=MOST_TOOLS, defers=True)
