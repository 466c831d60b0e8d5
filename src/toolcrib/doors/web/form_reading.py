"""From what a browser sends back to typed arguments, or to what is wrong, field by field."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from toolcrib.doors.web.schema_form import LONGEST_NUMBER, MISSING, Field, Fields, Path, pointer
from toolcrib.doors.web.schema_parts import DEEPEST_JSON, is_within

NEEDED = "This is needed."
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_LINE = re.compile(r"\r\n|\r|\n")


class Wrong(Exception):
    """What stands in a field cannot be what is wanted."""


def refill(form: tuple[Field, ...], sent: Fields) -> tuple[Field, ...]:
    """The form as it was sent, right or wrong."""
    return tuple(_refilled(field, sent) for field in form)


def _refilled(field: Field, sent: Fields) -> Field:
    as_text = pointer("j", field.path)
    if as_text in sent:
        return replace(field, kind="json", text=_unfolded(sent[as_text]), options=(), fields=())
    if field.kind == "group":
        return replace(field, fields=refill(field.fields, sent))
    if field.options:
        chosen = [replace(option, is_chosen=sent.get(option.name) == option.value) for option in field.options]
        return replace(field, options=tuple(chosen))
    return replace(field, text=_unfolded(sent.get(field.name, "")))


def _unfolded(text: str) -> str:
    return _LINE.sub("\n", text)


def read_form(form: tuple[Field, ...]) -> tuple[dict[str, Any], dict[Path, str]]:
    """The arguments, and what is wrong by path; ``form`` is one that was refilled."""
    problems: dict[Path, str] = {}
    if len(form) == 1 and not form[0].path:
        whole = _read(form[0], problems)
        if isinstance(whole, dict) or whole is MISSING:
            return whole if isinstance(whole, dict) else {}, problems
        problems.setdefault((), 'Write a JSON object: {"name": "value"}.')
        return {}, problems
    return _read_all(form, problems), problems


def _read_all(form: tuple[Field, ...], problems: dict[Path, str]) -> dict[str, Any]:
    found = {field.path[-1]: _read(field, problems) for field in form}
    return {name: value for name, value in found.items() if value is not MISSING}


def _read(field: Field, problems: dict[Path, str]) -> Any:
    try:
        if not _is_blank(field):
            return _read_all(field.fields, problems) if field.kind == "group" else _value(field)
        return _blank(field, problems)
    except Wrong as wrong:
        problems[field.path] = str(wrong)
        return MISSING


def _is_blank(field: Field) -> bool:
    if field.kind == "group":
        return all(_is_blank(inner) for inner in field.fields)
    if field.options:
        return not any(option.is_chosen for option in field.options)
    return field.text == "" if field.kind == "text" else not field.text.strip()


def _blank(field: Field, problems: dict[Path, str]) -> Any:
    """What it means that nothing was written."""
    if not field.is_required:
        return MISSING
    if field.part.nullable and field.kind != "json":
        return None
    if field.kind == "group":
        return _read_all(field.fields, problems)
    if field.kind == "text":
        return ""
    if field.kind in ("items", "picks"):
        return []
    raise Wrong(NEEDED)


def _value(field: Field) -> Any:
    if field.kind == "text":
        return field.text
    if field.kind == "choice":
        place = next(int(option.value) for option in field.options if option.is_chosen)
        return field.part.choices[place]
    if field.kind == "picks":
        pairs = zip(field.options, field.part.choices, strict=True)
        return [choice for option, choice in pairs if option.is_chosen]
    if field.kind == "items":
        lines = [line for line in field.text.split("\n") if line.strip()]
        return [_scalar(field.part.item_kind, line) for line in lines]
    return _read_json(field.text) if field.kind == "json" else _scalar(field.kind, field.text)


def _scalar(kind: str, text: str) -> Any:
    if kind == "text":
        return text
    if kind == "flag":
        if text not in ("true", "false"):
            raise Wrong("Choose true or false.")
        return text == "true"
    return _number(kind, text.strip())


def _number(kind: str, text: str) -> int | float:
    words = "a whole number" if kind == "integer" else "a number"
    if len(text) > LONGEST_NUMBER or not _NUMBER.fullmatch(text):
        raise Wrong(f"{text[:40]!r} is not {words}.")
    found: int | float = json.loads(text)
    if found in (float("inf"), float("-inf")):
        raise Wrong("This number is too large.")
    if kind == "integer" and isinstance(found, float):
        if not found.is_integer():
            raise Wrong(f"{text[:40]!r} is not {words}.")
        return int(found)
    return found


def _read_json(text: str) -> Any:
    try:
        found = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Wrong(f"This is not JSON: {error}"[:200]) from None
    if not is_within(found, DEEPEST_JSON):
        raise Wrong(f"This is nested more than {DEEPEST_JSON} levels deep.")
    return found


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def read_object(text: str) -> tuple[dict[str, Any], str]:
    """The arguments of the JSON editor, and what is wrong with them."""
    try:
        found = _read_json(text) if text.strip() else {}
    except Wrong as wrong:
        return {}, str(wrong)
    return (found, "") if isinstance(found, dict) else ({}, 'Write a JSON object: {"name": "value"}.')


def with_problems(form: tuple[Field, ...], problems: Mapping[Path, str]) -> tuple[Field, ...]:
    """The form with what is wrong said where it is."""
    return tuple(
        replace(field, problem=problems.get(field.path, ""), fields=with_problems(field.fields, problems))
        for field in form
    )


def paths_of(form: tuple[Field, ...]) -> frozenset[Path]:
    """Where something can be said."""
    return frozenset(field.path for field in form) | frozenset(
        path for field in form for path in paths_of(field.fields)
    )
