"""Python types as JSON: the schema of an annotation, and the way from a JSON value to what the annotation says."""

import datetime
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Annotated, Any, NotRequired, Required, Union, get_args, get_origin, get_type_hints

import msgspec

Convert = Callable[[Any], Any]

_UNIONS = frozenset({Union, types.UnionType})
_FORMATS = {datetime.datetime: "date-time", datetime.time: "time"}


@dataclass(frozen=True, slots=True)
class JsonType:
    """An annotation seen from the JSON side."""

    schema: dict[str, Any]
    convert: Convert
    definitions: dict[str, Any] = field(default_factory=dict)
    """What ``schema`` refers to, to be put under ``$defs``."""


def json_type(annotation: Any) -> JsonType:
    """The JSON side of an annotation; one that has none raises ``TypeError``."""
    bare, description = _described(annotation)
    try:
        found = _plain(bare)
    except TypeError:
        if get_origin(bare) not in _UNIONS:
            raise
        found = _one_of([json_type(member) for member in get_args(bare)])
    schema = found.schema | ({"description": description} if description else {})
    return JsonType(schema, found.convert, found.definitions)


def to_json(value: Any) -> Any:
    """A Python value as the JSON it would be converted from; ``TypeError`` if it has no such form."""
    return msgspec.to_builtins(value, str_keys=True, enc_hook=_encode)


def _described(annotation: Any) -> tuple[Any, str]:
    """The annotation, and the plain text somebody put into its ``Annotated``."""
    if get_origin(annotation) in {Required, NotRequired}:
        return _described(get_args(annotation)[0])
    if get_origin(annotation) is not Annotated:
        return annotation, ""
    texts = [extra for extra in annotation.__metadata__ if isinstance(extra, str)]
    metas = [extra for extra in annotation.__metadata__ if isinstance(extra, msgspec.Meta)]
    bare = annotation.__origin__
    for meta in metas:
        bare = Annotated[bare, meta]
    return bare, " ".join(texts)


def _plain(annotation: Any) -> JsonType:
    (schema,), definitions = msgspec.json.schema_components(
        [annotation], schema_hook=_schema_of_custom, ref_template="#/$defs/{name}"
    )
    if annotation in _FORMATS:
        schema = schema | {"format": _FORMATS[annotation]}
    _add_field_descriptions(annotation, definitions, set())
    hoisted: dict[str, Any] = {}
    schema = _hoist(schema, hoisted)
    definitions = {name: _hoist(part, hoisted) for name, part in definitions.items()}
    return JsonType(schema, _converter(annotation), hoisted | definitions)


def _converter(annotation: Any) -> Convert:
    def convert(value: Any) -> Any:
        try:
            return msgspec.convert(value, annotation, str_keys=True, dec_hook=_decode)
        except msgspec.ValidationError:
            # JSON has one kind of number: 3.0 is a legal integer, but not to msgspec.
            whole = _with_whole_numbers(value)
            if repr(whole) == repr(value):
                raise
            return msgspec.convert(whole, annotation, str_keys=True, dec_hook=_decode)

    return convert


def _one_of(members: list[JsonType]) -> JsonType:
    """A union whose members msgspec cannot tell apart: each is tried in the order written."""

    def convert(value: Any) -> Any:
        failures = []
        for member in members:
            try:
                return member.convert(value)
            except msgspec.ValidationError as failure:
                failures.append(str(failure))
        raise msgspec.ValidationError("; or ".join(failures))

    definitions = {name: part for member in members for name, part in member.definitions.items()}
    return JsonType({"anyOf": [member.schema for member in members]}, convert, definitions)


def _schema_of_custom(kind: type) -> dict[str, Any]:
    if issubclass(kind, PurePath):
        return {"type": "string", "format": "path"}
    if (describe := getattr(kind, "model_json_schema", None)) is not None:
        return dict(describe())
    raise TypeError(f"{kind.__qualname__} has no JSON form")


def _decode(kind: type, value: Any) -> Any:
    if issubclass(kind, PurePath) and isinstance(value, str):
        return kind(value)
    if (validate := getattr(kind, "model_validate", None)) is not None:
        return validate(value)
    raise msgspec.ValidationError(f"Expected `{kind.__name__}`, got `{type(value).__name__}`")


def _encode(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if (dump := getattr(value, "model_dump", None)) is not None:
        return dump(mode="json")
    raise TypeError(f"{type(value).__qualname__} has no JSON form")


def _hoist(schema: Any, hoisted: dict[str, Any]) -> Any:
    """The schema without the ``$defs`` a model put inside of it, which are moved to where its references look."""
    if isinstance(schema, list):
        return [_hoist(part, hoisted) for part in schema]
    if not isinstance(schema, dict):
        return schema
    for name, part in schema.get("$defs", {}).items():
        hoisted[name] = _hoist(part, hoisted)
    return {key: _hoist(part, hoisted) for key, part in schema.items() if key != "$defs"}


def _add_field_descriptions(annotation: Any, definitions: dict[str, Any], seen: set[int]) -> None:
    """Put the texts that fields of nested classes carry in their ``Annotated`` where the model sees them."""
    for part in get_args(annotation):
        _add_field_descriptions(part, definitions, seen)
    name = getattr(annotation, "__name__", "")
    if name not in definitions or id(annotation) in seen or not isinstance(annotation, type):
        return
    seen.add(id(annotation))
    properties = definitions[name].get("properties", {})
    for part, hint in get_type_hints(annotation, include_extras=True).items():
        if part in properties and (text := _described(hint)[1]):
            properties[part].setdefault("description", text)
        _add_field_descriptions(hint, definitions, seen)


def _with_whole_numbers(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _with_whole_numbers(part) for key, part in value.items()}
    return [_with_whole_numbers(part) for part in value] if isinstance(value, list) else value
