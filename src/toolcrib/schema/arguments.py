"""A call's arguments and the schema: parameter names, defaults, and values that would fit."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any, Self

import msgspec

_SNAKE = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)+")
_CAMEL = re.compile(r"[a-z][a-zA-Z0-9]*[A-Z0-9][a-zA-Z0-9]*")


class Renamer:
    """Renames the arguments of one tool: fixed mappings first, then snake_case to the schema's camelCase."""

    __slots__ = ("_camel", "_declared", "_mapping")

    def __init__(self, mapping: Mapping[str, str], declared: frozenset[str], camel: Mapping[str, str]) -> None:
        self._mapping, self._declared, self._camel = mapping, declared, camel

    @classmethod
    def for_schema(cls, schema: Mapping[str, Any], mapping: Mapping[str, str]) -> Self | None:
        """The renamer of a tool; ``None`` when no argument of it can ever need another name."""
        properties = schema.get("properties")
        declared = frozenset(properties if isinstance(properties, Mapping) else ())
        camel = [name for name in declared if isinstance(name, str) and _CAMEL.fullmatch(name)]
        return cls(mapping, declared, _fold(camel)) if mapping or camel else None

    def apply(self, arguments: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
        """The arguments under the server's names, and which were renamed; a name already in use is not overwritten."""
        renames: dict[str, str] = {}
        taken = set(arguments)
        for name in arguments:
            target = self._target(name)
            if target not in taken:
                renames[name] = target
                taken.add(target)
        if not renames:
            return arguments, renames
        return {renames.get(name, name): value for name, value in arguments.items()}, renames

    def _target(self, name: str) -> str:
        if name in self._mapping:
            return self._mapping[name]
        if "_" not in name or name in self._declared or not _SNAKE.fullmatch(name):
            return name
        exact = to_camel(name)
        return exact if exact in self._declared else self._camel.get(exact.lower(), name)


def to_camel(name: str) -> str:
    """``device_name`` as ``deviceName``."""
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def _fold(camel: list[str]) -> dict[str, str]:
    """Camel-case names by their lower case, so that ``device_id`` finds ``deviceID``; ambiguous ones are left out."""
    times = Counter(name.lower() for name in camel)
    return {name.lower(): name for name in camel if times[name.lower()] == 1}


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


def resolved(part: Any, root: Mapping[str, Any]) -> Any:
    """What a reference inside the document points to; a reference to a reference is followed a few times."""
    for _ in range(8):
        reference = part.get("$ref") if isinstance(part, Mapping) else None
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return part
        found: Any = root
        for step in reference[2:].split("/"):
            found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
        if not isinstance(found, Mapping):
            return part
        part = {**found, **{key: value for key, value in part.items() if key != "$ref"}}
    return part


HINTS_MAX = 50


def value_hints(schema: Mapping[str, Any], parameter: str, known: Iterable[Any] = ()) -> list[str]:
    """What could be written for ``parameter``: the author's own suggestions first, then what the schema names."""
    part = _suggestible(schema).get(parameter)
    found = [*known, *(_named(part) if isinstance(part, Mapping) else ())]
    return list(dict.fromkeys(map(_written, found)))[:HINTS_MAX]


def _suggestible(schema: Mapping[str, Any]) -> Mapping[str, Any]:
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
