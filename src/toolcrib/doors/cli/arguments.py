"""Tool arguments from the words of a command line: ``key=value``, ``key:=json``, ``key=@file``."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from toolcrib.core.errors import ConfigError
from toolcrib.doors.cli.failures import UsageError
from toolcrib.doors.cli.invoke import read_stdin
from toolcrib.stores.files import read_named

Schema = Mapping[str, Any]


def read_arguments(words: Sequence[str], whole: str | None, schema: Schema) -> dict[str, Any]:
    """All arguments: those of ``--input-json`` first, single ones laid over them."""
    arguments = read_object(whole) if whole is not None else {}
    for word in words:
        key, value = read_word(word, schema)
        arguments[key] = value
    return arguments


def read_object(text: str) -> dict[str, Any]:
    """The object of ``--input-json``: written out, ``-`` for stdin, ``@file`` for a file."""
    if text == "-":
        text = read_stdin()
    elif text.startswith("@"):
        text = _file(text[1:])
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise UsageError(
            f"--input-json is not JSON: {error}.", hint="Quote it for the shell: '{\"key\": 1}'."
        ) from None
    if not isinstance(value, dict):
        raise UsageError("--input-json must be an object.", hint="For example '{\"key\": 1}'.")
    return value


def read_word(word: str, schema: Schema) -> tuple[str, Any]:
    """One argument."""
    key, equals, text = word.partition("=")
    if not equals or not key.rstrip(":"):
        hint = "Write key=value, key:=json or key=@file; or give all at once with --input-json."
        raise UsageError(f"{word!r} is not an argument of the tool.", hint=hint)
    if key.endswith(":"):
        return key[:-1], _forced(key[:-1], text)
    if text.startswith("@"):
        return key, _file(text[1:])
    return key, _guessed(text, schema.get("properties", {}).get(key))


def _forced(key: str, text: str) -> Any:
    try:
        return msgspec.json.decode(_file(text[1:]) if text.startswith("@") else text)
    except msgspec.DecodeError as error:
        hint = f"Write {key}=… for plain text."
        raise UsageError(f"The value of {key} is not JSON: {error}.", hint=hint) from None


def _guessed(text: str, schema: Any) -> Any:
    """A text stays one where the schema takes a string; elsewhere JSON counts if it is JSON."""
    if "string" in types_of(schema):
        return text
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def types_of(schema: Any) -> list[str]:
    """The JSON types a schema names, through unions and enumerations."""
    if not isinstance(schema, Mapping):
        return []
    named = schema.get("type", [])
    types = [named] if isinstance(named, str) else list(named)
    for union in ("anyOf", "oneOf"):
        types += [found for part in schema.get(union, []) for found in types_of(part)]
    if not types and any(isinstance(value, str) for value in (*schema.get("enum", ()), schema.get("const"))):
        types.append("string")
    return types


def _file(name: str) -> str:
    text = read_named(Path(name).expanduser())
    if text is None:
        raise ConfigError(f"There is no file {name!r}.", hint="To send a text that begins with @, use key:='\"@…\"'.")
    return text
