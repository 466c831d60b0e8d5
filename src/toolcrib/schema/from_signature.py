"""A tool's schemas read off a Python function: its parameters, their types and what its docstring says of them."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter
from typing import Annotated, Any, Optional, get_args, get_origin, get_type_hints

import msgspec

from toolcrib.core.call import ToolCall
from toolcrib.core.errors import DefinitionError, InvalidArguments, did_you_mean
from toolcrib.schema.docstrings import Docstring, read_docstring
from toolcrib.schema.json_types import Convert, JsonType, json_type, to_json

_REFUSED: Mapping[object, str] = {
    Parameter.POSITIONAL_ONLY: "is positional-only",
    Parameter.VAR_POSITIONAL: "takes any number of positional arguments",
}


@dataclass(frozen=True, slots=True)
class SignatureSchema:
    """What a function takes and gives, as JSON Schema, and how to call it with JSON values."""

    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    """Only for functions that return objects."""
    description: str
    """The first paragraph of the docstring."""
    call_parameter: str | None
    """The parameter that takes the ``ToolCall`` itself, if there is one."""
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
    return annotation is ToolCall or ToolCall in get_args(annotation)
