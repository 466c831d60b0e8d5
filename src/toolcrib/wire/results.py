"""Results of ``tools/call`` on their way through: looked at as little as possible, repaired when they must be."""

from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from toolcrib.core.errors import ProtocolError
from toolcrib.wire.eras import META_RESERVED, META_SERVER_INFO
from toolcrib.wire.jsonrpc import encode


class ContentBlock(msgspec.Struct, gc=False):
    """One block of content: a text, a picture or a sound; others have more that is not looked at."""

    type: str = ""
    text: Raw | UnsetType = UNSET
    data: Raw | UnsetType = UNSET
    mime_type: str = msgspec.field(default="", name="mimeType")


class _Head(msgspec.Struct, gc=False):
    is_error: bool | None = msgspec.field(default=None, name="isError")
    result_type: str | None = msgspec.field(default=None, name="resultType")
    meta: Raw | UnsetType = msgspec.field(default=UNSET, name="_meta")


class PlainHead(_Head, gc=False):
    """The few fields of a result that decide what happens to it; content and data are what they should be."""

    content: list[ContentBlock] | UnsetType = UNSET
    structured: dict[str, Raw] | UnsetType = msgspec.field(default=UNSET, name="structuredContent")


class LooseHead(_Head, gc=False):
    """The same of a result that is large, or has content or data of another kind."""

    content: Raw | UnsetType = UNSET
    structured: Raw | UnsetType = msgspec.field(default=UNSET, name="structuredContent")


ResultHead = PlainHead | LooseHead

LARGE_BYTES = 256 * 1024
"""Larger results are not taken apart on the event loop, not even into their blocks."""
OPENING_BRACKET = ord("[")

_plain_head = msgspec.json.Decoder(PlainHead)
_loose_head = msgspec.json.Decoder(LooseHead)
_result = msgspec.json.Decoder(dict[str, Any])


def read_head(raw: bytes | Raw) -> ResultHead:
    """The head of a result; one that is no result object is the server's protocol error."""
    try:
        if len(raw) <= LARGE_BYTES:
            return _plain_head.decode(raw)
    except msgspec.ValidationError:
        pass
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _no_result(error) from None
    try:
        return _loose_head.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _no_result(error) from None


def _no_result(error: Exception) -> ProtocolError:
    return ProtocolError(f"The server's answer is not a tool result: {error}")


def needs_repair(head: ResultHead) -> bool:
    """Whether a strict client would stumble over the result, or a reserved field must not be passed on."""
    if head.result_type == "input_required":
        return _leaks_meta(head)
    content = head.content
    if type(content) is not list and (type(content) is not Raw or memoryview(content)[0] != OPENING_BRACKET):
        return True
    return head.meta is not UNSET and _leaks_meta(head)


def _leaks_meta(head: ResultHead) -> bool:
    # Without the slash that follows, because some encoders escape it.
    return head.meta is not UNSET and b"io.modelcontextprotocol" in bytes(head.meta)


def repair(raw: bytes | Raw) -> bytes:
    """The result with content (if only empty) and without the server's reserved ``_meta``."""
    result = _decode(raw)
    if result.get("resultType") != "input_required":
        result["content"] = _as_blocks(result.get("content"))
    if "isError" in result and result["isError"] is None:
        del result["isError"]
    meta = result.pop("_meta", None)
    if isinstance(meta, dict):
        kept = {key: value for key, value in meta.items() if key not in META_RESERVED}
        if kept:
            result["_meta"] = kept
    return encode(result)


def _decode(raw: bytes | Raw) -> dict[str, Any]:
    try:
        return _result.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _no_result(error) from None


def _as_blocks(content: Any) -> list[Any]:
    """Content as the list it has to be: servers have been seen to send a bare text or a single block."""
    if isinstance(content, list):
        return content
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [content] if isinstance(content, dict) else []


def stamp_modern(raw: bytes, known: str | None = None) -> bytes:
    """The result with the ``resultType`` that the stateless era requires; ``known`` is the one it has, if somebody
    has looked already: empty for none."""
    if raw.startswith(b'{"resultType":"') or (read_head(raw).result_type is not None if known is None else known):
        return raw
    if b'"resultType"' in raw:
        return encode({**_decode(raw), "resultType": "complete"})
    rest = raw.lstrip()[1:]
    comma = b"" if rest.lstrip().startswith(b"}") else b","
    return b'{"resultType":"complete"' + comma + rest


_fields = msgspec.json.Decoder(dict[str, Raw])


def sign(raw: bytes, info: bytes) -> bytes:
    """The result with who answered in its ``_meta``, as the stateless era wants it; ``info`` is already encoded."""
    if b'"_meta"' in raw and (meta := (fields := _fields.decode(raw)).get("_meta")) is not None:
        kept = _fields.decode(meta) if bytes(meta).lstrip().startswith(b"{") else {}
        return encode({**fields, "_meta": {**kept, META_SERVER_INFO: Raw(info)}})
    rest = raw.lstrip()[1:]
    comma = b"" if rest.lstrip().startswith(b"}") else b","
    return b"".join((b'{"_meta":{"', META_SERVER_INFO.encode(), b'":', info, b"}", comma, rest))


_COMPLETE = b'"resultType":"complete"'


def without_type(raw: bytes, known: str | None = None) -> bytes:
    """A complete result as the handshake era knows it; one that has no ``resultType`` of its own stays as it is."""
    if known == "" or (known is None and b'"resultType"' not in raw):
        return raw
    if raw.startswith(b"{" + _COMPLETE + b","):
        return b"{" + raw[len(_COMPLETE) + 2 :]
    if raw.endswith(b"," + _COMPLETE + b"}"):  # the only bracket behind it: the last member of the whole
        return raw[: -len(_COMPLETE) - 2] + b"}"
    try:
        members = _fields.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _no_result(error) from None
    return encode({name: part for name, part in members.items() if name != "resultType"})
