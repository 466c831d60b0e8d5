"""A tool in one line that a model can call from: its name, what it takes with types, and what it is for."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from toolcrib.schema.text import clean_text

DEEPEST = 3  # levels of nested objects and lists that are spelled out
MOST_VALUES = 8  # of one enumeration
MOST_MEMBERS = 12  # of one nested object
MOST_ABOUT = 100  # characters of what it is for
_WORDS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "null"}
_SENTENCE = re.compile(r"(?<=[.!?])\s|\n\s*\n|\n\s*[-*#]")
_POINTER = "#/"


def signature(name: str, schema: Mapping[str, Any], description: str = "") -> str:
    """``name(needed: str, optional?: [int]) - What it does``; a question mark stands behind what may be left out."""
    told = about(description)
    return f"{name}({_Writer(schema).members(schema, DEEPEST)}){f' - {told}' if told else ''}"


def about(description: str) -> str:
    """The first sentence of a description in one line, cut at a word if it is long."""
    first = _SENTENCE.split(clean_text(description).strip(), maxsplit=1)[0]
    line = " ".join(first.split()).rstrip(".")
    return line if len(line) <= MOST_ABOUT else f"{line[:MOST_ABOUT].rsplit(' ', 1)[0]} ..."


class _Writer:
    """Writes the parts of one schema; knows the definitions that its references point to."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root

    def members(self, schema: Mapping[str, Any], depth: int, most: int | None = None) -> str:
        """The properties of an object, needed ones first."""
        properties, required = schema.get("properties"), schema.get("required")
        found = properties if isinstance(properties, Mapping) else {}
        needed = set(map(str, required)) if isinstance(required, list) else set()
        names = sorted(found, key=lambda name: name not in needed)
        marked = [(name, name if name in needed else f"{name}?") for name in names[:most]]
        written = [f"{shown}: {self.type_of(found[name], depth)}" for name, shown in marked]
        more = [] if len(written) == len(names) else ["..."]
        return ", ".join([*written, *more, *self._others(schema, depth)])

    def _others(self, schema: Mapping[str, Any], depth: int) -> list[str]:
        """Members of any name, where the schema says what they are."""
        others = schema.get("additionalProperties")
        return [f"*: {self.type_of(others, depth)}"] if isinstance(others, Mapping) and others else []

    def type_of(self, schema: object, depth: int) -> str:
        """The type of a value, as short as it can be written."""
        if not isinstance(schema, Mapping):
            return "any"
        if "$ref" in schema:
            return self._referred(schema["$ref"], depth)
        if isinstance(values := [schema["const"]] if "const" in schema else schema.get("enum"), list):
            return _choices(values)
        parts = next((schema[key] for key in ("anyOf", "oneOf") if isinstance(schema.get(key), list)), None)
        if parts is not None:
            return _union([self.type_of(part, depth) for part in parts])
        if isinstance(schema.get("allOf"), list) and schema["allOf"]:
            return self.type_of(schema["allOf"][0], depth)
        return self._plain(schema, depth)

    def _plain(self, schema: Mapping[str, Any], depth: int) -> str:
        kind = schema.get("type")
        if isinstance(kind, list):
            return _union([self._plain({**schema, "type": each}, depth) for each in kind])
        if kind == "array" or (kind is None and "items" in schema):
            return f"[{self.type_of(schema.get('items'), depth - 1)}]" if depth and "items" in schema else "[any]"
        if kind == "object" or (kind is None and "properties" in schema):
            return f"{{{self.members(schema, depth - 1, MOST_MEMBERS) if depth else '...'}}}"
        return _WORDS.get(str(kind), "any")

    def _referred(self, reference: object, depth: int) -> str:
        """What a reference within the schema points to; each costs a level, so that none goes on for ever."""
        if not isinstance(reference, str) or not reference.startswith(_POINTER) or not depth:
            return "any"
        found: Any = self._root
        for part in reference.removeprefix(_POINTER).split("/"):
            found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
        return self.type_of(found, depth - 1)


def _literal(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _choices(values: Sequence[object]) -> str:
    shown = [_literal(value) for value in values[:MOST_VALUES]]
    return "|".join(shown if len(values) <= MOST_VALUES else [*shown, "..."])


def _union(types: Sequence[str]) -> str:
    """The alternatives, each once; that a value may also be null says little that is not said by its question mark."""
    each = list(dict.fromkeys(types))
    return "|".join([one for one in each if one != "null"] or each)
