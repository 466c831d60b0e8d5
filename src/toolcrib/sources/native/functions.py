"""Native tools: plain Python functions, sync or async, described by their signature."""

import importlib
import inspect
import math
import re
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from os import PathLike
from typing import Any, TypeVar, overload

import msgspec

from toolcrib.core.errors import (
    ConfigError,
    DefinitionError,
    InvalidExample,
    InvalidSchema,
    ToolFailed,
    did_you_mean,
)
from toolcrib.core.kinds import AUTO, IsolationChoice, IsolationLevel
from toolcrib.core.offers import Category, Deprecation, Example, JsonObject, SecurityLevel, Tool
from toolcrib.core.requests import Request, Result
from toolcrib.isolate.levels import WORKER_LIMITS, IsolationWanted
from toolcrib.schema.arguments import apply_defaults
from toolcrib.schema.check import SchemaCheck, compile_check
from toolcrib.schema.from_signature import SignatureSchema, signature_schema
from toolcrib.schema.problems import describe
from toolcrib.wire import strict

_NO_PICTURE = (dict, list, int, float)  # made once: a union written in the function is made at each call
_NUMBERS = frozenset({int, float, bool})
NAME_MAX = 64
DESCRIPTION_MAX = 16_384
_NAME = re.compile(rf"[A-Za-z0-9_.-]{{1,{NAME_MAX}}}")
_CONTENT_TYPES = frozenset({"text", "image", "audio", "resource", "resource_link"})


def to_result(value: Any, *, structured: bool = False) -> Result:
    """Text for the model, and the same as structured content where it is an object."""
    if isinstance(value, Result):
        return value
    if _is_content(value):
        return Result({"content": _mend(value)})
    if value is None or isinstance(value, str):
        return Result({"content": [] if value is None else [_text(value)]}, value=value)
    if not isinstance(value, _NO_PICTURE) and (picture := _picture(value)) is not None:
        return Result({"content": [picture]}, value=value)
    plain = value if type(value) in _NUMBERS else _plain(value)
    try:
        text = _to_text(plain)
    except UnicodeEncodeError:
        plain = _mend(plain)
        text = _to_text(plain)
    result: dict[str, Any] = {"content": [_text(text)]}
    if structured or isinstance(plain, dict):
        _refuse_unreadable(text)
        result["structuredContent"] = plain
    return Result(result, value=value)


_PICTURES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}


def _picture(value: Any) -> dict[str, Any] | None:
    """The block of a picture: the bytes of a file, or whatever shows itself as PNG, as Pillow's images do."""
    draw = getattr(value, "_repr_png_", None)
    data = draw() if callable(draw) and not isinstance(value, type) else value
    if not isinstance(data, bytes):
        return None
    kind = next((kind for start, kind in _PICTURES.items() if data.startswith(start)), "")
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        kind = "image/webp"
    return {"type": "image", "data": b64encode(data).decode(), "mimeType": kind} if kind else None


def _refuse_unreadable(text: str) -> None:
    """A client that cannot read a value would wait for its answer for ever; short ones are read by everybody."""
    if len(text) > 2 * strict.DEPTH_MAX and (flaw := strict.flaw_of(text.encode())):
        raise ToolFailed(f"The tool returned a value that cannot be read by every client: {flaw}.")


def _is_content(value: Any) -> bool:
    """A non-empty list of MCP content blocks is taken as it is."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(block, dict) and block.get("type") in _CONTENT_TYPES for block in value)
    )


def _plain(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    return msgspec.to_builtins(value, str_keys=True, enc_hook=str)


def _to_text(plain: Any) -> str:
    return plain if isinstance(plain, str) else msgspec.json.encode(plain).decode()


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": _mend(text)}


def _mend(plain: Any) -> Any:
    """The same with half surrogate pairs replaced: file names hold them, JSON cannot."""
    if isinstance(plain, str):
        return plain if plain.isascii() else plain.encode(errors="replace").decode()
    if isinstance(plain, list):
        return [_mend(item) for item in plain]
    return {_mend(key): _mend(item) for key, item in plain.items()} if isinstance(plain, dict) else plain


Function = Callable[..., Any]
F = TypeVar("F", bound=Function)

MARK = "__toolcrib_tool__"


@dataclass(frozen=True, slots=True)
class NativeToolOptions:
    """What ``@tool`` lets an author say beyond the signature."""

    name: str = ""
    description: str = ""
    title: str = ""
    input_schema: JsonObject | None = None
    output_schema: JsonObject | None = None
    version: str = "1.0.0"
    category: str = ""
    security_level: SecurityLevel | str = SecurityLevel.WRITE
    capabilities: Sequence[str] = ()
    examples: Sequence[Example | JsonObject] = ()
    timeout_s: float | None = None
    deprecated: Deprecation | str | None = None
    completions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    annotations: JsonObject = field(default_factory=dict)
    isolated: bool = False
    """Run each call in a confined worker process; short for ``isolation="confined"``."""
    isolation: str = ""
    read: Sequence[str | PathLike[str]] = ()
    write: Sequence[str | PathLike[str]] = ()
    network: bool | None = None
    loopback: Sequence[int] = ()
    memory_bytes: int | None = None
    health_check: Callable[[], Any] | None = None
    """Says whether the tool can do its work: it can, unless this raises, or returns ``False`` or a text (why not)."""


@dataclass(frozen=True, slots=True)
class NativeTool:
    """A definition together with the function that does it."""

    tool: Tool
    function: Function
    signature: SignatureSchema | None
    """How JSON arguments become the function's own; ``None`` when it takes the arguments object as it is."""
    is_async: bool = False
    isolation: IsolationWanted | None = None
    """How far its worker is kept from the rest; ``None`` runs it in this process."""
    health_check: Callable[[], Any] | None = None


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(**options: Any) -> Callable[[F], F]: ...
def tool(function: Any = None, /, **options: Any) -> Any:
    """Mark a function as a tool; the options are the fields of ``NativeToolOptions``."""

    def mark(marked: Any) -> Any:
        setattr(marked, MARK, define(marked, **options))
        return marked

    return mark if function is None else mark(function)


def define(function: Function, **options: Any) -> NativeTool:
    """The checked definition behind a function; schemas and examples are tried out here, once."""
    wishes = _read_options(function, options)
    takes_object = wishes.input_schema is not None
    signature = None if takes_object else signature_schema(function)
    definition = _definition(function, wishes, signature)
    _check_definition(definition)
    isolation = isolation_wish(function, definition.name, wishes)
    if wishes.health_check is not None and not callable(wishes.health_check):
        raise DefinitionError(definition.name, "health_check", "it must be a function without parameters.")
    is_async = inspect.iscoroutinefunction(function)
    return NativeTool(definition, function, signature, is_async, isolation, wishes.health_check)


def _read_options(function: Function, options: Mapping[str, Any]) -> NativeToolOptions:
    known = {entry.name for entry in fields(NativeToolOptions)}
    for key in options:
        if key not in known:
            raise DefinitionError(function.__name__, f"option {key!r}", "is not known.", hint=did_you_mean(key, known))
    return NativeToolOptions(**options)


def _definition(function: Function, wishes: NativeToolOptions, signature: SignatureSchema | None) -> Tool:
    name = wishes.name or function.__name__
    documented = signature.description if signature else inspect.getdoc(function) or ""
    return Tool(
        name=name,
        title=wishes.title,
        description=wishes.description or documented or f"Native tool: {name}",
        input_schema=wishes.input_schema or (signature.input_schema if signature else {"type": "object"}),
        output_schema=wishes.output_schema or (signature.output_schema if signature else None),
        annotations=_annotations(name, wishes),
        version=wishes.version,
        category=_category(name, wishes.category),
        security_level=_security_level(name, wishes.security_level),
        capabilities=frozenset(wishes.capabilities),
        examples=tuple(entry if isinstance(entry, Example) else Example(entry) for entry in wishes.examples),
        timeout_s=wishes.timeout_s,
        deprecation=Deprecation(wishes.deprecated) if isinstance(wishes.deprecated, str) else wishes.deprecated,
        completions={key: tuple(values) for key, values in wishes.completions.items()},
    )


def _annotations(name: str, wishes: NativeToolOptions) -> JsonObject:
    level = _security_level(name, wishes.security_level)
    hints: dict[str, Any] = {"readOnlyHint": True} if level is SecurityLevel.READ_ONLY else {}
    return hints | dict(wishes.annotations)


def _security_level(name: str, level: SecurityLevel | str) -> SecurityLevel:
    try:
        return SecurityLevel(level)
    except ValueError:
        allowed = ", ".join(SecurityLevel)
        raise DefinitionError(name, "security_level", f"{level!r} is not one of {allowed}.") from None


def _category(name: str, category: str) -> str:
    if category and category not in set(Category):
        raise DefinitionError(name, "category", f"{category!r} is not one of {', '.join(Category)}.")
    return category


def _check_words(definition: Tool) -> None:
    """A name that clients and providers take, a description that a model can read, a time that passes."""
    name: Any = definition.name
    description: Any = definition.description
    timeout_s: Any = definition.timeout_s
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        reason = f"{name!r:.80} is not one of letters, digits, '_', '-' and '.', at most {NAME_MAX} of them."
        raise DefinitionError(
            str(name)[:NAME_MAX], "name", reason, hint="Give it a name in snake_case: name='my_tool'."
        )
    if not isinstance(description, str) or len(description) > DESCRIPTION_MAX:
        reason = f"it must be a text of at most {DESCRIPTION_MAX} characters."
        raise DefinitionError(name, "description", reason, hint="Say what it does and when to use it.")
    is_number = isinstance(timeout_s, int | float) and not isinstance(timeout_s, bool)
    if timeout_s is not None and not (is_number and 0 < timeout_s < math.inf):
        reason = f"{timeout_s!r:.60} is no number of seconds above zero."
        raise DefinitionError(name, "timeout_s", reason, hint="Leave it out for the configured [calls] timeout.")


def _check_definition(definition: Tool) -> None:
    _check_words(definition)
    check = compile_check(definition.input_schema)
    if check.gap:
        raise InvalidSchema(definition.name, "input schema", check.unchecked_reason or f"values {check.gap}")
    output = None if definition.output_schema is None else compile_check(definition.output_schema)
    if output is not None and output.gap:
        raise InvalidSchema(definition.name, "output schema", output.unchecked_reason or f"values {output.gap}")
    for number, example in enumerate(definition.examples, 1):
        problems = check.problems(apply_defaults(definition.input_schema, dict(example.arguments)))
        if problems:
            raise InvalidExample(definition.name, f"example {number}", describe(problems, definition.input_schema))
        _check_output(definition, f"expected_output of example {number}", example.expected_output, output)


def _check_output(definition: Tool, part: str, expected: Any, check: SchemaCheck | None) -> None:
    """What an example promises is JSON, and fits the output schema if there is one."""
    if expected is msgspec.UNSET:
        return
    try:
        msgspec.json.encode(expected)
    except (TypeError, ValueError) as error:
        raise InvalidExample(definition.name, part, f"it is no JSON: {error}.") from None
    if check is not None and (problems := check.problems(expected)):
        raise InvalidExample(definition.name, part, describe(problems, check.schema))


def native_tool(function: Function | NativeTool) -> NativeTool:
    """The definition of a function, marked with ``@tool`` or not."""
    if isinstance(function, NativeTool):
        return function
    marked = getattr(function, MARK, None)
    return marked if isinstance(marked, NativeTool) else define(function)


def import_tools(path: str) -> list[Callable[..., Any]]:
    """The function ``module:function`` names, or every ``@tool`` function of ``module``."""
    module_name, _, attribute = path.partition(":")
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # whatever a user's module raises while it is loaded
        raise ConfigError(
            f"native: cannot import {module_name!r}: {type(error).__name__}: {error}.",
            hint="Check `native` and PYTHONPATH.",
        ) from None
    if attribute:
        if not callable(getattr(module, attribute, None)):
            raise ConfigError(f"native: {module_name!r} has no function {attribute!r}.")
        return [getattr(module, attribute)]
    return [entry for entry in vars(module).values() if callable(entry) and hasattr(entry, MARK)]


def isolation_wish(function: Callable[..., Any], name: str, options: NativeToolOptions) -> IsolationWanted | None:
    """What an author asks for with ``isolated``, ``isolation`` and the grants; ``None`` if nothing."""
    wanted = options.isolation or (IsolationLevel.CONFINED if options.isolated else IsolationLevel.NONE)
    known: tuple[IsolationChoice, ...] = (*IsolationLevel, AUTO)
    if wanted not in known:
        raise DefinitionError(name, "isolation", f"{wanted!r} is not one of {', '.join(known)}.")
    level = known[known.index(wanted)]
    if level is IsolationLevel.NONE:
        return None
    _check_importable(function, name)
    limits = replace(WORKER_LIMITS, memory_bytes=options.memory_bytes or WORKER_LIMITS.memory_bytes)
    read, write = _paths(options.read), _paths(options.write)
    return IsolationWanted(level, read, write, options.network, tuple(options.loopback), limits)


def _paths(paths: Sequence[Any]) -> tuple[str, ...]:
    return tuple(str(path) for path in paths)


def _check_importable(function: Callable[..., Any], name: str) -> None:
    """Its worker finds a function by its name in its module, as anybody else would."""
    module, qualname = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
    if module == "__main__":
        reason = "a worker cannot import what is defined in the program itself (__main__)."
    elif not qualname.isidentifier() or inspect.ismethod(function):
        reason = (
            f"a worker cannot import {qualname or type(function).__name__!r}, which is not at the top of its module."
        )
    elif _takes_call(function):
        reason = "a worker cannot be given the Request, which belongs to this process."
    else:
        return
    raise DefinitionError(name, "isolation", reason, hint="Use a plain function of a module, or drop isolated.")


def _takes_call(function: Callable[..., Any]) -> bool:
    annotations = getattr(function, "__annotations__", {})
    return any(each is Request or each == Request.__name__ for each in annotations.values())
