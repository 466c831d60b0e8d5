"""Forms that servers have people fill in, flat as MCP wants them: what is asked for, and whether what is given fits."""

import math
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, assert_never

import msgspec

from toolcrib.schema.text import printable

FIELDS_MAX = 50
CHOICES_MAX = 200
WORDS_MAX = 2000
TEXT_MAX = 100_000


class FieldKind(StrEnum):
    """What can be given."""

    TEXT = "text"
    NUMBER = "number"
    INTEGER = "integer"
    BOOLEAN = "boolean"
    CHOICE = "choice"
    CHOICES = "choices"


class AskedField(msgspec.Struct, frozen=True):
    """One thing that is asked for."""

    name: str
    kind: FieldKind
    title: str = ""
    description: str = ""
    is_required: bool = False
    default: Any = None
    choices: tuple[tuple[str, str], ...] = ()
    """Each value with its words."""
    least: float | None = None
    most: float | None = None
    """Bounds of a number, of the length of a text, of the number of choices."""


class QuestionForm(msgspec.Struct, frozen=True):
    """A server's question to a person: fields to fill in, an address to go to, or only words to agree to."""

    message: str
    fields: tuple[AskedField, ...] = ()
    url: str = ""


def read_form(params: Mapping[str, Any]) -> QuestionForm:
    """The form of an ``elicitation/create``; raises ``ValueError`` for one that nobody could fill in."""
    message = _words(params.get("message"))
    if params.get("mode") == "url":
        url = params.get("url")
        if not isinstance(url, str) or not url.startswith(("https://", "http://")):
            raise ValueError("the address is none")
        return QuestionForm(message, url=printable(url[:WORDS_MAX]))
    schema = params.get("requestedSchema")
    wanted = schema.get("properties") if isinstance(schema, Mapping) else None
    properties = wanted if isinstance(wanted, Mapping) else {}
    if len(properties) > FIELDS_MAX:
        raise ValueError(f"it has more than {FIELDS_MAX} fields")
    required = schema.get("required") if isinstance(schema, Mapping) else None
    needed = required if isinstance(required, Sequence) else ()
    return QuestionForm(
        message, tuple(_field(str(name), told, name in needed) for name, told in _described(properties))
    )


def _described(properties: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, told in properties.items():
        if not isinstance(told, Mapping):
            raise ValueError(f"the field {name!r:.80} is not described")  # noqa: TRY004 - the form is wrong
        yield name, told


def _field(name: str, told: Mapping[str, Any], is_required: bool) -> AskedField:
    kind = _kind(told)
    of = told.get("items") if kind is FieldKind.CHOICES else told
    bounds = {FieldKind.TEXT: ("minLength", "maxLength"), FieldKind.CHOICES: ("minItems", "maxItems")}
    least, most = bounds.get(kind, ("minimum", "maximum"))
    return AskedField(
        name,
        kind,
        _words(told.get("title")),
        _words(told.get("description")),
        is_required,
        told.get("default"),
        tuple(_choices(of if isinstance(of, Mapping) else {})),
        _number(told.get(least)),
        _number(told.get(most)),
    )


def _kind(told: Mapping[str, Any]) -> FieldKind:
    match told.get("type"):
        case "boolean":
            return FieldKind.BOOLEAN
        case "integer":
            return FieldKind.INTEGER
        case "number":
            return FieldKind.NUMBER
        case "array":
            return FieldKind.CHOICES
        case _:
            return FieldKind.CHOICE if {"enum", "oneOf", "anyOf"} & told.keys() else FieldKind.TEXT


def _choices(told: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each with its words, in the three ways that the revisions have for them."""
    values, names = told.get("enum"), told.get("enumNames")
    if isinstance(values, list):
        shown = names if isinstance(names, list) and len(names) == len(values) else values
        yield from ((str(value), _words(str(word))) for value, word in zip(values[:CHOICES_MAX], shown, strict=False))
        return
    listed = told.get("oneOf") or told.get("anyOf")
    for each in listed[:CHOICES_MAX] if isinstance(listed, list) else ():
        if isinstance(each, Mapping) and "const" in each:
            yield str(each["const"]), _words(str(each.get("title", each["const"])))


def _words(text: Any) -> str:
    return printable(text[:WORDS_MAX]) if isinstance(text, str) else ""


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def fill_in(form: QuestionForm, given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """What was given as the form wants it, from values or from what was typed; and what does not fit."""
    content: dict[str, Any] = {}
    problems = [f"There is no field {name!r:.80}." for name in given if name not in {f.name for f in form.fields}]
    for field in form.fields:
        value = given.get(field.name)
        if value is None or value == "":
            if field.is_required:
                problems.append(f"{field.title or field.name} is needed.")
            continue
        try:
            content[field.name] = _as_wanted(field, value)
        except ValueError as error:
            problems.append(f"{field.title or field.name}: {error}")
    return content, problems


def _as_wanted(field: AskedField, value: Any) -> Any:
    match field.kind:
        case FieldKind.TEXT:
            return _within(field, _text(value), "characters")
        case FieldKind.BOOLEAN:
            return _truth(value)
        case FieldKind.INTEGER | FieldKind.NUMBER:
            return _bounded(field, _as_number(value, is_whole=field.kind is FieldKind.INTEGER))
        case FieldKind.CHOICE:
            return _chosen(field, _text(value))
        case FieldKind.CHOICES:
            listed = value if isinstance(value, list) else [word.strip() for word in _text(value).split(",")]
            return _within(field, [_chosen(field, _text(word)) for word in listed if word != ""], "choices")
        case _:
            assert_never(field.kind)


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > TEXT_MAX:
        raise ValueError(f"a text of at most {TEXT_MAX:,} characters is wanted.")
    return value


def _truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else ""
    if word not in ("true", "yes", "y", "on", "1", "false", "no", "n", "off", "0"):
        raise ValueError("yes or no is wanted.")
    return word in ("true", "yes", "y", "on", "1")


def _as_number(value: Any, *, is_whole: bool) -> float | int:
    try:
        number = float(value) if not isinstance(value, bool) else math.nan
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number) or (is_whole and number != int(number)):
        raise ValueError(f"{'a whole' if is_whole else 'a'} number is wanted.")
    return int(value) if is_whole and isinstance(value, int) else int(number) if is_whole else number


def _bounded(field: AskedField, number: float) -> float:
    if (field.least is not None and number < field.least) or (field.most is not None and number > field.most):
        raise ValueError(_range(field, "", "a number"))
    return number


def _within(field: AskedField, value: Any, what: str) -> Any:
    if (field.least is not None and len(value) < field.least) or (field.most is not None and len(value) > field.most):
        raise ValueError(_range(field, what, ""))
    return value


def _range(field: AskedField, what: str, of: str) -> str:
    least = "" if field.least is None else f"at least {field.least:g}"
    most = "" if field.most is None else f"at most {field.most:g}"
    return f"{of} {' and '.join(filter(None, (least, most)))} {what}".strip() + " is wanted."


def _chosen(field: AskedField, value: str) -> str:
    if value not in {choice for choice, _ in field.choices}:
        shown = ", ".join(choice for choice, _ in field.choices[:20])
        raise ValueError(f"one of {shown} is wanted.")
    return value
