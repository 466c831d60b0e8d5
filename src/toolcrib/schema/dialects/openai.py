"""OpenAI, chat completions and responses: an object at the top, items for every array, strict where it does no harm."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from toolcrib.core.names import SEPARATOR
from toolcrib.core.offers import Tool
from toolcrib.schema.dialects.merge import types_of
from toolcrib.schema.dialects.names import TOOL_NAMES, NameTable
from toolcrib.schema.dialects.offer import Definition, Dialect, Options, Shown, one_by_one
from toolcrib.schema.dialects.reduce import ReducedSchema, reduce_schema
from toolcrib.schema.dialects.subset import Subset

MOST_LEVELS = 10
MOST_PROPERTIES = 5_000
MOST_CHOICES = 1_000
MOST_LETTERS = 120_000
LONG_CHOICE = 250
MOST_LETTERS_OF_LONG_CHOICE = 15_000

STRICT_SUBSET = Subset(
    keywords=frozenset({"type", "description", "properties", "required", "additionalProperties", "items"})
    | {"anyOf", "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
    | {"minItems", "maxItems", "$ref", "$defs"},
    lone_references=True,
    needs_properties=True,
)

_NAMED = ("properties", "$defs")


def strict_view(schema: Mapping[str, Any]) -> ReducedSchema | None:
    """The schema as strict mode wants it; ``None`` if it would have to take something else than the tool does."""
    view = reduce_schema(schema, STRICT_SUBSET)
    if not is_strict(view.schema):
        return None
    for node in _nodes(view.schema):
        if "object" in types_of(node):
            node.setdefault("required", [])
    return replace(view, is_strict=True)


def is_strict(schema: Mapping[str, Any]) -> bool:
    """Whether a schema in the subset obeys the rules of strict mode."""
    nodes = [*_nodes(schema)]
    return all(map(_is_definite, nodes)) and _is_small(nodes) and _levels(schema) <= MOST_LEVELS


def _is_definite(node: Any) -> bool:
    if not isinstance(node, Mapping):
        return False
    kinds = types_of(node)
    if "object" in kinds:
        fields = node.get("properties", {})
        if node.get("additionalProperties") is not False or set(node.get("required", ())) != set(fields):
            return False
    if "array" in kinds and "items" not in node:
        return False
    return bool(kinds) or not node.keys().isdisjoint({"anyOf", "$ref", "enum", "const"})


def _is_small(nodes: list[Mapping[str, Any]]) -> bool:
    names = [name for node in nodes for keyword in _NAMED for name in node.get(keyword, ())]
    choices = [node["enum"] for node in nodes if "enum" in node]
    long = [sum(map(_letters, choice)) for choice in choices if len(choice) > LONG_CHOICE]
    letters = sum(map(len, names)) + sum(_letters(choice) for chosen in choices for choice in chosen)
    letters += sum(_letters(node["const"]) for node in nodes if "const" in node)
    return (
        sum(len(node.get("properties", ())) for node in nodes) <= MOST_PROPERTIES
        and sum(map(len, choices)) <= MOST_CHOICES
        and letters <= MOST_LETTERS
        and max(long, default=0) <= MOST_LETTERS_OF_LONG_CHOICE
    )


def _letters(value: Any) -> int:
    return len(value) if isinstance(value, str) else len(str(value))


def _children(node: Mapping[str, Any]) -> Iterator[Any]:
    yield from node.get("properties", {}).values()
    yield from node.get("anyOf", ())
    if "items" in node:
        yield node["items"]


def _nodes(schema: Mapping[str, Any]) -> Iterator[Any]:
    pending: list[Any] = [schema, *schema.get("$defs", {}).values()]
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, Mapping):
            pending.extend(_children(node))


def _levels(schema: Mapping[str, Any]) -> int:
    """Objects and arrays within each other, at most; definitions count on their own."""
    deepest, level = 0, [schema, *schema.get("$defs", {}).values()]
    while level:
        deepest += 1
        level = [child for node in level if isinstance(node, Mapping) for child in _children(node)]
    return deepest


MOST_TOOLS = 128

SUBSET = Subset(
    without=frozenset({"not", "if", "then", "else", "contains", "minContains", "maxContains", "propertyNames"})
    | {"dependentSchemas", "patternProperties", "allOf", "oneOf", "prefixItems"},
    needs_items=True,
    needs_properties=True,
)


def _view(tool: Tool, options: Options) -> tuple[ReducedSchema, NameTable | None]:
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
