"""Which keywords of a schema mean something as they stand: one malformed keyword, and a provider refuses them all."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import jsonschema_rs

TYPES = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})


def is_well_formed(keyword: str, value: Any) -> bool:
    """Whether a keyword has a value that JSON Schema 2020-12 allows; unknown keywords may have any."""
    test = _TESTS.get(keyword)
    return test is None or test(value)


def is_valid(schema: Mapping[str, Any]) -> bool:
    """Whether the whole is a schema of 2020-12, all the way down."""
    try:
        return jsonschema_rs.meta.is_valid(dict(schema))
    except (ValueError, TypeError, OverflowError, RecursionError):
        return False


def types_of(schema: Mapping[str, Any]) -> list[str]:
    """The types a schema names; none if it takes any."""
    kinds = schema.get("type")
    return [kinds] if isinstance(kinds, str) else list(kinds) if isinstance(kinds, list) else []


def _is_schema(value: Any) -> bool:
    return isinstance(value, Mapping | bool)


def _is_schema_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_schema, value))


def _is_schema_map(value: Any) -> bool:
    return isinstance(value, Mapping) and all(map(_is_schema, value.values()))


def _is_pattern(value: Any) -> bool:
    try:
        re.compile(value)
    except (re.error, TypeError, RecursionError, OverflowError):
        return False
    return isinstance(value, str)


def _is_pattern_map(value: Any) -> bool:
    return _is_schema_map(value) and all(map(_is_pattern, value))


def _is_type(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(isinstance(kind, str) for kind in value) and _are_types(value)
    return isinstance(value, str) and value in TYPES


def _are_types(kinds: list[str]) -> bool:
    return len(set(kinds)) == len(kinds) and TYPES.issuperset(kinds)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_positive(value: Any) -> bool:
    return _is_number(value) and value > 0


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value)) and len(set(value)) == len(value)


def _are_names_by_name(value: Any) -> bool:
    return isinstance(value, Mapping) and all(map(_are_names, value.values()))


def _is_choice(value: Any) -> bool:
    return isinstance(value, list) and bool(value)


_TESTS: Mapping[str, Callable[[Any], bool]] = (
    dict.fromkeys(("items", "additionalProperties", "unevaluatedProperties", "unevaluatedItems"), _is_schema)
    | dict.fromkeys(("not", "if", "then", "else", "contains", "propertyNames", "contentSchema"), _is_schema)
    | dict.fromkeys(("anyOf", "oneOf", "allOf", "prefixItems"), _is_schema_list)
    | dict.fromkeys(("properties", "dependentSchemas", "$defs", "definitions"), _is_schema_map)
    | dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number)
    | dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _is_count)
    | dict.fromkeys(("minContains", "maxContains"), _is_count)
    | dict.fromkeys(("title", "description", "format", "contentEncoding", "contentMediaType", "$comment"), _is_text)
    | dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), _is_flag)
    | {"patternProperties": _is_pattern_map, "pattern": _is_pattern, "multipleOf": _is_positive, "type": _is_type}
    | {"required": _are_names, "dependentRequired": _are_names_by_name, "enum": _is_choice, "$ref": _is_text}
    | {"examples": lambda value: isinstance(value, list)}
)
