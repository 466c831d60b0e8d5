"""Filling in what the caller left out, where the schema says what it would have been."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

_POINTERS = ("#/$defs/", "#/definitions/")


def apply_defaults(schema: Mapping[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """``arguments`` with the schema's defaults for missing fields, in nested objects too; itself if none is missing."""
    return _fill(schema, arguments, schema)


def _fill(schema: Mapping[str, Any], given: dict[str, Any], root: Mapping[str, Any]) -> dict[str, Any]:
    added: dict[str, Any] = {}
    for name, declared in _properties(schema, root):
        if name not in given:
            if "default" in declared:
                added[name] = deepcopy(declared["default"])
        elif isinstance(value := given[name], dict):
            filled = _fill(declared, value, root)
            if filled is not value:
                added[name] = filled
    return given | added if added else given


def _properties(schema: Mapping[str, Any], root: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return []
    return [(name, _resolve(part, root)) for name, part in properties.items() if isinstance(part, Mapping)]


def _resolve(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """The definition a plain reference stands for, with what is written beside the reference on top."""
    reference = schema.get("$ref")
    if not isinstance(reference, str) or not reference.startswith(_POINTERS):
        return schema
    _, place, name = reference.split("/", 2)
    definitions = root.get(place)
    target = definitions.get(name) if isinstance(definitions, Mapping) else None
    return {**target, **schema} if isinstance(target, Mapping) else schema
