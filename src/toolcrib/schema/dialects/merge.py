"""Several schemas that must all hold, or of which one must hold, as a single one that accepts no less.

What one schema cannot say for several is set aside under ``ALSO``, to be put into words.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import jsonschema_rs
import msgspec

from toolcrib.schema.cost import refusal
from toolcrib.schema.document import NOWHERE, at_pointer

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


ALSO = "\0also"
"""Not a keyword: rules that hold besides, as pairs of keyword and value."""

_LARGER = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"})
_SMALLER = frozenset({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"})
_TOGETHER = (("if", "then", "else"), ("contains", "minContains", "maxContains"))
"""Keywords that mean nothing without the first of them, and something else beside another one's first."""
REMARKS = frozenset({"title", "description", "default", "examples", "deprecated", "$comment"})
"""Keywords that decide nothing."""

MOST_COMPARED = 1_000_000
"""Pairs of choices; of longer lists the first alone is kept, which accepts no less."""

Schema = Mapping[str, Any]


def both(first: Schema, second: Schema) -> dict[str, Any]:
    """A schema for what fits both; where only one of two rules can stay, it is the first's."""
    merged = dict(first)
    apart = {part for group in _TOGETHER if group[0] in first and group[0] in second for part in group}
    for keyword, value in second.items():
        if keyword in apart:
            _set_aside(merged, keyword, value)
        elif keyword not in merged:
            merged[keyword] = value
        elif keyword not in REMARKS and merged[keyword] != value:
            _unite(merged, keyword, value)
    return merged


def _set_aside(merged: dict[str, Any], keyword: str, value: Any) -> None:
    merged[ALSO] = [*merged.get(ALSO, ()), (keyword, value)]


def _unite(merged: dict[str, Any], keyword: str, value: Any) -> None:
    held = merged[keyword]
    if keyword in _LARGER:
        merged[keyword] = max(held, value)
    elif keyword in _SMALLER:
        merged[keyword] = min(held, value)
    elif (unite := _UNITED.get(keyword)) is not None:
        merged[keyword] = unite(held, value)
    else:
        _set_aside(merged, keyword, value)


def _all_of(held: Any, value: Any) -> dict[str, Any]:
    """Both at once; what was put together before is not wrapped again, or a long list would nest without end."""
    parts = held["allOf"] if isinstance(held, Mapping) and held.keys() == {"allOf"} else None
    return {"allOf": [*parts, value]} if isinstance(parts, list) else {"allOf": [held, value]}


def _common_choices(held: list[Any], value: list[Any]) -> list[Any]:
    if len(held) * len(value) > MOST_COMPARED:
        return held
    return [choice for choice in held if choice in value] or held


def _by_name(held: Schema, value: Schema) -> Schema:
    shared = {name: _all_of(held[name], part) for name, part in value.items() if name in held}
    return {**held, **value, **shared}


def _by_place(held: list[Any], value: list[Any]) -> list[Any]:
    longer = max(held, value, key=len)
    return [_all_of(*pair) for pair in zip(held, value, strict=False)] + longer[min(len(held), len(value)) :]


def _common_types(held: Any, value: Any) -> Any:
    ours, theirs = types_of({"type": held}), types_of({"type": value})
    common = [kind for kind in ours if kind in theirs or (kind == "integer" and "number" in theirs)]
    common += [kind for kind in theirs if kind == "integer" and "number" in ours and kind not in common]
    return (common[0] if len(common) == 1 else common) or held


_UNITED: Mapping[str, Callable[[Any, Any], Any]] = {
    "required": lambda held, value: [*dict.fromkeys([*held, *value])],
    "properties": _by_name,
    "patternProperties": _by_name,
    "prefixItems": _by_place,
    "items": _all_of,
    "type": _common_types,
    "enum": _common_choices,
    "additionalProperties": lambda held, value: held if value is not False else False,
    ALSO: lambda held, value: [*held, *value],
}


def fields_of_forms(forms: Sequence[Schema], known: Schema) -> dict[str, Any]:
    """What can be said of an object that fits one of several forms: its fields, and what all forms ask for.

    Of fields that are ``known``, only what is certain.
    """
    names = dict.fromkeys(name for form in forms for name in form.get("properties", ()))
    told = {name: _one_of(name, forms) for name in names}
    fields: dict[str, Any] = {
        "properties": {name: part for name, part in told.items() if name not in known or ALSO not in part}
    }
    required = [set(form.get("required", ())) for form in forms]
    if common := sorted(set.intersection(*required)):
        fields["required"] = common
    if all(form.get("additionalProperties") is False and "patternProperties" not in form for form in forms):
        fields["additionalProperties"] = False
    return fields if names or common else {}


def _one_of(name: str, forms: Sequence[Schema]) -> dict[str, Any]:
    """What a field may be in any of the forms; a form that does not speak of it may allow anything."""
    told = [form["properties"][name] for form in forms if name in form.get("properties", ())]
    different = list({msgspec.json.encode(part, order="sorted"): part for part in told}.values())
    only = different[0] if len(different) == 1 else {"anyOf": different}
    if any(name not in form.get("properties", ()) and _is_open(form) for form in forms):
        remarks = {key: part for key, part in only.items() if key in REMARKS} if isinstance(only, Mapping) else {}
        return {**remarks, ALSO: [("usually", only)]}
    return only if isinstance(only, dict) else {"anyOf": [only]}


def _is_open(form: Schema) -> bool:
    return form.get("additionalProperties") is not False or "patternProperties" in form


_NEVER_FOLLOWED = ("$dynamicRef", "$recursiveRef", "dependencies")
_DRAFT_HEADS = {"then": "if", "else": "if", "minContains": "contains", "maxContains": "contains"}
_BOUNDS = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}


_NEWER = frozenset({"prefixItems", "dependentRequired", "dependentSchemas", "minContains", "maxContains"})
"""Keywords that drafts before 2019-09 do not know."""


def make_plain(schema: Any, *, is_old: bool = False) -> dict[str, Any]:
    """The schema object with only keywords that mean something, and the others under ``ALSO``."""
    if not isinstance(schema, Mapping):
        return {} if schema is not False else {ALSO: [("never", "")]}
    unknown = [(keyword, value) for keyword, value in schema.items() if is_old and keyword in _NEWER]
    node = _modern({keyword: value for keyword, value in schema.items() if not is_old or keyword not in _NEWER})
    aside = [word for word in node if word in _NEVER_FOLLOWED or not is_well_formed(word, node[word])]
    lost = unknown + [(keyword, node.pop(keyword)) for keyword in aside]
    for keyword, head in _DRAFT_HEADS.items():
        if head not in node:
            node.pop(keyword, None)
    return node | {ALSO: [*node.get(ALSO, ()), *lost]} if lost else node


def _modern(node: dict[str, Any]) -> dict[str, Any]:
    if isinstance(node.get("items"), list):
        node["prefixItems"] = node.pop("items")
        if "additionalItems" in node:
            node["items"] = node["additionalItems"]
    node.pop("additionalItems", None)
    for keyword, bound in _BOUNDS.items():
        if isinstance(node.get(keyword), bool) and node.pop(keyword) and bound in node:
            node[keyword] = node.pop(bound)
    if isinstance(names := node.get("required"), list) and all(isinstance(name, str) for name in names):
        node["required"] = [*dict.fromkeys(names)]
    return node


REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_OLD_DRAFT = re.compile(r"https?://json-schema\.org/draft-0[1-7]/schema#?")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_.-]")


class SchemaReferences:
    """The references of one schema."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self.is_old = isinstance(said := root.get("$schema"), str) and _OLD_DRAFT.fullmatch(said) is not None
        """Whether the schema is of a draft in which nothing counts beside a reference."""
        marks = ("$id", "id") if "draft-04" in str(said) else ("$id",)
        self._is_rebased = any(_is_address(part.get(mark)) for part in _inner(root) for mark in marks)
        self.are_safe = not _has_references(root) or refusal(dict(root)) is None
        """Whether following them comes to an end."""

    def find(self, reference: Any) -> Any:
        """The schema a reference means; ``NOWHERE`` if it leads out, or which one is meant is not certain."""
        if not isinstance(reference, str) or not reference.startswith("#") or self._is_rebased:
            return NOWHERE
        fragment = reference[1:]
        if not fragment:
            return self._root
        found = at_pointer(self._root, fragment) if fragment.startswith("/") else self._anchored(fragment)
        return found if isinstance(found, Mapping | bool) else NOWHERE

    def _anchored(self, name: str) -> Any:
        called = self._anchors.get(name, ())
        return called[0] if len(called) == 1 else NOWHERE

    @cached_property
    def _anchors(self) -> Mapping[str, list[Mapping[str, Any]]]:
        """The parts that have names, by these."""
        found: dict[str, list[Mapping[str, Any]]] = {}
        for part in _parts(self._root):
            for name in _names_of(part):
                found.setdefault(name, []).append(part)
        return found


def name_of(reference: str) -> str:
    """A name for what a reference means, in letters that do no harm in another reference."""
    return _NOT_PLAIN.sub("_", reference.rpartition("/")[2].lstrip("#"))[:48] or "root"


def is_self_contained(value: Any) -> bool:
    """Whether nothing in a piece of a schema refers to, or is referred to from, elsewhere."""
    marks = {*REFERENCES, "$id", "$schema", "$anchor", "$dynamicAnchor", "id"}
    return all(not isinstance(part.get(mark), str) for part in _parts(value) for mark in marks)


def _has_references(root: Mapping[str, Any]) -> bool:
    return any(mark in part for part in _parts(root) for mark in REFERENCES)


def _names_of(part: Mapping[str, Any]) -> set[str]:
    marks = (part.get("$anchor"), part.get("$id"))
    is_named = (isinstance(marks[0], str), isinstance(marks[1], str) and marks[1].startswith("#"))
    return {str(mark).removeprefix("#" * at) for at, mark in enumerate(marks) if is_named[at]}


def _is_address(identifier: Any) -> bool:
    return isinstance(identifier, str) and not identifier.startswith("#")


def _inner(root: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    return (part for part in _parts(root) if part is not root)


def _parts(value: Any) -> Iterator[Mapping[str, Any]]:
    pending = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, Mapping):
            yield part
            pending.extend(part.values())
        elif isinstance(part, list):
            pending.extend(part)
