"""Results that speak of resources: their URIs as clients see them, everything else the bytes it came in."""

from collections.abc import Callable, Container
from typing import Any

import msgspec
from msgspec import Raw

from toolcrib.core.names import translate_app

_LINKS = (b'"resource', b"resourceUri")
"""What a result with a link, an embedded resource or an app contains somewhere."""

Translate = Callable[[str], str]
_members = msgspec.json.Decoder(dict[str, Raw])
_blocks = msgspec.json.Decoder(list[Raw])
_text = msgspec.json.Decoder(str)
_object = msgspec.json.Decoder(dict[str, Any])
_encode = msgspec.json.Encoder().encode


def has_links(raw: bytes) -> bool:
    """Whether a result may speak of resources; a look that costs nearly nothing."""
    return any(mark in raw for mark in _LINKS)


_HINTS = ("ttlMs", "cacheScope")
_COMPLETE = b'"complete"'


def translate_result(
    raw: bytes, to: Translate, *, is_call: bool = True, reserved: Container[str] = frozenset()
) -> bytes:
    """A result (of a tool, of a read or of a prompt) whose URIs are all passed through ``to``.

    Only the members on the way to a URI are taken apart: texts and data stay the bytes they are. What is no tool's
    result also loses what one era says and the other does not know; the door puts it in again where it belongs.
    ``reserved`` are members of its ``_meta`` that only a server itself may say.
    """
    try:
        members = _members.decode(raw)
        if not is_call:
            members = {name: part for name, part in members.items() if name not in _HINTS}
            if bytes(members.get("resultType", b"")) == _COMPLETE:
                del members["resultType"]
        return _encode(_translated(members, to, reserved))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return raw  # what cannot be read here is somebody else's business


def _translated(result: dict[str, Raw], to: Translate, reserved: Container[str]) -> dict[str, Any]:
    parts: dict[str, Any] = {**result}
    for name in ("content", "contents"):
        if name in result:
            parts[name] = [_block(block, to, is_content=name == "contents") for block in _blocks.decode(result[name])]
    if "messages" in result:
        parts["messages"] = [_message(message, to) for message in _blocks.decode(result["messages"])]
    if "_meta" in result:
        parts["_meta"] = _meta(result["_meta"], to, reserved)
    return {name: part for name, part in parts.items() if part is not None}


def _message(raw: Raw, to: Translate) -> dict[str, Any]:
    message: dict[str, Any] = {**_members.decode(raw)}
    content = message.get("content")
    if content is None:
        return message
    is_list = _begins(content, "[")
    message["content"] = [_block(one, to) for one in _blocks.decode(content)] if is_list else _block(content, to)
    return message


def _block(raw: Raw, to: Translate, *, is_content: bool = False) -> Any:
    """A block whose link, or embedded resource, is namespaced."""
    if not _begins(raw, "{"):
        return raw
    block: dict[str, Any] = {**_members.decode(raw)}
    kind = bytes(block.get("type", b""))
    if (is_content or kind == b'"resource_link"') and "uri" in block:
        block["uri"] = _uri(block["uri"], to)
    elif kind == b'"resource"' and "resource" in block and _begins(block["resource"], "{"):
        inner: dict[str, Any] = {**_members.decode(block["resource"])}
        if "uri" in inner:
            inner["uri"] = _uri(inner["uri"], to)
        block["resource"] = inner
    if "_meta" in block and b"resourceUri" in bytes(block["_meta"]):
        block["_meta"] = _meta(block["_meta"], to, frozenset())
    return block


def _begins(raw: Raw, mark: str) -> bool:
    return memoryview(raw)[0] == ord(mark)


def _uri(raw: Raw, to: Translate) -> Any:
    try:
        return to(_text.decode(raw))
    except msgspec.ValidationError:
        return raw


def _meta(raw: Raw, to: Translate, reserved: Container[str]) -> Any:
    """A ``_meta`` object with the app's resource as clients know it; ``None`` if nothing is left of it without what is
    reserved."""
    try:
        meta = _object.decode(raw)
    except msgspec.ValidationError:
        return raw
    return translate_app({key: value for key, value in meta.items() if key not in reserved}, to) or None
