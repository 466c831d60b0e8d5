"""A tool's schema out of a Python function: its signature, its docstring, and types as JSON Schema."""

import datetime
import functools
import inspect
import re
import types
from collections.abc import Callable, Iterable, Mapping
from inspect import Parameter
from pathlib import Path, PurePath
from typing import Annotated, Any, NotRequired, Optional, Required, Union, get_args, get_origin, get_type_hints

import msgspec

from toolcrib.core.errors import DefinitionError, InvalidArguments, did_you_mean
from toolcrib.core.requests import Request

_SPHINX = re.compile(r":param\s+(?:[^:]+\s)?\*{0,2}(\w+)\s*:\s*(.*)")
_SPHINX_FIELD = re.compile(r":\w+[^:]*:")
_GOOGLE_HEADING = re.compile(r"(?:Args|Arguments|Parameters|Params):")
_GOOGLE_ITEM = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")


class Docstring(msgspec.Struct, frozen=True):
    """A docstring taken apart."""

    summary: str = ""
    """The first paragraph, as one line."""
    parameters: dict[str, str] = {}


def read_docstring(function: Callable[..., Any]) -> Docstring:
    """The docstring of a function; empty where it has none."""
    lines = (inspect.getdoc(function) or "").splitlines()
    return Docstring(_summary(lines), _google(lines) | _sphinx(lines))


def _summary(lines: list[str]) -> str:
    kept: list[str] = []
    for line in lines:
        if not line.strip() or _SPHINX_FIELD.match(line) or _GOOGLE_HEADING.fullmatch(line.strip()):
            break
        kept.append(line.strip())
    return " ".join(kept)


def _google(lines: list[str]) -> dict[str, str]:
    """The items below the heading: an item starts where the first one did, what is further right goes on with it."""
    block = _indented_block(lines)
    indent = min((_indent(line) for line in block if line.strip()), default=0)
    return _collect(
        (line.strip(), _GOOGLE_ITEM.match(line.strip()) if _indent(line) == indent else None) for line in block
    )


def _sphinx(lines: list[str]) -> dict[str, str]:
    start = next((at for at, line in enumerate(lines) if _SPHINX_FIELD.match(line)), len(lines))
    block: list[str] = []
    for line in lines[start:]:
        if not line.strip():
            break
        block.append(line)
    return _collect((line.strip(), _SPHINX.match(line)) for line in block if not _is_other_field(line))


def _is_other_field(line: str) -> bool:
    return _SPHINX_FIELD.match(line) is not None and _SPHINX.match(line) is None


def _collect(lines: Iterable[tuple[str, re.Match[str] | None]]) -> dict[str, str]:
    texts: dict[str, list[str]] = {}
    current = ""
    for line, item in lines:
        if item is not None:
            current = item[1]
            texts[current] = [item[2]]
        elif current:
            texts[current].append(line)
    return {name: " ".join(part for part in parts if part) for name, parts in texts.items()}


def _indented_block(lines: list[str]) -> list[str]:
    start = next((at for at, line in enumerate(lines) if _GOOGLE_HEADING.fullmatch(line.strip())), None)
    if start is None:
        return []
    outer = _indent(lines[start])
    block: list[str] = []
    for line in lines[start + 1 :]:
        if line.strip() and _indent(line) <= outer:
            break
        block.append(line)
    return block


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


Convert = Callable[[Any], Any]

_UNIONS = frozenset({Union, types.UnionType})
_FORMATS = {datetime.datetime: "date-time", datetime.time: "time"}


class JsonType(msgspec.Struct, frozen=True):
    """An annotation seen from the JSON side."""

    schema: dict[str, Any]
    convert: Convert
    definitions: dict[str, Any] = {}
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


_REFUSED: Mapping[object, str] = {
    Parameter.POSITIONAL_ONLY: "is positional-only",
    Parameter.VAR_POSITIONAL: "takes any number of positional arguments",
}


class SignatureSchema(msgspec.Struct, frozen=True):
    """What a function takes and gives, as JSON Schema, and how to call it with JSON values."""

    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    """Only for functions that return objects."""
    description: str
    """The first paragraph of the docstring."""
    call_parameter: str | None
    """The parameter that takes the ``Request`` itself, if there is one."""
    converters: Mapping[str, Convert]
    convert_rest: Convert | None
    """For the values of ``**`` arguments; ``None`` when the function takes none."""

    def bind(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Keyword arguments for the function, as the types it asks for; its own defaults fill what is missing."""
        return {name: self._convert(name, value) for name, value in arguments.items()}

    def _convert(self, name: str, value: Any) -> Any:
        convert = self.converters.get(name, self.convert_rest)
        if convert is None or name == self.call_parameter:
            raise InvalidArguments(f"There is no parameter {name!r}.", hint=did_you_mean(name, [*self.converters]))
        try:
            return convert(value)
        except msgspec.ValidationError as error:
            raise InvalidArguments(f"{name}: {error}") from None


def signature_schema(function: Callable[..., Any]) -> SignatureSchema:
    """The schemas of a function; a signature that JSON cannot express raises ``DefinitionError``."""
    return _Reader(function).read()


class _Reader:
    """Reads one function's signature."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._name = getattr(function, "__name__", type(function).__name__)
        self._hints = self._resolve_hints()
        self._documented: Docstring = read_docstring(function)
        self._definitions: dict[str, Any] = {}

    def read(self) -> SignatureSchema:
        parameters = [self._check(parameter) for parameter in inspect.signature(self._function).parameters.values()]
        call_parameter = next((each.name for each in parameters if _is_call(self._hints.get(each.name))), None)
        rest = next((each for each in parameters if each.kind is Parameter.VAR_KEYWORD), None)
        named = [each for each in parameters if each is not rest and each.name != call_parameter]
        types = {each.name: self._type_of(each) for each in named}
        convert_rest = self._type_of(rest) if rest else None
        return SignatureSchema(
            input_schema=self._input_schema(named, types, convert_rest),
            output_schema=self._output_schema(),
            description=self._documented.summary,
            call_parameter=call_parameter,
            converters={name: found.convert for name, found in types.items()},
            convert_rest=convert_rest.convert if convert_rest else None,
        )

    def _resolve_hints(self) -> dict[str, Any]:
        target = inspect.unwrap(self._function)
        if isinstance(target, functools.partial):  # a routine, to Python 3.14
            target = target.func
        if not inspect.isroutine(target) and not isinstance(target, type):
            target = getattr(target, "func", None) or type(target).__call__
        try:
            return get_type_hints(target, include_extras=True)
        except (NameError, TypeError, AttributeError) as error:
            raise DefinitionError(
                self._name,
                "signature",
                f"an annotation cannot be resolved: {error}",
                hint="Types of a tool function have to be importable names of its module.",
            ) from None

    def _check(self, parameter: Parameter) -> Parameter:
        if (reason := _REFUSED.get(parameter.kind)) is not None:
            raise DefinitionError(
                self._name,
                f"parameter {parameter.name!r}",
                f"{reason}, but arguments come by name",
                hint="Declare it as an ordinary parameter.",
            )
        return parameter

    def _type_of(self, parameter: Parameter) -> JsonType:
        annotation = self._hints.get(parameter.name, Any)
        if parameter.default is None:
            annotation = Optional[annotation]  # noqa: UP045 - the annotation is a value here
        try:
            found = json_type(annotation)
        except TypeError as error:
            raise DefinitionError(
                self._name,
                f"parameter {parameter.name!r}",
                str(error).splitlines()[-1],
                hint="Annotate it with types that JSON can express.",
            ) from None
        self._keep_definitions(found, f"parameter {parameter.name!r}")
        return found

    def _keep_definitions(self, found: JsonType, part: str) -> None:
        for name, definition in found.definitions.items():
            if self._definitions.setdefault(name, definition) != definition:
                raise DefinitionError(self._name, part, f"two different types are called {name!r}")

    def _input_schema(
        self, parameters: list[Parameter], types: Mapping[str, JsonType], rest: JsonType | None
    ) -> dict[str, Any]:
        required = [each.name for each in parameters if each.default is Parameter.empty]
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {each.name: self._property(each, types[each.name].schema) for each in parameters},
            **({"required": required} if required else {}),
            "additionalProperties": rest.schema if rest else False,
        }
        return schema | ({"$defs": self._definitions} if self._definitions else {})

    def _property(self, parameter: Parameter, schema: dict[str, Any]) -> dict[str, Any]:
        shown = dict(schema)
        if text := self._documented.parameters.get(parameter.name):
            shown.setdefault("description", text)
        if parameter.default is not Parameter.empty:
            try:
                shown["default"] = to_json(parameter.default)
            except TypeError:
                return shown  # a default without a JSON form stays the function's own affair
        return shown

    def _output_schema(self) -> dict[str, Any] | None:
        try:
            found = json_type(self._hints.get("return", Any))
        except TypeError:
            return None
        root = _inline(found)
        if root.get("type") != "object":
            return None
        return root | ({"$defs": found.definitions} if '"$ref"' in str(msgspec.json.encode(root)) else {})


def _inline(found: JsonType) -> dict[str, Any]:
    """The schema itself where it is only a reference: MCP wants ``type: object`` at the top."""
    name = found.schema.get("$ref", "").removeprefix("#/$defs/")
    definition: dict[str, Any] = found.definitions.get(name, {})
    return {**definition, **{key: part for key, part in found.schema.items() if key != "$ref"}}


def _is_call(annotation: Any) -> bool:
    if get_origin(annotation) is Annotated:
        return _is_call(get_args(annotation)[0])
    return annotation is Request or Request in get_args(annotation)
