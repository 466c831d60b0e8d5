"""Results that speak of resources: their URIs as clients see them, everything else the bytes it came in."""

import re
from collections.abc import Callable, Container, Iterator
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from toolcrib.core import framing
from toolcrib.core.errors import ProtocolError
from toolcrib.core.names import translate_app

_LINKS = (b'"resource', b"resourceUri")
"""What a result with a link, an embedded resource or an app contains somewhere."""

_ESCAPED = re.compile(rb"\\u00[4-7]")

Translate = Callable[[str], str]
_members = msgspec.json.Decoder(dict[str, Raw])
_blocks = msgspec.json.Decoder(list[Raw])
_text = msgspec.json.Decoder(str)
_object = msgspec.json.Decoder(dict[str, Any])
_encode = msgspec.json.Encoder().encode


LINKS_MAX = 10_000
"""Resources that one result may speak of: each is taken apart, and noted."""
_SMALLEST = len('{"uri":""},')


def has_links(raw: bytes) -> bool:
    """Whether a result may speak of resources; a look that costs nearly nothing."""
    return any(mark in raw for mark in _LINKS) or _may_hide(raw)


def _may_hide(raw: bytes) -> bool:
    """Whether letters are written as escapes, which no encoder does: then no word can be looked for in the bytes."""
    return b"\\u00" in raw and _ESCAPED.search(raw) is not None


_HINTS = ("ttlMs", "cacheScope")
_COMPLETE = b'"complete"'


class _Content(msgspec.Struct, gc=False):
    uri: str
    mime_type: Raw | UnsetType = msgspec.field(default=UNSET, name="mimeType")
    text: Raw | UnsetType = UNSET
    blob: Raw | UnsetType = UNSET


class _Read(msgspec.Struct, gc=False):
    contents: list[_Content]
    result_type: str | None = msgspec.field(default=None, name="resultType")
    ttl_ms: Raw | UnsetType = msgspec.field(default=UNSET, name="ttlMs")
    cache_scope: Raw | UnsetType = msgspec.field(default=UNSET, name="cacheScope")


_read = msgspec.json.Decoder(_Read)
_BARE, _PLAIN_URI = len('{"contents":[]}'), len('{"uri":""},')
_HINT_SIZES = {"result_type": len(',"resultType":""'), "ttl_ms": len(',"ttlMs":'), "cache_scope": len(',"cacheScope":')}
_PART_SIZES = {"mime_type": len(',"mimeType":'), "text": len(',"text":'), "blob": len(',"blob":')}
_QUOTE = ord('"')


def translate_read(raw: bytes | Raw, to: Translate) -> bytes | None:
    """What was read, with its URIs passed through ``to``, if it is nothing but texts and data; ``None`` for any other.

    One look is all it takes, whatever its size: if what was read of it accounts for each of its bytes, then nothing
    else is in it, nothing stands there twice, and what it holds are texts, in which no reader looks for more.
    """
    _refuse_too_many(raw)
    try:
        found = _read.decode(raw)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    if len(found.contents) > LINKS_MAX:  # a name can be written so that nobody counts it in the bytes
        raise _too_many()
    if found.result_type not in (None, "complete") or len(raw) != _size_of(found):
        return None
    return b"".join(_parts_of(found.contents, to))


def _refuse_too_many(raw: bytes | Raw) -> None:
    """Counted only where samples that nobody can foresee say that there may be so many."""
    if len(raw) <= LINKS_MAX * _SMALLEST or not framing.may_have(memoryview(raw), b"{", LINKS_MAX // 2):
        return
    if bytes(raw).count(b'"uri"') > LINKS_MAX:
        raise _too_many()


def _too_many() -> ProtocolError:
    words = f"The server's answer speaks of more than {LINKS_MAX:,} resources at once."
    return ProtocolError(words, hint="Ask it for less at once.")


class _Bounded:
    """Translates the URIs of one result, of which no more than so many parts are taken apart."""

    __slots__ = ("_left", "to")

    def __init__(self, to: Translate) -> None:
        self.to, self._left = to, LINKS_MAX

    def members(self, raw: Raw) -> dict[str, Any]:
        """The members of one more part."""
        self._left -= 1
        if self._left < 0:
            raise _too_many()
        return {**_members.decode(raw)}


def _size_of(found: _Read) -> int:
    """How many bytes the parts take if there is nothing else; too few where one of them is no text."""
    size = _BARE - bool(found.contents)
    for name, more in _HINT_SIZES.items():
        part = getattr(found, name)
        if part is not None and part is not UNSET:
            size += more + len(part)
    for content in found.contents:
        size += _PLAIN_URI + len(content.uri.encode())
        for name, more in _PART_SIZES.items():
            part = getattr(content, name)
            if part is not UNSET:
                size += more + len(part) if memoryview(part)[0] == _QUOTE else -len(part)
    return size


def _parts_of(contents: list[_Content], to: Translate) -> Iterator[bytes | Raw]:
    """What the answer is joined of, so that nothing large is copied twice."""
    before = b'{"contents":[{"uri":'
    for content in contents:
        yield before
        yield _encode(to(content.uri))
        for key, part in ((b"mimeType", content.mime_type), (b"text", content.text), (b"blob", content.blob)):
            if not isinstance(part, UnsetType):
                yield b',"%b":' % key
                yield part
        before = b'},{"uri":'
    yield b"}]}" if contents else b'{"contents":[]}'


def translate_result(
    raw: bytes, to: Translate, *, is_call: bool = True, reserved: Container[str] = frozenset()
) -> bytes:
    """A result (of a tool, of a read or of a prompt) whose URIs are all passed through ``to``.

    Only the members on the way to a URI are taken apart: texts and data stay the bytes they are. What is no tool's
    result also loses what one era says and the other does not know; the door puts it in again where it belongs.
    ``reserved`` are members of its ``_meta`` that only a server itself may say.
    """
    _refuse_too_many(raw)
    try:
        members = _members.decode(raw)
        if not is_call:
            members = {name: part for name, part in members.items() if name not in _HINTS}
            if bytes(members.get("resultType", b"")) == _COMPLETE:
                del members["resultType"]
        return _encode(_translated(members, _Bounded(to), reserved))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return raw  # what cannot be read here is somebody else's business


def _translated(result: dict[str, Raw], parts_of: _Bounded, reserved: Container[str]) -> dict[str, Any]:
    parts: dict[str, Any] = {**result}
    for name in ("content", "contents", *(() if "content" in result else ("resources",))):
        if name in result:
            found = _blocks.decode(result[name])
            parts[name] = [_block(block, parts_of, is_content=name != "content") for block in found]
    if "messages" in result:
        parts["messages"] = [_message(message, parts_of) for message in _blocks.decode(result["messages"])]
    if "_meta" in result:
        parts["_meta"] = _meta(result["_meta"], parts_of.to, reserved)
    return {name: part for name, part in parts.items() if part is not None}


def _message(raw: Raw, parts_of: _Bounded) -> dict[str, Any]:
    message = parts_of.members(raw)
    content = message.get("content")
    if content is None:
        return message
    is_list = _begins(content, "[")
    blocks = [_block(one, parts_of) for one in (_blocks.decode(content) if is_list else [content])]
    message["content"] = blocks if is_list else blocks[0]
    return message


def _block(raw: Raw, parts_of: _Bounded, *, is_content: bool = False) -> Any:
    """A block whose link, or embedded resource, is namespaced."""
    data = bytes(raw)
    if not _begins(raw, "{") or (b'ri"' not in data and not _may_hide(data)):  # of "uri" and "resourceUri"
        return raw
    block, to = parts_of.members(raw), parts_of.to
    kind = _uri(block["type"], str) if "type" in block else ""
    if (is_content or kind == "resource_link") and "uri" in block:
        block["uri"] = _uri(block["uri"], to)
    elif kind == "resource" and "resource" in block and _begins(block["resource"], "{"):
        inner: dict[str, Any] = {**_members.decode(block["resource"])}
        if "uri" in inner:
            inner["uri"] = _uri(inner["uri"], to)
        block["resource"] = inner
    if "_meta" in block and has_links(bytes(block["_meta"])):
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
