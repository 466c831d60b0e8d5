"""Parts of a JSON Schema as people meet them: what kind of field one is, and its rules in a few words."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from toolcrib.schema.arguments import resolved
from toolcrib.schema.dialects.words import BOUNDS

Schema = Mapping[str, Any]

DEEPEST = 4
DEEPEST_JSON = 100
MOST_FIELDS = 60
MOST_CHOICES = 200
MOST_ROWS = 200
SHOWN_CHOICES = 12
LONGEST = 200
LONGEST_ABOUT = 2_000

_MIXED = frozenset({"anyOf", "oneOf", "allOf", "not", "if", "$dynamicRef"})
_SCALARS = {"string": "text", "integer": "integer", "number": "number", "boolean": "flag"}
_LIMITS = {
    **BOUNDS,
    "pattern": "matching {}",
    "format": "{} format",
}


@dataclass(frozen=True, slots=True)
class SchemaPart:
    """One place of a schema, with what stands behind references and ``null`` put aside."""

    schema: Schema
    kind: str
    """``text``, ``integer``, ``number``, ``flag``, ``choice``, ``items``, ``picks``, ``group``, ``rows`` (a list of
    objects); else ``json``."""
    nullable: bool = False
    item: "SchemaPart | None" = None
    """What each item of a list of objects is."""

    @property
    def choices(self) -> list[Any]:
        """What can be chosen."""
        found = self.schema.get("items", {}) if self.kind == "picks" else self.schema
        return [found["const"]] if "const" in found else list(found.get("enum", ()))

    @property
    def item_kind(self) -> str:
        """The kind of each item of a list."""
        return _SCALARS.get(str(self.schema.get("items", {}).get("type")), "text")

    @property
    def properties(self) -> Schema:
        """The fields of an object."""
        found = self.schema.get("properties")
        return found if isinstance(found, Mapping) else {}

    @property
    def required(self) -> frozenset[str]:
        """Which of them must be there."""
        found = self.schema.get("required")
        return frozenset(name for name in found if isinstance(name, str)) if isinstance(found, list | tuple) else _NONE


_NONE: frozenset[str] = frozenset()


def part_of(schema: Any, root: Schema, depth: int = 0) -> SchemaPart:
    """What a place of a schema is."""
    found, nullable = _without_null(resolved(schema, root), root)
    if not isinstance(found, Mapping):
        return SchemaPart({}, "json", nullable)
    kind, item = _kind(found, depth), None
    if kind == "json" and (item := _row_of(found, root, depth)) is not None:
        kind = "rows"
    return SchemaPart(found, kind, nullable, item)


def _row_of(part: Schema, root: Schema, depth: int) -> SchemaPart | None:
    """What a list of objects that can be filled in consists of."""
    items = part.get("items")
    is_list = (
        part.get("type") == "array" and isinstance(items, Mapping) and not (_MIXED | {"prefixItems"}) & part.keys()
    )
    if not is_list or depth + 1 >= DEEPEST:
        return None
    found = part_of(items, root, depth + 1)
    return found if found.kind == "group" and not found.nullable else None


def _without_null(part: Any, root: Schema) -> tuple[Any, bool]:
    """The part and whether it may also be null."""
    if not isinstance(part, Mapping):
        return part, False
    kinds = part.get("type")
    if isinstance(kinds, list | tuple) and "null" in kinds and len(kinds) == 2 and "enum" not in part:
        return {**part, "type": next(kind for kind in kinds if kind != "null")}, True
    for word in ("anyOf", "oneOf"):
        found = part.get(word)
        if isinstance(found, list | tuple) and len(found) == 2:
            others = [resolved(other, root) for other in found]
            real = [other for other in others if not (isinstance(other, Mapping) and other.get("type") == "null")]
            if len(real) == 1 and isinstance(real[0], Mapping):
                return {**real[0], **{key: value for key, value in part.items() if key != word}}, True
    return part, False


def _kind(part: Schema, depth: int) -> str:
    if _MIXED & part.keys():
        return "json"
    if _has_choices(part):
        return "choice"
    kind = part.get("type")
    if kind == "array":
        return _list_kind(part)
    properties = part.get("properties")
    if kind == "object" or (kind is None and isinstance(properties, Mapping)):
        is_small = isinstance(properties, Mapping) and 0 < len(properties) <= MOST_FIELDS and depth < DEEPEST
        return "group" if is_small else "json"
    return _SCALARS.get(kind, "json") if isinstance(kind, str) else "json"


def _has_choices(part: Schema) -> bool:
    enum = part.get("enum")
    return "const" in part or (isinstance(enum, list | tuple) and 0 < len(enum) <= MOST_CHOICES)


def _list_kind(part: Schema) -> str:
    items = part.get("items")
    if not isinstance(items, Mapping) or "prefixItems" in part or "$ref" in items or _MIXED & items.keys():
        return "json"
    if _has_choices(items):
        return "picks"
    return "items" if items.get("type") in ("string", "integer", "number") else "json"


def as_json(value: Any) -> str:
    """A value as people read JSON."""
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


def is_within(value: Any, levels: int) -> bool:
    """Whether a value is nested no deeper than that."""
    if not isinstance(value, dict | list):
        return True
    inner = value.values() if isinstance(value, dict) else value
    return levels > 0 and all(is_within(item, levels - 1) for item in inner)


def brief(value: Any) -> str:
    """A value on one line."""
    return json.dumps(value, ensure_ascii=False, default=str)


def type_words(part: SchemaPart) -> str:
    """A type in a few words."""
    schema = part.schema
    if part.kind == "choice":
        shown = " | ".join(brief(value)[:LONGEST] for value in part.choices[:SHOWN_CHOICES])
        words = f"{shown} | …" if len(part.choices) > SHOWN_CHOICES else shown
    elif part.kind == "rows":
        words = "list of object"
    elif part.kind in ("items", "picks"):
        words = f"list of {schema['items'].get('type', 'choices')}"
    else:
        kind = schema.get("type")
        words = " | ".join(map(str, kind)) if isinstance(kind, list | tuple) else str(kind or "anything")[:LONGEST]
    return f"{words} or null" if part.nullable else words


def limit_words(schema: Schema) -> str:
    """The limits of a value in words."""
    return ", ".join(_limit(words, schema[key]) for key, words in _LIMITS.items() if key in schema)


def _limit(words: str, value: Any) -> str:
    told = words.format(str(value)[:LONGEST])
    return told.removesuffix("s") if value == 1 and words.endswith((" characters", " items")) else told


@dataclass(frozen=True, slots=True)
class ParameterRow:
    """One parameter in the table of a tool."""

    name: str
    depth: int
    type: str
    limits: str
    required: bool
    default: str
    about: str


def parameter_rows(schema: Schema) -> list[ParameterRow]:
    """Every parameter, those inside objects below them; what must be given comes first."""
    rows: list[ParameterRow] = []
    for row in _rows(part_of(schema, schema), schema, 0):
        rows.append(row)
        if len(rows) >= MOST_ROWS:
            break
    return rows


def _rows(part: SchemaPart, root: Schema, depth: int) -> Iterator[ParameterRow]:
    for name in sorted(part.properties, key=lambda name: name not in part.required):
        inner = part_of(part.properties[name], root, depth + 1)
        found = inner.schema
        default = brief(found["default"])[:LONGEST] if "default" in found else ""
        about = found.get("description")
        yield ParameterRow(
            str(name),
            depth,
            type_words(inner),
            limit_words(found),
            name in part.required,
            default,
            about[:LONGEST_ABOUT] if isinstance(about, str) else "",
        )
        if inner.kind == "group" or inner.item is not None:
            yield from _rows(inner.item or inner, root, depth + 1)
