"""Arguments that fit a schema, the same at each run; none if no simple value does."""

from collections.abc import Mapping
from typing import Any

import jsonschema_rs

DEPTH_MAX = 8
_FORMATS = {
    "date": "2026-01-15",
    "date-time": "2026-01-15T12:00:00Z",
    "time": "12:00:00Z",
    "uri": "http://127.0.0.1:9/x",
    "url": "http://127.0.0.1:9/x",
    "email": "a@example.invalid",
    "uuid": "00000000-0000-4000-8000-000000000001",
    "ipv4": "127.0.0.1",
    "hostname": "example.invalid",
}
_BY_NAME = {
    "path": "note.txt",
    "file": "note.txt",
    "url": "http://127.0.0.1:9/x",
    "uri": "http://127.0.0.1:9/x",
    "date": "2026-01-15",
    "timezone": "UTC",
    "expression": "1 + 2",
    "sql": "SELECT 1",
    "language": "python",
    "code": "x = 1",
}


def arguments_for(schema: Any, *, is_whole: bool) -> dict[str, Any] | None:
    """Arguments with what is required, or with everything; ``None`` if the schema refuses them."""
    if not isinstance(schema, dict):
        return None
    value = _Maker(schema, is_whole).make(schema, "", 0)
    if not isinstance(value, dict):
        return None
    try:
        return value if jsonschema_rs.validator_for(_closed(schema)).is_valid(value) else None
    except (ValueError, jsonschema_rs.ReferencingError):
        return None


def text_for(name: str) -> str:
    """A text that a parameter of this name may take."""
    return next((value for part, value in _BY_NAME.items() if part in name.lower()), "example")


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema in a dialect that needs nothing from elsewhere."""
    return {key: value for key, value in schema.items() if key != "$schema"}


class _Maker:
    def __init__(self, root: dict[str, Any], is_whole: bool) -> None:
        self._root, self._is_whole = root, is_whole

    def make(self, schema: Any, name: str, depth: int) -> Any:
        """The simplest value that the schema seems to want."""
        if not isinstance(schema, Mapping) or depth > DEPTH_MAX:
            return text_for(name)
        schema = self._resolve(schema)
        for key in ("const", "default"):
            if schema.get(key) is not None:
                return schema[key]
        if schema.get("enum"):
            return schema["enum"][0]
        if schema.get("examples") and isinstance(schema["examples"], list):
            return schema["examples"][0]
        for key in ("anyOf", "oneOf", "allOf"):
            choices = [one for one in schema.get(key, ()) if one != {"type": "null"}]
            if choices and "properties" not in schema:
                merged = {**schema, **self._resolve(choices[0])}
                merged.pop(key, None)
                return self.make(merged, name, depth + 1)
        return self._by_type(schema, name, depth)

    def _by_type(self, schema: Mapping[str, Any], name: str, depth: int) -> Any:
        kind = schema.get("type", "object" if "properties" in schema else "string")
        kind = next((one for one in kind if one != "null"), "null") if isinstance(kind, list) else kind
        match kind:
            case "object":
                return self._object(schema, depth)
            case "array":
                count = max(1, schema.get("minItems", 1))
                return [self.make(schema.get("items", {}), name, depth + 1)] * count
            case "integer" | "number":
                return _number(schema)
            case "boolean":
                return False
            case "null":
                return None
            case _:
                return _text(schema, name)

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        wanted = schema.get("properties") or {}
        required = schema.get("required") or ()
        shown = [key for key in wanted if key in required or (self._is_whole and depth == 0)]
        return {key: self.make(wanted[key], key, depth + 1) for key in shown}

    def _resolve(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        ref = schema.get("$ref")
        if not isinstance(ref, str) or not ref.startswith("#/"):
            return schema
        found: Any = self._root
        for part in ref[2:].split("/"):
            found = found.get(part.replace("~1", "/").replace("~0", "~"), {}) if isinstance(found, dict) else {}
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        return {**found, **rest} if isinstance(found, dict) else schema


def _number(schema: Mapping[str, Any]) -> Any:
    least = schema.get("minimum", schema.get("exclusiveMinimum"))
    if least is None:
        return min(1, schema.get("maximum", 1))
    return least + 1 if isinstance(schema.get("exclusiveMinimum"), int | float) else max(least, 1)


def _text(schema: Mapping[str, Any], name: str) -> str:
    text = _FORMATS.get(str(schema.get("format")), text_for(name))
    text = text.ljust(schema.get("minLength", 0), "x")
    return text[: schema.get("maxLength", len(text))]
