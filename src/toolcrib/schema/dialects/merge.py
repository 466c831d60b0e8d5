"""Several schemas that must all hold, or of which one must hold, as a single one that accepts no less.

What one schema cannot say for several is set aside under ``ALSO``, to be put into words.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from toolcrib.schema.dialects.wellformed import types_of

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
