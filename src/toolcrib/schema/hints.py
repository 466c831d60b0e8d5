"""Completion hints: values that would fit a parameter, as far as its definition tells."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

HINTS_MAX = 50


def value_hints(schema: Mapping[str, Any], parameter: str, known: Iterable[Any] = ()) -> list[str]:
    """What could be written for ``parameter``: the author's own suggestions first, then what the schema names."""
    part = _properties(schema).get(parameter)
    found = [*known, *(_named(part) if isinstance(part, Mapping) else ())]
    return list(dict.fromkeys(map(_written, found)))[:HINTS_MAX]


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def _named(part: Mapping[str, Any]) -> Iterator[Any]:
    yield from _listed(part.get("enum"))
    if "const" in part:
        yield part["const"]
    if part.get("type") == "boolean":
        yield from (True, False)
    if part.get("default") is not None:
        yield part["default"]
    yield from _listed(part.get("examples"))
    for choice in (*_listed(part.get("anyOf")), *_listed(part.get("oneOf")), part.get("items")):
        if isinstance(choice, Mapping):
            yield from _named({key: value for key, value in choice.items() if key in ("enum", "const", "examples")})


def _listed(values: object) -> list[Any]:
    return values if isinstance(values, list) else []


def _written(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
