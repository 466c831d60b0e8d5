"""What is wrong with a value, in words a model can act on: which field, what was expected, what was given."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec
from jsonschema_rs import ValidationError, ValidationErrorKind

from toolcrib.core.errors import nearest

MOST_PROBLEMS = 50
MOST_DESCRIBED = 5

_LONGEST_VALUE = 60
_MOST_NAMES = 20
_MOST_CANDIDATES = 200

Path = tuple[str | int, ...]

_EXPECTED = {
    "minimum": "at least {limit}",
    "maximum": "at most {limit}",
    "exclusiveMinimum": "more than {limit}",
    "exclusiveMaximum": "less than {limit}",
    "multipleOf": "a multiple of {multiple_of}",
    "minLength": "at least {limit} characters",
    "maxLength": "at most {limit} characters",
    "pattern": "text matching {pattern}",
    "format": "text in {format} format",
    "minItems": "at least {limit} items",
    "maxItems": "at most {limit} items",
    "additionalItems": "at most {limit} items",
    "unevaluatedItems": "no further items",
    "uniqueItems": "items that differ from each other",
    "contains": "an item of the required kind",
    "minProperties": "at least {limit} fields",
    "maxProperties": "at most {limit} fields",
    "contentEncoding": "text in {content_encoding} encoding",
    "contentMediaType": "text of type {content_media_type}",
    "falseSchema": "nothing here",
    "not": "a value of another kind",
}


@dataclass(frozen=True, slots=True)
class SchemaProblem:
    """One thing that is wrong with a value."""

    path: Path
    """Where in the value; empty for the value itself."""
    message: str
    expected: str = ""
    keyword: str = ""
    """The rule of JSON Schema that was broken."""


def describe(problems: Sequence[SchemaProblem], schema: Mapping[str, Any] | bool) -> str:
    """The problems as a message for whoever made the value, with the fields the schema requires."""
    lines = [_line(problem) for problem in problems[:MOST_DESCRIBED]]
    if len(problems) > MOST_DESCRIBED:
        lines.append(f"and {len(problems) - MOST_DESCRIBED} more")
    required = _names(schema.get("required")) if isinstance(schema, Mapping) else []
    if required:
        lines.append(f"Required fields: {_listed(required)}.")
    return "\n".join(lines)


JSON_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")


def schema_fault(error: ValidationError) -> str:
    """What is wrong with a schema itself: where, what stands there, and what would be right."""
    path = tuple(error.instance_path)
    where, given = _field(path) or "the schema", show(error.instance)
    if path[-1:] == ("type",):
        similar = _similar(error.instance, JSON_TYPES) if isinstance(error.instance, str) else ""
        hint = f"; did you mean {similar!r}?" if similar else ""
        return f"{where} is {given}, which is no type: those are {', '.join(JSON_TYPES)}, or a list of them{hint}"
    return f"{where} must be {expectation(error.kind)}, not {given}"


def find_problems(errors: Iterable[ValidationError], value: Any, schema: Any) -> list[SchemaProblem]:
    """The validator's errors as problems, in a fixed order; at most ``MOST_PROBLEMS``."""
    explain = _Explanation(value, schema)
    found = {problem for error in islice(errors, MOST_PROBLEMS) for problem in explain.problems(error)}
    return sorted(found, key=lambda problem: (_field(problem.path), problem.message))[:MOST_PROBLEMS]


def show(value: Any) -> str:
    """A value as short JSON; an object or array only by its size."""
    if isinstance(value, Mapping):
        return f"an object with {len(value)} fields" if value else "an empty object"
    if isinstance(value, (list, tuple)):
        return f"an array of {len(value)} items" if value else "an empty array"
    text = value if isinstance(value, str) else _encode(value)
    short = text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"
    return _encode(short) if isinstance(value, str) else short


class _Explanation:
    """Puts errors about one value and one schema into words."""

    def __init__(self, value: Any, schema: Any) -> None:
        self._value, self._schema = value, schema

    def problems(self, error: ValidationError) -> list[SchemaProblem]:
        """One error as problems; a choice among forms is explained by the form that comes closest."""
        kind, path = error.kind, tuple(error.instance_path)
        match kind:
            case ValidationErrorKind.Required():
                return [self._missing(error, path, kind.property)]
            case ValidationErrorKind.AdditionalProperties() | ValidationErrorKind.UnevaluatedProperties():
                return [self._unknown(error, path, name) for name in kind.unexpected[:MOST_PROBLEMS]]
            case ValidationErrorKind.AnyOf() | ValidationErrorKind.OneOfNotValid():
                return self._closest_form(path, kind.context)
            case ValidationErrorKind.OneOfMultipleValid():
                return [self._mismatch(path, "a value that fits exactly one of the allowed forms", kind.name)]
            case ValidationErrorKind.PropertyNames():
                wanted = expectation(kind.error.kind)
                return [SchemaProblem(path, f"a field name must be {wanted}", wanted, kind.name)]
        return [self._mismatch(path, expectation(kind), kind.name)]

    def _mismatch(self, path: Path, expected: str, keyword: str) -> SchemaProblem:
        given = show(_at(self._value, path))
        return SchemaProblem(path, f"expected {expected}, got {given}", expected, keyword)

    def _missing(self, error: ValidationError, path: Path, name: str) -> SchemaProblem:
        properties = self._properties_beside(error)
        expected = _brief(properties.get(name))
        given = _at(self._value, path)
        strangers = [key for key in given if key not in properties] if isinstance(given, Mapping) else []
        sent = _similar(name, strangers)
        kind = f" ({expected})" if expected else ""
        hint = f"; you sent {sent!r}, did you mean {name!r}?" if sent else ""
        return SchemaProblem(path, f"missing required field {name!r}{kind}{hint}", expected, "required")

    def _unknown(self, error: ValidationError, path: Path, name: str) -> SchemaProblem:
        known = list(self._properties_beside(error))
        legal, shown = _listed(known), name[:_LONGEST_VALUE]
        hint = f"allowed: {legal}" if known else "no such field is allowed"
        if meant := _similar(name, known):
            hint = f"did you mean {meant!r}?"
        return SchemaProblem(path, f"unknown field {shown!r}; {hint}", legal, error.kind.name)

    def _closest_form(self, path: Path, forms: Sequence[Sequence[ValidationError]]) -> list[SchemaProblem]:
        told = [[problem for error in form for problem in self.problems(error)] for form in forms]
        fitting = [form for form in told if not _is_of_another_type(form, path)]
        if all(len(form) == 1 and form[0].path == path and form[0].expected for form in fitting):
            expected = " or ".join(dict.fromkeys(form[0].expected for form in fitting or told))
            return [self._mismatch(path, expected, "anyOf")]
        return min(fitting, key=lambda form: (sum(problem.keyword in _CHOOSING for problem in form), len(form)))

    def _properties_beside(self, error: ValidationError) -> Mapping[str, Any]:
        beside = _at(self._schema, tuple(error.schema_path[:-1]))
        properties = beside.get("properties") if isinstance(beside, Mapping) else None
        return properties if isinstance(properties, Mapping) else {}


_CHOOSING = frozenset({"const", "enum"})


def expectation(kind: ValidationErrorKind) -> str:
    """What would have been right, for an error about a single value."""
    match kind:
        case ValidationErrorKind.Type():
            return " or ".join(kind.types)
        case ValidationErrorKind.Enum():
            return f"one of {_values(kind.options)}"
        case ValidationErrorKind.Constant():
            return _values([kind.expected_value])
    return _EXPECTED.get(kind.name, "a value that fits the schema").format_map(kind.as_dict())


def _is_of_another_type(form: Sequence[SchemaProblem], path: Path) -> bool:
    return any(problem.keyword in {"type", "falseSchema"} and problem.path == path for problem in form)


def _brief(schema: Any) -> str:
    if not isinstance(schema, Mapping):
        return ""
    if isinstance(choices := schema.get("enum"), list):
        return f"one of {_values(choices)}"
    kinds = schema.get("type")
    return kinds if isinstance(kinds, str) else " or ".join(_names(kinds))


def _similar(name: str, candidates: Sequence[Any]) -> str:
    likely = [text for text in candidates[:_MOST_CANDIDATES] if isinstance(text, str) and len(text) <= _LONGEST_VALUE]
    found = nearest(name, likely) if len(name) <= _LONGEST_VALUE else []
    return found[0] if found else ""


def _line(problem: SchemaProblem) -> str:
    return f"{_field(problem.path)}: {problem.message}" if problem.path else problem.message


def _field(path: Path) -> str:
    steps = [f"[{step}]" if isinstance(step, int) else f".{step[:_LONGEST_VALUE]}" for step in path]
    return "".join(steps).removeprefix(".")


def _at(whole: Any, path: Path) -> Any:
    for step in path:
        try:
            whole = whole[step]
        except (KeyError, IndexError, TypeError):
            return None
    return whole


def _names(value: Any) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _values(values: Sequence[Any]) -> str:
    return _listed([show(value) if isinstance(value, str) else _encode(value)[:_LONGEST_VALUE] for value in values])


def _encode(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError, OverflowError):
        return ascii(value)
