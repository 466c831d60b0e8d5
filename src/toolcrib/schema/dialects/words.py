"""Rules a provider's form has no place for, in plain words for the description."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

LONGEST = 240
"""How much is said of one rule."""

CUT = " … [cut]"

SILENT = frozenset({"$schema", "$id", "id", "$comment", "$defs", "definitions", "title", "readOnly", "writeOnly"}) | {
    "$anchor",
    "$dynamicAnchor",
    "$recursiveAnchor",
    "$vocabulary",
}
"""Keywords whose loss is no loss to whoever fills in the arguments."""

BOUNDS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
}
"""The usual limits, for people and for models."""

_PLAIN = {
    **BOUNDS,
    "minProperties": "at least {} fields",
    "maxProperties": "at most {} fields",
    "propertyNames": "field names must fit {}",
    "contains": "at least one item must fit {}",
    "prefixItems": "the first items, in order, must fit {}",
    "not": "must not fit {}",
    "if": "if it fits {}",
    "then": "then it must also fit {}",
    "else": "otherwise it must fit {}",
    "oneOf": "must fit exactly one of {}",
    "anyOf": "must fit one of {}",
    "allOf": "must fit all of {}",
    "const": "must be {}",
    "enum": "one of {}",
    "examples": "for example {}",
    "dependentSchemas": "where a field is given, it must also fit {}",
    "dependencies": "where a field is given, it also needs {}",
    "type": "of type {}",
    "items": "items must fit {}",
    "required": "needs {}",
    "properties": "with fields {}",
    "usually": "usually fits {}",
}


def in_words(keyword: str, value: Any) -> str:
    """One rule in words; nothing for what no model needs to know."""
    if keyword in SILENT or keyword.startswith("x-"):
        return ""
    say = _SPECIAL.get(keyword)
    said = say(value) if say else _PLAIN.get(keyword, keyword + ": {}").replace("{}", as_json(value))
    return shorten(said, LONGEST)


def add_words(description: str, said: Iterable[str], limit: int | None = None) -> str:
    """A description with rules behind it; if there is a limit, the rules stay and the text before them gives way."""
    rules = "; ".join(dict.fromkeys(filter(None, said)))
    tail = (f" ({rules})" if description else rules) if rules else ""
    if limit is None or len(description) + len(tail) <= limit:
        return description + tail
    tail = shorten(tail, limit // 2)
    return shorten(description, limit - len(tail)) + tail


def shorten(text: str, limit: int) -> str:
    """The text, cut with a mark if it is longer than ``limit``."""
    return text if len(text) <= limit else text[: max(0, limit - len(CUT))].rstrip() + CUT[-limit:]


def as_json(value: Any) -> str:
    """A value as the shortest JSON."""
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError, OverflowError):
        return ascii(value)


def _either(value: Any) -> str:
    """``anyOf`` that only asks for fields, as people would say it."""
    forms = value if isinstance(value, list) else []
    if forms and all(isinstance(form, Mapping) and form.keys() == {"required"} for form in forms):
        return "needs " + " or ".join(" and ".join(map(str, form["required"])) for form in forms)
    return _PLAIN["anyOf"].replace("{}", as_json(value))


def _exactly_one(value: Any) -> str:
    said = _either(value)
    return (
        f"{said}, exactly one of these" if said.startswith("needs ") else _PLAIN["oneOf"].replace("{}", as_json(value))
    )


def _needed(value: Any) -> str:
    if not isinstance(value, Mapping):
        return ""
    return "; ".join(f"{name} needs {' and '.join(map(str, others))}" for name, others in value.items())


def _others(value: Any) -> str:
    return "no other fields" if value is False else "" if value in (True, {}) else f"other fields fit {as_json(value)}"


def _patterned(value: Any) -> str:
    return "; ".join(f"fields named like {name} fit {as_json(part)}" for name, part in value.items())


_SPECIAL: Mapping[str, Callable[[Any], str]] = {
    "anyOf": _either,
    "oneOf": _exactly_one,
    "dependentRequired": _needed,
    "additionalProperties": _others,
    "unevaluatedProperties": _others,
    "unevaluatedItems": lambda value: "no further items" if value is False else "",
    "patternProperties": lambda value: _patterned(value) if isinstance(value, Mapping) else "",
    "pattern": lambda value: f"must match {value}",
    "format": lambda value: f"in {value} format",
    "default": lambda value: "" if value is None else f"default {as_json(value)}",
    "uniqueItems": lambda value: "items differ from each other" if value is True else "",
    "deprecated": lambda value: "deprecated" if value is True else "",
    "again": lambda value: f"the same form again as {value}",
    "never": lambda _: "must not be given",
    "unsaid": lambda _: "more rules apply than are said here",
    "one": lambda _: "fits exactly one of the forms",
    "minContains": lambda value: f"at least {value} such items",
    "maxContains": lambda value: f"at most {value} such items",
    "contentEncoding": lambda value: f"in {value} encoding",
    "contentMediaType": lambda value: f"holds {value}",
    "$ref": lambda value: f"as described at {value}",
    "$dynamicRef": lambda value: f"as described at {value}",
    "$recursiveRef": lambda value: f"as described at {value}",
}
