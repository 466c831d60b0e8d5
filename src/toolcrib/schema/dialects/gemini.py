"""Gemini: declarations of functions with the part of JSON Schema that it documents, and no references."""

from collections.abc import Sequence

from toolcrib.schema.dialects.offer import Definition, Dialect, Options, Shown, view_in
from toolcrib.schema.dialects.subset import Subset

SUBSET = Subset(
    keywords=frozenset({"type", "title", "description", "enum", "items", "prefixItems", "minItems", "maxItems"})
    | {"minimum", "maximum", "anyOf", "properties", "additionalProperties", "required", "format"},
    formats=frozenset({"date-time", "date", "time", "duration", "email", "uuid", "uri"})
    | {"int32", "int64", "float", "double"},
    choices=frozenset({str, int, float}),
    inlines=True,
    lone_unions=True,
    needs_items=True,
    most_parts=3_000,
)


def _define(shown: Shown, _options: Options) -> Definition:
    """A function without parameters has no schema at all: an empty one is refused."""
    definition: Definition = {"name": shown.name, "description": shown.description}
    schema = shown.view.schema
    return definition | {"parametersJsonSchema": schema} if schema.get("properties") else definition


def _wrap(pairs: Sequence[tuple[Shown, Definition]], _options: Options) -> list[Definition]:
    return [{"functionDeclarations": [definition for _, definition in pairs]}] if pairs else []


GEMINI = Dialect("gemini", view_in(SUBSET), _define, _wrap)
