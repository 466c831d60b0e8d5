"""What each provider refuses, written down on its own: nothing here knows how the definitions are made."""

import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs

UNIONS = {"anyOf", "oneOf", "allOf", "not", "enum", "const"}
MAPS = {"properties", "$defs", "patternProperties", "dependentSchemas"}
LISTS = {"anyOf", "oneOf", "allOf", "prefixItems"}
SINGLE = {"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"}


def subschemas(schema: Any, depth: int = 1) -> Iterator[tuple[dict[str, Any], int]]:
    if not isinstance(schema, dict):
        return
    yield schema, depth
    for keyword, value in schema.items():
        inner = value.values() if keyword in MAPS else value if keyword in LISTS else [value] * (keyword in SINGLE)
        for part in inner:
            yield from subschemas(part, depth + 1)


def kinds(node: dict[str, Any]) -> list[str]:
    said = node.get("type", [])
    return [said] if isinstance(said, str) else said


def check_references(schema: dict[str, Any]) -> None:
    for node, _ in subschemas(schema):
        if "$ref" in node:
            assert re.fullmatch(r"#/\$defs/[A-Za-z0-9_.-]+", node["$ref"])
            assert node["$ref"].removeprefix("#/$defs/") in schema["$defs"]


def check_top(schema: dict[str, Any]) -> None:
    assert schema["type"] == "object"
    assert UNIONS.isdisjoint(schema)
    assert jsonschema_rs.meta.is_valid(schema)
    check_references(schema)


def check_name(name: str, limit: int = 64) -> None:
    assert re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_-]*", name)
    assert len(name) <= limit


def check_anthropic(definition: dict[str, Any]) -> dict[str, Any]:
    assert definition.keys() <= {"name", "description", "input_schema", "defer_loading"}
    schema = definition["input_schema"]
    check_name(definition["name"])
    check_top(schema)
    assert all(re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name) for name in schema.get("properties", ()))
    return schema


def check_openai_schema(schema: dict[str, Any], *, strict: bool) -> dict[str, Any]:
    check_top(schema)
    assert "properties" in schema
    for node, _ in subschemas(schema):
        assert not {"allOf", "oneOf", "not", "if", "patternProperties", "prefixItems"} & node.keys()
        assert "array" not in kinds(node) or "items" in node, "array schema missing items"
        for pattern in [node["pattern"]] if "pattern" in node else []:
            re.compile(pattern)
    if strict:
        check_strict(schema)
    return schema


def check_strict(schema: dict[str, Any]) -> None:
    nodes = [*subschemas(schema)]
    assert max(depth for _, depth in nodes) <= 11  # ten levels, and `$defs` stands one above its own
    assert sum(len(node.get("properties", {})) for node, _ in nodes) <= 5_000
    assert sum(len(node.get("enum", [])) for node, _ in nodes) <= 1_000
    for node, _ in nodes:
        assert node, "every part has a type"
        assert not {"minLength", "maxLength", "format", "pattern", "uniqueItems", "default", "title"} & node.keys()
        assert "$ref" not in node or node.keys() == {"$ref"}
        if "object" in kinds(node):
            assert node["additionalProperties"] is False
            assert sorted(node["required"]) == sorted(node.get("properties", {}))
        assert {"type", "anyOf", "$ref", "enum", "const"} & node.keys()


def check_openai(definition: dict[str, Any]) -> dict[str, Any]:
    assert definition.keys() == {"type", "function"}
    function = definition["function"]
    assert definition["type"] == "function"
    assert function.keys() <= {"name", "description", "parameters", "strict"}
    check_name(function["name"])
    return check_openai_schema(function["parameters"], strict=function.get("strict", False))


def check_openai_responses(definition: dict[str, Any]) -> dict[str, Any]:
    assert definition.keys() <= {"type", "name", "description", "parameters", "strict", "defer_loading"}
    assert isinstance(definition["strict"], bool)
    check_name(definition["name"])
    return check_openai_schema(definition["parameters"], strict=definition["strict"])


def check_gemini(definition: dict[str, Any]) -> dict[str, Any]:
    assert definition.keys() <= {"name", "description", "parametersJsonSchema"}
    check_name(definition["name"])
    if "parametersJsonSchema" not in definition:
        return {"type": "object"}
    schema = definition["parametersJsonSchema"]
    check_top(schema)
    assert schema["properties"]
    known = {"type", "format", "title", "description", "enum", "items", "prefixItems", "minItems", "maxItems"}
    known |= {"minimum", "maximum", "anyOf", "properties", "additionalProperties", "required"}
    for node, _ in subschemas(schema):
        assert node.keys() <= known
        assert all(type(choice) in (str, int, float) for choice in node.get("enum", []))
        assert "array" not in kinds(node) or "items" in node
        assert "anyOf" not in node or node.keys() <= {"anyOf", "title", "description"}
    return schema


def check_ollama(definition: dict[str, Any]) -> dict[str, Any]:
    function = definition["function"]
    assert function.keys() == {"name", "description", "parameters"}
    schema = function["parameters"]
    check_name(function["name"])
    check_top(schema)
    for node, _ in subschemas(schema):
        assert node.keys() <= {"type", "description", "enum", "items", "properties", "required", "anyOf"}
    return schema


CHECKS = {
    "anthropic": check_anthropic,
    "openai": check_openai,
    "openai-responses": check_openai_responses,
    "gemini": check_gemini,
    "ollama": check_ollama,
}
