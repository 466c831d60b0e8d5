"""Anthropic's Messages: nearly all of JSON Schema, but no unions at the top and only plain names of parameters."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from toolcrib.core.tool import Tool
from toolcrib.schema.dialects.names import PARAMETER_NAMES, NameTable
from toolcrib.schema.dialects.offer import Definition, Dialect, Options, Shown
from toolcrib.schema.dialects.reduce import View, reduce_schema
from toolcrib.schema.dialects.subset import ROOT_UNIONS, Subset

MOST_TO_SEARCH = 10_000

SUBSET = Subset()
_BY_NAME = frozenset(
    {"propertyNames", "patternProperties", "dependentRequired", "dependentSchemas", "if", "then", "else"}
)
_RENAMED = replace(SUBSET, root_without=ROOT_UNIONS | _BY_NAME)
"""Where parameters have other names, rules about names do not hold."""


def _view(tool: Tool, _options: Options) -> tuple[View, NameTable | None]:
    view = reduce_schema(tool.input_schema, SUBSET)
    names = NameTable.of(view.schema.get("properties", ()), PARAMETER_NAMES)
    if names.is_plain:
        return view, None
    view = reduce_schema(tool.input_schema, _RENAMED)
    return replace(view, schema=_renamed(view.schema, names)), names


def _renamed(schema: dict[str, Any], names: NameTable) -> dict[str, Any]:
    properties = {names.alias(name): part for name, part in schema["properties"].items()}
    renamed = {**schema, "properties": properties}
    if "required" in schema:
        renamed["required"] = [names.aliases.get(name, name) for name in schema["required"]]
    return renamed


def _define(shown: Shown, _options: Options) -> Definition:
    definition: Definition = {
        "name": shown.name,
        "description": shown.description,
        "input_schema": shown.view.schema,
    }
    return definition | {"defer_loading": True} if shown.is_deferred else definition


def _wrap(pairs: Sequence[tuple[Shown, Definition]], options: Options) -> list[Definition]:
    definitions = [definition for _, definition in pairs]
    if not any(shown.is_deferred for shown, _ in pairs):
        return definitions
    search = f"tool_search_tool_{options.search}"
    return [{"type": f"{search}_20251119", "name": search}, *definitions]


ANTHROPIC = Dialect("anthropic", _view, _define, _wrap, defers=True)
