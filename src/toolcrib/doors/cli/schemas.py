"""JSON Schemas as a person reads them: one row per parameter, and a call to copy."""

import json
import shlex
from collections.abc import Mapping
from typing import Any

from toolcrib.core.tool import Tool
from toolcrib.doors.cli.arguments import types_of

Schema = Mapping[str, Any]

_SAMPLES: Mapping[str, Any] = {
    "string": "…",
    "integer": 1,
    "number": 1.5,
    "boolean": True,
    "array": [],
    "object": {},
    "null": None,
}
_BOUNDS = {"minimum": "≥", "maximum": "≤", "exclusiveMinimum": ">", "exclusiveMaximum": "<"}
SHOWN_CHOICES = 8


def parameter_rows(schema: Schema) -> list[tuple[str, str, str, str]]:
    """Name, type, need or default, and description of each parameter; what must be given comes first."""
    required = schema.get("required") or []
    properties: Mapping[str, Any] = schema.get("properties") or {}
    names = sorted(properties, key=lambda name: name not in required)
    return [(name, *_row(resolved(properties[name], schema), is_required=name in required)) for name in names]


def _row(part: Any, *, is_required: bool) -> tuple[str, str, str]:
    if not isinstance(part, Mapping):
        return "anything", "required" if is_required else "", ""
    default = f"default {json.dumps(part['default'], ensure_ascii=False)}" if "default" in part else ""
    return type_name(part), "required" if is_required else default, str(part.get("description", ""))


def resolved(part: Any, root: Schema) -> Any:
    """What a reference inside the document points to; everything else as it is."""
    reference = part.get("$ref") if isinstance(part, Mapping) else None
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return part
    found: Any = root
    for step in reference[2:].split("/"):
        found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
    return (
        {**found, **{key: value for key, value in part.items() if key != "$ref"}}
        if isinstance(found, Mapping)
        else part
    )


def type_name(part: Any) -> str:
    """A schema's type in a few words."""
    if not isinstance(part, Mapping):
        return "anything"
    if "enum" in part:
        shown = " | ".join(str(value) for value in part["enum"][:SHOWN_CHOICES])
        return f"{shown} | …" if len(part["enum"]) > SHOWN_CHOICES else shown
    types = list(dict.fromkeys(types_of(part)))
    if types == ["array"] and isinstance(part.get("items"), Mapping):
        return f"array of {type_name(part['items'])}"
    bounds = " ".join(f"{sign}{part[key]}" for key, sign in _BOUNDS.items() if key in part)
    return " ".join(filter(None, (" | ".join(types) or "anything", bounds)))


def example_call(name: str, tool: Tool) -> str:
    """A command line that calls the tool: its own example, or its required parameters."""
    schema = tool.input_schema
    if tool.examples:
        arguments = dict(tool.examples[0].arguments)
    else:
        properties = schema.get("properties") or {}
        arguments = {key: _sample(resolved(properties.get(key), schema)) for key in schema.get("required") or []}
    return " ".join(["toolcrib call", name, *(_word(key, value) for key, value in arguments.items())])


def _sample(part: Any) -> Any:
    if not isinstance(part, Mapping):
        return "…"
    for known in ("default", "const"):
        if known in part:
            return part[known]
    choices = [*(part.get("examples") or []), *(part.get("enum") or [])]
    return choices[0] if choices else _SAMPLES.get(next(iter(types_of(part)), "string"), "…")


def _word(key: str, value: Any) -> str:
    return shlex.quote(f"{key}={value}") if isinstance(value, str) else shlex.quote(f"{key}:={json.dumps(value)}")
