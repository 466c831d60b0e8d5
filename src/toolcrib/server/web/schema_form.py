"""Forms made of JSON Schemas: one field for each parameter, with the values that stand in it."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from toolcrib.server.web.schema_parts import (
    DEEPEST_JSON,
    MOST_ROWS,
    Schema,
    SchemaPart,
    as_json,
    brief,
    is_within,
    limit_words,
    parameter_rows,
    part_of,
    type_words,
)

Path = tuple[str, ...]
Fields = Mapping[str, str]

LONG = frozenset({"body", "code", "content", "data", "html", "markdown", "message", "prompt", "script", "sql", "text"})
LONG_FROM = 400
LONGEST_NUMBER = 400
LARGEST = 10**300
MOST_LISTED = 30
"""Rows of a list of objects that a form has at most."""
BLANK = "#"


class _Missing:
    """Nothing was given."""


MISSING = _Missing()


@dataclass(frozen=True, slots=True)
class Option:
    """One thing that can be chosen."""

    name: str
    value: str
    label: str
    is_chosen: bool = False


SUGGESTED_MAX = 100


@dataclass(frozen=True, slots=True)
class FormField:
    """One field of a form, or a group of them."""

    path: Path
    kind: str
    """That of its part; ``json`` for a value that only JSON can say."""
    part: SchemaPart
    is_required: bool = False
    is_certain: bool = False
    """Whether it and all around it are required, so that nothing written in it still is a value."""
    text: str = ""
    options: tuple[Option, ...] = ()
    fields: tuple["FormField", ...] = ()
    """Those of a group, or the rows of a list of objects."""
    blank: "FormField | None" = None
    """An empty row of such a list."""
    is_row: bool = False
    problem: str = ""

    @property
    def name(self) -> str:
        """What the browser calls it; unlike other fields, those with JSON begin with ``j``."""
        return pointer("j" if self.kind == "json" else "a", self.path)

    @property
    def label(self) -> str:
        """What people read."""
        title = self.part.schema.get("title")
        if self.path and self.is_row:
            return f"{self.path[-2]} {int(self.path[-1]) + 1}"
        return self.path[-1] if self.path else title if isinstance(title, str) else "Arguments"

    @property
    def suggestions(self) -> list[str]:
        """Texts that could be written in it."""
        found = self.part.schema.get("examples")
        return [one for one in found if isinstance(one, str)][:SUGGESTED_MAX] if isinstance(found, list) else []

    @property
    def about(self) -> str:
        """What the schema says of it; of a row, nothing its list has not said."""
        found = self.part.schema.get("description")
        return found if isinstance(found, str) else ""

    @property
    def rules(self) -> str:
        """Its type and limits in words."""
        return ", ".join(filter(None, (type_words(self.part), limit_words(self.part.schema))))

    @property
    def placeholder(self) -> str:
        """What a value may look like."""
        schema = self.part.schema
        found = [schema["default"]] if "default" in schema else schema.get("examples")
        shown = found[0] if isinstance(found, list | tuple) and found else ""
        return shown if isinstance(shown, str) else brief(shown)

    @property
    def is_long(self) -> bool:
        """Whether it wants more than one line."""
        longest = self.part.schema.get("maxLength")
        is_named_so = bool(self.path) and self.path[-1].lower() in LONG and longest is None
        return "\n" in self.text or is_named_so or (isinstance(longest, int) and longest >= LONG_FROM)


def pointer(start: str, path: Path) -> str:
    """A path as one word, whatever stands in it."""
    return "/".join((start, *(step.replace("~", "~0").replace("/", "~1") for step in path)))


def with_suggestions(schema: Schema, suggested: Mapping[str, Sequence[str]]) -> Schema:
    """The schema of a tool's arguments, with what its author suggests for them as examples."""
    properties = schema.get("properties")
    if not suggested or not isinstance(properties, Mapping):
        return schema
    more = {name: {**properties[name], "examples": [*words]} for name, words in suggested.items() if name in properties}
    return {**schema, "properties": {**properties, **more}}


def make_form(schema: Schema, values: Mapping[str, Any]) -> tuple[FormField, ...]:
    """The fields for a tool's arguments, with these values in them; one field of JSON where nothing else would do."""
    root = part_of(schema, schema)
    if not values and not root.properties and schema.get("additionalProperties") is False:
        return ()
    if len(parameter_rows(schema)) >= MOST_ROWS:
        return (FormField((), "json", root, text=as_json(dict(values))),)
    whole = _field((), root, dict(values), schema, is_certain=True, is_required=False)
    return whole.fields if whole.kind == "group" else (whole,)


def first_values(schema: Schema) -> dict[str, Any]:
    """What stands in a form at first: the defaults."""
    part = part_of(schema, schema)
    found = {name: part_of(inner, schema).schema for name, inner in part.properties.items()}
    return {name: inner["default"] for name, inner in found.items() if "default" in inner}


def _field(
    path: Path, part: SchemaPart, value: Any, root: Schema, *, is_certain: bool, is_required: bool = True
) -> FormField:
    is_certain = is_certain and not part.nullable
    kind = part.kind if value is MISSING or _is_plain(part, value, may_be_blank=is_certain) else "json"
    field = FormField(path, kind, part, is_required, is_certain)
    if kind == "rows" and part.item is not None:
        return _with_rows(field, part.item, [] if value is MISSING else value, root)
    if kind == "group":
        given = value if isinstance(value, Mapping) else {}
        return replace(field, fields=_inside(field, given, root))
    if kind == "choice":
        return replace(field, options=_choices(field, value))
    if kind == "picks":
        return replace(field, options=_picks(field, () if value is MISSING else value))
    return field if value is MISSING else replace(field, text=_written(kind, value))


def _with_rows(field: FormField, item: SchemaPart, values: list[Any], root: Schema) -> FormField:
    """A list of objects, with a row for each; one that a row could not tell from nothing is JSON."""
    made = [
        replace(_field((*field.path, place), item, value, root, is_certain=False), is_row=True)
        for place, value in ((BLANK, MISSING), *((str(number), value) for number, value in enumerate(values)))
    ]
    if any(row.kind != "group" or _is_blank(row) for row in made[1:]):
        return replace(field, kind="json", text=_written("json", values))
    return replace(field, fields=tuple(made[1:]), blank=made[0])


def with_row(form: tuple[FormField, ...], name: str) -> tuple[FormField, ...]:
    """The form with one more empty row in the list of that name."""
    return tuple(_with_row(field, name) for field in form)


def _with_row(field: FormField, name: str) -> FormField:
    fields = with_row(field.fields, name)
    if field.blank is not None and field.name == name and len(fields) < MOST_LISTED:
        fields = (*fields, _placed(field.blank, len(field.path), len(fields)))
    return replace(field, fields=fields)


def _placed(row: FormField, depth: int, number: int) -> FormField:
    """An empty row, or a part of one, with its number where it has none yet."""
    path = (*row.path[:depth], str(number), *row.path[depth + 1 :])
    before, after = pointer("", row.path), pointer("", path)
    return replace(
        row,
        path=path,
        options=tuple(replace(one, name=one.name.replace(before, after, 1)) for one in row.options),
        fields=tuple(_placed(inner, depth, number) for inner in row.fields),
        blank=_placed(row.blank, depth, number) if row.blank is not None else None,
    )


def _inside(field: FormField, values: Mapping[str, Any], root: Schema) -> tuple[FormField, ...]:
    part = field.part
    return tuple(
        _field(
            (*field.path, name),
            part_of(part.properties[name], root, len(field.path) + 1),
            values.get(name, MISSING),
            root,
            is_certain=field.is_certain and name in part.required,
            is_required=name in part.required,
        )
        for name in sorted(part.properties, key=lambda name: name not in part.required)
    )


def _written(kind: str, value: Any) -> str:
    if kind == "items":
        return "\n".join(item if isinstance(item, str) else brief(item) for item in value)
    if kind == "json":
        return as_json(value)
    return value if isinstance(value, str) else brief(value)


def _choices(field: FormField, value: Any) -> tuple[Option, ...]:
    wanted = None if value is MISSING else brief(value)
    return tuple(
        Option(field.name, str(place), _label(choice), brief(choice) == wanted)
        for place, choice in enumerate(field.part.choices)
    )


def _picks(field: FormField, values: Any) -> tuple[Option, ...]:
    wanted = {brief(value) for value in values}
    return tuple(
        Option(f"{field.name}/{place}", "on", _label(choice), brief(choice) in wanted)
        for place, choice in enumerate(field.part.choices)
    )


def _label(choice: Any) -> str:
    return choice if isinstance(choice, str) and choice else brief(choice)


def _is_plain(part: SchemaPart, value: Any, *, may_be_blank: bool) -> bool:
    """Whether the field of this kind can say the value, and nothing else is said by it."""
    if not (may_be_blank or value not in ("", [], {})):
        return False
    says = _SAYS.get(part.kind)
    return says is not None and says(part, value)


def _survives(text: str) -> bool:
    """Whether a browser sends the text as it got it."""
    return all(char.isprintable() or char in "\n\t" for char in text)


def _are_plain(part: SchemaPart, values: list[Any]) -> bool:
    if part.kind == "picks":
        places = [list(map(brief, part.choices)).index(found) for found in map(brief, values) if _is_in(part, found)]
        return len(places) == len(values) and places == sorted(set(places))
    if part.item_kind == "text":
        return all(isinstance(item, str) and item.strip() and _survives(item) and "\n" not in item for item in values)
    return all(map(_is_number, values))


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) < LARGEST and len(brief(value)) <= LONGEST_NUMBER


def _is_in(part: SchemaPart, found: str) -> bool:
    return found in map(brief, part.choices)


_SAYS: Mapping[str, Callable[[SchemaPart, Any], bool]] = {
    "text": lambda _, value: isinstance(value, str) and _survives(value),
    "integer": lambda _, value: _is_number(value),
    "number": lambda _, value: _is_number(value),
    "flag": lambda _, value: isinstance(value, bool),
    "choice": lambda part, value: _is_in(part, brief(value)),
    "items": lambda part, value: isinstance(value, list) and _are_plain(part, value),
    "picks": lambda part, value: isinstance(value, list) and _are_plain(part, value),
    "group": lambda part, value: isinstance(value, Mapping) and value.keys() <= part.properties.keys(),
    "rows": lambda _, value: isinstance(value, list) and len(value) <= MOST_LISTED,
}
"""Whether a field of each kind can say a value that is not empty."""


NEEDED = "This is required."
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_LINE = re.compile(r"\r\n|\r|\n")


class Wrong(Exception):
    """What stands in a field cannot be what is wanted."""


def refill(form: tuple[FormField, ...], sent: Fields) -> tuple[FormField, ...]:
    """The form as it was sent, right or wrong."""
    return tuple(_refilled(field, sent) for field in form)


def _refilled(field: FormField, sent: Fields) -> FormField:
    as_text = pointer("j", field.path)
    if as_text in sent:
        return replace(field, kind="json", text=_unfolded(sent[as_text]), options=(), fields=())
    if field.kind == "group":
        return replace(field, fields=refill(field.fields, sent))
    if field.blank is not None:
        return replace(field, fields=_sent_rows(field, field.blank, sent))
    if field.options:
        chosen = [replace(option, is_chosen=sent.get(option.name) == option.value) for option in field.options]
        return replace(field, options=tuple(chosen))
    return replace(field, text=_unfolded(sent.get(field.name, "")))


def _sent_rows(field: FormField, blank: FormField, sent: Fields) -> tuple[FormField, ...]:
    """The rows of a list that were sent with anything in them, numbered anew."""
    starts = tuple(f"{pointer(start, field.path)}/" for start in ("a", "j"))
    found = {name.split("/")[len(field.path) + 1] for name in sent if name.startswith(starts)}
    numbers = sorted(int(one) for one in found if one.isascii() and one.isdigit() and len(one) < 3)[:MOST_LISTED]
    rows = [_refilled(_placed(blank, len(field.path), number), sent) for number in numbers]
    filled = [row for row in rows if not _is_blank(row)]
    return tuple(_placed(row, len(field.path), number) for number, row in enumerate(filled))


def _unfolded(text: str) -> str:
    return _LINE.sub("\n", text)


def read_form(form: tuple[FormField, ...]) -> tuple[dict[str, Any], dict[Path, str]]:
    """The arguments, and what is wrong by path; ``form`` is one that was refilled."""
    problems: dict[Path, str] = {}
    if len(form) == 1 and not form[0].path:
        whole = _read(form[0], problems)
        if isinstance(whole, dict) or whole is MISSING:
            return whole if isinstance(whole, dict) else {}, problems
        problems.setdefault((), 'Write a JSON object: {"name": "value"}.')
        return {}, problems
    return _read_all(form, problems), problems


def _read_all(form: tuple[FormField, ...], problems: dict[Path, str]) -> dict[str, Any]:
    found = {field.path[-1]: _read(field, problems) for field in form}
    return {name: value for name, value in found.items() if value is not MISSING}


def _read(field: FormField, problems: dict[Path, str]) -> Any:
    try:
        if not _is_blank(field):
            return _inner(field, problems) if field.kind in ("group", "rows") else _value(field)
        return _blank(field, problems)
    except Wrong as wrong:
        problems[field.path] = str(wrong)
        return MISSING


def _inner(field: FormField, problems: dict[Path, str]) -> Any:
    if field.kind == "group":
        return _read_all(field.fields, problems)
    return [_read_all(row.fields, problems) for row in field.fields if not _is_blank(row)]


def _is_blank(field: FormField) -> bool:
    if field.kind in ("group", "rows"):
        return all(_is_blank(inner) for inner in field.fields)
    if field.options:
        return not any(option.is_chosen for option in field.options)
    return field.text == "" if field.kind == "text" else not field.text.strip()


def _blank(field: FormField, problems: dict[Path, str]) -> Any:
    """What it means that nothing was written."""
    if not field.is_required:
        return MISSING
    if field.part.nullable and field.kind != "json":
        return None
    if field.kind == "group":
        return _read_all(field.fields, problems)
    if field.kind == "text":
        return ""
    if field.kind in ("items", "picks", "rows"):
        return []
    raise Wrong(NEEDED)


def _value(field: FormField) -> Any:
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


def with_problems(form: tuple[FormField, ...], problems: Mapping[Path, str]) -> tuple[FormField, ...]:
    """The form with what is wrong said where it is."""
    return tuple(
        replace(field, problem=problems.get(field.path, ""), fields=with_problems(field.fields, problems))
        for field in form
    )


def paths_of(form: tuple[FormField, ...]) -> frozenset[Path]:
    """Where something can be said."""
    return frozenset(field.path for field in form) | frozenset(
        path for field in form for path in paths_of(field.fields)
    )
