"""Parameters under names that whoever gets them takes."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from toolcrib.schema.dialects.names import NameRule, NameTable
from toolcrib.schema.dialects.reduce import View, reduce_schema
from toolcrib.schema.dialects.subset import Subset

_BY_NAME = frozenset(
    {"propertyNames", "patternProperties", "dependentRequired", "dependentSchemas", "if", "then", "else"}
)
"""Where parameters have other names, rules about names do not hold."""


def view_with_names(schema: Mapping[str, Any], subset: Subset, rule: NameRule) -> tuple[View, NameTable | None]:
    """The schema in the subset, with legal names of parameters; the table of them where any has another name."""
    view = reduce_schema(schema, subset)
    names = NameTable.of(view.schema.get("properties", ()), rule)
    if names.is_plain:
        return view, None
    view = reduce_schema(schema, replace(subset, root_without=subset.root_without | _BY_NAME))
    return replace(view, schema=_renamed(view.schema, names)), names


def _renamed(schema: dict[str, Any], names: NameTable) -> dict[str, Any]:
    properties = {names.alias(name): part for name, part in schema["properties"].items()}
    renamed = {**schema, "properties": properties}
    if "required" in schema:
        renamed["required"] = [names.aliases.get(name, name) for name in schema["required"]]
    return renamed
