"""MCP over HTTP as values: headers that mirror the body, and server-sent events."""

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from toolcrib.core.errors import ProtocolError
from toolcrib.wire.jsonrpc import HEADER_MISMATCH, RpcError

SESSION = b"mcp-session-id"
VERSION = b"mcp-protocol-version"
METHOD = b"mcp-method"
NAME = b"mcp-name"
PARAM_PREFIX = b"mcp-param-"
ANNOTATION = "x-mcp-header"

NAMED_BY = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}

Header = Callable[[bytes], bytes | None]
ParamHeaders = Mapping[tuple[str, ...], str]

_PLAIN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_SENTINEL = re.compile(r"=\?base64\?(.*)\?=")
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_DECIMAL = re.compile(r"-?[0-9]{1,400}(\.0{1,400})?")
_ANNOTATED_TYPES = frozenset({"string", "integer", "boolean"})
_ONE_SCHEMA = frozenset({
    "items", "contains", "unevaluatedItems", "additionalProperties", "propertyNames", "unevaluatedProperties",
    "not", "if", "then", "else", "contentSchema",
})  # fmt: skip
_SCHEMA_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_SCHEMA_MAPS = frozenset({"patternProperties", "dependentSchemas", "$defs", "definitions"})


def encode_value(value: str) -> bytes:
    """``value`` as a header value; what would not survive the trip is wrapped in base64."""
    if not value or (_PLAIN.fullmatch(value) and not _SENTINEL.fullmatch(value)):
        return value.encode()
    return b"=?base64?" + base64.b64encode(value.encode()) + b"?="


def decode_value(value: bytes | None) -> str | None:
    """What ``encode_value`` wrapped; a corrupt wrapping is ``None``, so that it never matches by accident."""
    if value is None:
        return None
    text = _text(value)
    wrapped = _SENTINEL.fullmatch(text)
    if wrapped is None:
        return text
    try:
        decoded = base64.b64decode(wrapped[1], validate=True)
        canonical = base64.b64encode(decoded).decode() == wrapped[1]
        return decoded.decode() if canonical else None
    except (binascii.Error, UnicodeDecodeError):
        return None


def check_mirrors(header: Header, version: object, method: str, params: Mapping[str, Any]) -> None:
    """Refuse a request whose routing headers disagree with its body."""
    stated = header(VERSION)
    if stated is None or _text(stated) != version:
        raise _mismatch("MCP-Protocol-Version", "the protocol version in _meta")
    stated_method = header(METHOD)
    if stated_method is None or _text(stated_method) != method:
        raise _mismatch("Mcp-Method", "the method")
    key = NAMED_BY.get(method)
    if key is not None and params.get(key) is not None and decode_value(header(NAME)) != params[key]:
        raise _mismatch("Mcp-Name", f"the parameter {key!r}")


def _text(value: bytes) -> str:
    """A header value as text; white space around it is not part of it (RFC 9110, 5.5)."""
    return value.decode("latin-1").strip(" \t")


def _mismatch(header: str, what: str) -> RpcError:
    return RpcError(HEADER_MISMATCH, f"The {header} header is missing or differs from {what} of the request body.")


def declared_headers(schema: Any) -> ParamHeaders:
    """Which argument paths a tool wants mirrored into which headers; an invalid declaration is a ``ValueError``."""
    found: dict[tuple[str, ...], str] = {}
    for path, part in _schema_parts(schema):
        if ANNOTATION in part:
            token = _checked_token(path, part)
            if token.lower() in (known.lower() for known in found.values()):
                raise ValueError(f"{ANNOTATION} {token!r} is declared twice")
            found[path or ()] = token
    return found


def _checked_token(path: tuple[str, ...] | None, part: Mapping[str, Any]) -> str:
    token = part[ANNOTATION]
    if not path:
        raise ValueError(f"{ANNOTATION} is only allowed on properties reached through `properties` alone")
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise ValueError(f"{ANNOTATION} of {'.'.join(path)!r} is not a header token")
    if part.get("type") not in _ANNOTATED_TYPES:
        raise ValueError(f"{ANNOTATION} of {'.'.join(path)!r} needs a property of type string, integer or boolean")
    return token


def _schema_parts(root: Any) -> Iterator[tuple[tuple[str, ...] | None, Mapping[str, Any]]]:
    """Every subschema with its path of ``properties`` keys, ``None`` once another keyword was crossed."""
    stack: list[tuple[tuple[str, ...] | None, Any]] = [((), root)]
    while stack:
        path, part = stack.pop()
        if not isinstance(part, Mapping):
            continue
        yield path, part
        for keyword, value in part.items():
            stack.extend(_children(path, keyword, value))


def _children(path: tuple[str, ...] | None, keyword: str, value: Any) -> list[tuple[tuple[str, ...] | None, Any]]:
    if keyword == "properties" and isinstance(value, Mapping):
        return [((*path, name) if path is not None else None, sub) for name, sub in value.items()]
    if keyword in _ONE_SCHEMA:
        return [(None, value)]
    if keyword in _SCHEMA_LISTS and isinstance(value, Sequence):
        return [(None, sub) for sub in value]
    if keyword in _SCHEMA_MAPS and isinstance(value, Mapping):
        return [(None, sub) for sub in value.values()]
    return []


def param_headers(declared: ParamHeaders, arguments: Mapping[str, Any]) -> list[tuple[bytes, bytes]]:
    """The ``Mcp-Param-*`` headers a call mirrors from its arguments."""
    headers = []
    for path, token in declared.items():
        rendered = _render(_value_at(arguments, path))
        if rendered is not None:
            headers.append((b"Mcp-Param-" + token.encode(), encode_value(rendered)))
    return headers


def check_params(declared: ParamHeaders, arguments: Mapping[str, Any], header: Header) -> None:
    """Refuse a call whose ``Mcp-Param-*`` headers disagree with its arguments."""
    for path, token in declared.items():
        stated = header(PARAM_PREFIX + token.lower().encode())
        value = _value_at(arguments, path)
        if not _agree(stated, value):
            raise RpcError(
                HEADER_MISMATCH, f"The Mcp-Param-{token} header and the argument {'.'.join(path)!r} do not agree."
            )


def _agree(stated: bytes | None, value: Any) -> bool:
    rendered = _render(value)
    if stated is None or rendered is None:
        return stated is None and value is None
    decoded = decode_value(stated)
    if decoded is None:
        return False
    is_whole = not isinstance(value, bool) and (
        isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    )
    if is_whole and _DECIMAL.fullmatch(decoded):
        return int(decoded.partition(".")[0]) == int(value)
    return decoded == rendered


def _render(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else None


def _value_at(arguments: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        if not isinstance(arguments, Mapping):
            return None
        arguments = arguments.get(key)
    return arguments


EVENT_LIMIT = 16 * 1024 * 1024
RETRY_DIGITS = 9
PING = b": ping\n\n"


def encode_event(data: bytes) -> bytes:
    """One ``message`` event; ``data`` is JSON and so holds no newline."""
    return b"event: message\ndata: %b\n\n" % data


class SseParser:
    """Bytes in, the ``data`` of each event out; keeps the last event id and the retry time."""

    def __init__(self, limit: int = EVENT_LIMIT) -> None:
        self._limit = limit
        self._unfinished: list[bytes] = []
        self._data: list[bytes] = []
        self._name = b""
        self._size = 0
        self.endpoint = b""
        """The data of the event of that name, the first one of an HTTP+SSE stream; it is no message."""
        self.last_id = ""
        self.retry_ms: int | None = None

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of every event that ``chunk`` completes."""
        self._count(len(chunk))
        if b"\n" not in chunk:
            self._unfinished.append(chunk)
            return []
        *lines, rest = b"".join((*self._unfinished, chunk)).split(b"\n")
        self._unfinished = [rest] if rest else []
        return [event for line in lines if (event := self._take(line.removesuffix(b"\r")))]

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > self._limit:
            raise ProtocolError(f"The server sent an event of more than {self._limit} bytes.")

    def _take(self, line: bytes) -> bytes:
        """The data of the event that a blank ``line`` ends, nothing otherwise."""
        if not line:
            data, self._data, self._size = b"\n".join(self._data), [], sum(map(len, self._unfinished))
            name, self._name = self._name, b""
            if name == b"endpoint":
                self.endpoint, data = self.endpoint or data, b""
            return data
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value
        elif field == b"id":
            self.last_id = value.decode(errors="replace")
        elif field == b"retry" and value.isdigit() and len(value) <= RETRY_DIGITS:
            self.retry_ms = int(value)
        return b""
