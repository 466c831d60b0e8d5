"""What a tool takes and answers, as a person writes and reads it: arguments, schemas, texts, pictures."""

import base64
import binascii
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from toolcrib.cli.failures import UsageError
from toolcrib.cli.invoke import read_stdin
from toolcrib.core.errors import ConfigError
from toolcrib.core.offers import Tool
from toolcrib.schema.arguments import resolved
from toolcrib.stores.files import read_named

Block = Mapping[str, Any]
Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ShownAttachment:
    """Something that is not text."""

    mime_type: str
    data: str

    @property
    def size(self) -> int:
        """How many bytes it holds."""
        return len(self.data) * 3 // 4 - self.data[-2:].count("=")

    def save(self, folder: Path, stem: str) -> Path:
        """Write it to a file of its own."""
        import mimetypes  # few results hold files

        path = folder / f"{stem}{mimetypes.guess_extension(self.mime_type) or '.bin'}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path.write_bytes(base64.b64decode(self.data, validate=True))
        except binascii.Error:
            raise ConfigError(f"The tool's {self.mime_type} is not valid base64.") from None
        return path


def lines_of(blocks: list[Block], folder: Path | None, stem: str) -> Iterator[str]:
    """One text per block; with a folder, attachments are written there and named."""
    safe_stem = re.sub(r"[^\w-]+", "_", stem)
    for number, block in enumerate(blocks, 1):
        attachment = attachment_of(block)
        if attachment is None:
            yield text_of(block)
        elif folder is None:
            yield f"[{attachment.mime_type} {readable_size(attachment.size)}, use --json or --save DIR]"
        else:
            yield str(attachment.save(folder, f"{safe_stem}-{number}"))


def attachment_of(block: Block) -> ShownAttachment | None:
    """The picture, sound or binary resource of a block."""
    if block.get("type") in ("image", "audio"):
        return ShownAttachment(str(block.get("mimeType", "application/octet-stream")), str(block.get("data", "")))
    resource = block.get("resource")
    if isinstance(resource, Mapping) and "blob" in resource:
        return ShownAttachment(str(resource.get("mimeType", "application/octet-stream")), str(resource["blob"]))
    return None


def text_of(block: Block) -> str:
    """The readable part of a block."""
    resource = block.get("resource")
    if isinstance(resource, Mapping):
        return str(resource.get("text", resource.get("uri", "")))
    if block.get("type") == "resource_link":
        return f"{block.get('name', '')} <{block.get('uri', '')}>".strip()
    return str(block.get("text", ""))


def readable_size(size: int) -> str:
    """``812 B``, ``12 kB``, ``3.4 MB``."""
    if size < 1000:
        return f"{size} B"
    return f"{size / 1000:.0f} kB" if size < 1_000_000 else f"{size / 1e6:.1f} MB"


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


_SAMPLES: Mapping[str, Any] = {
    "string": "…",
    "integer": 1,
    "number": 1.5,
    "boolean": True,
    "array": [],
    "object": {},
    "null": None,
}
_BOUNDS = {"minimum": "≥", "maximum": "≤", "exclusiveMinimum": ">", "exclusiveMaximum": "<"}
SHOWN_CHOICES = 8


def parameter_rows(schema: Schema) -> list[tuple[str, str, str, str]]:
    """Name, type, need or default, and description of each parameter; what must be given comes first."""
    required = schema.get("required") or []
    properties: Mapping[str, Any] = schema.get("properties") or {}
    names = sorted(properties, key=lambda name: name not in required)
    return [(name, *_row(resolved(properties[name], schema), is_required=name in required)) for name in names]


def _row(part: Any, *, is_required: bool) -> tuple[str, str, str]:
    if not isinstance(part, Mapping):
        return "anything", "required" if is_required else "", ""
    default = f"default {json.dumps(part['default'], ensure_ascii=False)}" if "default" in part else ""
    return type_name(part), "required" if is_required else default, str(part.get("description", ""))


def type_name(part: Any) -> str:
    """A schema's type in a few words."""
    if not isinstance(part, Mapping):
        return "anything"
    if "enum" in part:
        shown = " | ".join(str(value) for value in part["enum"][:SHOWN_CHOICES])
        return f"{shown} | …" if len(part["enum"]) > SHOWN_CHOICES else shown
    types = list(dict.fromkeys(types_of(part)))
    if types == ["array"] and isinstance(part.get("items"), Mapping):
        return f"array of {type_name(part['items'])}"
    bounds = " ".join(f"{sign}{part[key]}" for key, sign in _BOUNDS.items() if key in part)
    return " ".join(filter(None, (" | ".join(types) or "anything", bounds)))


def example_call(name: str, tool: Tool) -> str:
    """A command line that calls the tool: its own example, or its required parameters."""
    schema = tool.input_schema
    if tool.examples:
        arguments = dict(tool.examples[0].arguments)
    else:
        properties = schema.get("properties") or {}
        arguments = {key: _sample(resolved(properties.get(key), schema)) for key in schema.get("required") or []}
    return " ".join(["toolcrib call", name, *(_word(key, value) for key, value in arguments.items())])


def _sample(part: Any) -> Any:
    if not isinstance(part, Mapping):
        return "…"
    for known in ("default", "const"):
        if known in part:
            return part[known]
    choices = [*(part.get("examples") or []), *(part.get("enum") or [])]
    return choices[0] if choices else _SAMPLES.get(next(iter(types_of(part)), "string"), "…")


def _word(key: str, value: Any) -> str:
    return shlex.quote(f"{key}={value}") if isinstance(value, str) else shlex.quote(f"{key}:={json.dumps(value)}")
