"""What a strict reader would refuse in a server's result, found without taking the result apart.

Results pass as the bytes they came in, and not all that is JSON by its grammar can be read by every client: some give
up on numbers beyond all bounds, on deep nesting, on names that stand there twice, and the official Python client waits
for ever for an answer it cannot read. If the parts that were read of a result account for each of its bytes, no name is
there twice, and if it is texts only, there is nothing else to look for. In the others the regex engine of
``jsonschema_rs`` looks for large exponents, samples for long numbers, and brackets are counted without their contents:
together 2 µs for 1 KB.

What stands twice deeper in data that no schema is declared for stays: every reader accepts it, though not all read the
same, and to find it the data would have to be decoded and encoded anew: 12 µs for 0.7 KB where everything else takes
10, and 1,100 for 73 KB where it takes 340.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import jsonschema_rs
import msgspec
from msgspec import UNSET, Raw

from toolcrib.core.errors import ProtocolError
from toolcrib.wire.results import LARGE_BYTES, ContentBlock, PlainHead, ResultHead, needs_repair, read_head, repair

DEPTH_MAX = 100
"""Of a result; the official Python client reads messages of at most 200 levels."""
TIDY = f"{__name__}:tidy_beside"
LOOK = f"{__name__}:look_beside"
_FLAWED = b"-"

_PIECE = 2 * 1024 * 1024
_STRIDE = 24
_DIGITS = 8 * _STRIDE
"""A number with fewer digits, and less than three in its exponent, is finite for everybody."""
_OVERLAP = 2 * _DIGITS
"""A number that begins in one piece and is suspicious is so in one of the two, whole or by its digits alone."""
_LARGE_EXPONENT = r"[0-9][eE]\+?[0-9]{3}"
_ENDING_EXPONENT = r"[eE]\+?[0-9]{3}[0-9]*[,\]}\s]"
"""The first is found ten times as fast, but also in digests; those end with their text."""
_RUN, _SAMPLED_RUN = b"0" * _DIGITS, b"0" * (_DIGITS // _STRIDE)
_DIGITS_ALIKE = bytes(ord("0") if byte in b"0123456789" else 0 for byte in range(256))
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b'[]{}"')
_NO_BRACKETS_AT_ALL = _NO_BRACKETS + b'"'
_SMALL = 8 * 1024
_STRINGS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_IS_ERROR, _RESULT_TYPE, _META = len('"isError":true,'), len('"resultType":"",'), len('"_meta":,')
_CONTENT, _STRUCTURED, _MEMBER = len('"content":,'), len('"structuredContent":,'), len('"":,')
_TEXT_BLOCK = len('{"type":"","text":},')
_ONE_TEXT = 2 + _CONTENT + _TEXT_BLOCK
_DATA_BLOCK = len(',"mimeType":""')
_QUOTE = ord('"')

_members = msgspec.json.Decoder(dict[str, Raw])
_list = msgspec.json.Decoder(list[Any])
_object = msgspec.json.Decoder(dict[str, Any])
_PARTS: Mapping[str, msgspec.json.Decoder[Any]] = {"content": _list, "structuredContent": _members, "_meta": _members}


class Unreadable(Exception):
    """Says, as the end of a sentence, why not everybody could read something."""


def is_plain(size: int, head: ResultHead) -> bool:
    """Whether a result of so many bytes is nothing but texts: no number, no depth, and no member twice."""
    content = head.content
    if type(content) is not list or head.structured is not UNSET or head.meta is not UNSET:
        return False
    if len(content) != 1:
        return is_accounted_for(size, head)
    # Nearly all results are one text: the sum for that alone, without two calls, takes half the time.
    block, is_error, result_type = content[0], head.is_error, head.result_type
    text = block.text
    if text is UNSET or memoryview(text)[0] != _QUOTE:
        return is_accounted_for(size, head)
    flags = 0 if is_error is None else _IS_ERROR + (not is_error)
    if result_type is not None:
        flags += _RESULT_TYPE + len(result_type)
    return size == _ONE_TEXT + len(block.type) + len(text) + flags


def is_accounted_for(size: int, head: ResultHead) -> bool:
    """Whether so many bytes are just enough for what was read of a result: it has nothing else, and nothing twice."""
    content, data, known = head.content, head.structured, 1
    if content is not UNSET:
        known += _CONTENT + (_size_of_blocks(content) if type(content) is list else len(content))
    if data is not UNSET:
        known += _STRUCTURED + (_size_of_members(data) if type(data) is dict else len(data))
    if head.is_error is not None:
        known += _IS_ERROR + (not head.is_error)
    if head.result_type is not None:
        known += _RESULT_TYPE + len(head.result_type)
    if head.meta is not UNSET:
        known += _META + len(head.meta)
    return size == (known if known > 1 else 2)


def _size_of_blocks(blocks: list[ContentBlock]) -> int:
    """Of compact blocks that are texts or pictures; any other makes it far too small."""
    size = 1 if blocks else 2
    for block in blocks:
        text = block.text
        size += _TEXT_BLOCK
        if text is UNSET:
            text, size = block.data, size + _DATA_BLOCK + len(block.mime_type)
        if text is UNSET or memoryview(text)[0] != _QUOTE:
            return -LARGE_BYTES
        size += len(block.type) + len(text)
    return size


def _size_of_members(members: Mapping[str, Raw]) -> int:
    """Of a compact object; names that are escaped take more."""
    size = 1 if members else 2
    for name, part in members.items():
        size += _MEMBER + len(name) + len(part)
    return size


def tidy(raw: bytes, head: ResultHead) -> bytes:
    """The result as every client can read it, the same bytes where it can be read already; raises ``Unreadable``."""
    suspect = None
    if needs_repair(head):
        raw = repair(raw)
    elif type(head) is not PlainHead or not is_accounted_for(len(raw), head):
        raw = _rebuild(raw)
    elif len(raw) > _SMALL:
        suspect = _beside_texts(head)
    if flaw := flaw_of(suspect or raw):
        raise Unreadable(flaw)
    return raw


def _beside_texts(head: PlainHead) -> bytes:
    """What there is in a result besides texts, as many levels deep as it stands there."""
    parts = () if head.structured is UNSET else head.structured.values()
    return b"[[%b]]" % b",".join(parts if head.meta is UNSET else (*parts, head.meta))


def _rebuild(raw: bytes) -> bytes:
    """The result with each member once, the last as everybody reads it: its own, those of its blocks, of its data."""
    parts: dict[str, Any] = {**_members.decode(raw)}
    for name, decoder in _PARTS.items():
        try:
            if name in parts:
                parts[name] = decoder.decode(parts[name])
        except msgspec.ValidationError:  # of another kind: clients get to see it as it is
            continue
        except (msgspec.DecodeError, RecursionError) as error:
            raise Unreadable(_as_ending(error)) from None
    try:
        return msgspec.json.encode(parts)
    except UnicodeEncodeError as error:
        raise Unreadable(_as_ending(error)) from None


def suspicions(raw: bytes, head: ResultHead) -> Iterator[bool]:
    """Looks at a large result, one at a time: whether it needs more than that, be it for what stands in a text.

    None takes long, so that whoever has something else to do can do it in between.
    """
    yield needs_repair(head) or not is_accounted_for(len(raw), head)
    yield raw.count(b"[") + raw.count(b"{") > DEPTH_MAX
    for start in range(0, len(raw), _PIECE):
        yield _may_have_huge_number(raw[start : start + _PIECE + _OVERLAP])


def tidy_beside(raw: bytes) -> bytes:
    """``tidy`` for a helper process; what stays as it is need not come back."""
    try:
        tidied = tidy(raw, read_head(raw))
    except (Unreadable, ProtocolError) as error:
        return _FLAWED + str(error).encode(errors="replace")
    return tidied if tidied != raw else b""


def tidied(raw: bytes, answer: bytes) -> bytes:
    """What the helper made of a result; raises ``Unreadable``."""
    if answer.startswith(_FLAWED):
        raise Unreadable(answer[1:].decode())
    return answer or raw


def looks(raw: bytes) -> Iterator[bool]:
    """The same looks at what was read, got or completed, which has no content of a tool."""
    yield raw.count(b"[") + raw.count(b"{") > DEPTH_MAX
    for start in range(0, len(raw), _PIECE):
        yield _may_have_huge_number(raw[start : start + _PIECE + _OVERLAP])


def look_beside(raw: bytes) -> bytes:
    """``flaw_of`` for a helper process, in the form of ``tidy_beside``."""
    flaw = flaw_of(raw)
    return _FLAWED + flaw.encode(errors="replace") if flaw else b""


def flaw_of(raw: bytes) -> str:
    """What a strict reader would refuse, as the end of a sentence; nothing if there is nothing."""
    if not _is_shallow(raw):
        return f"it nests deeper than {DEPTH_MAX} levels"
    if _may_have_huge_number(raw):
        try:
            msgspec.json.decode(raw)
        except (msgspec.DecodeError, RecursionError) as error:
            return _as_ending(error)
    return ""


def _as_ending(error: Exception) -> str:
    return str(error)[:1].lower() + str(error)[1:]


def clean_object(raw: bytes) -> bytes:
    """A small object that is passed on, encoded anew; raises ``msgspec.DecodeError`` if not everybody could read it."""
    if len(raw) > LARGE_BYTES:
        if raw.count(b"[") + raw.count(b"{") > DEPTH_MAX or _may_have_huge_number(raw):
            raise msgspec.DecodeError("it is too large to be looked into")
        return raw
    if flaw := flaw_of(raw):
        raise msgspec.DecodeError(flaw)
    return msgspec.json.encode(_object.decode(raw))


def _may_have_huge_number(raw: bytes) -> bool:
    """Whether something looks like one, be it in a text; so many digits in a row show in every sample."""
    text = str(raw, "utf-8", "replace")  # a piece may begin within a letter
    if _finds(_LARGE_EXPONENT)(text) and _finds(_ENDING_EXPONENT)(text):
        return True
    return _SAMPLED_RUN in raw[::_STRIDE].translate(_DIGITS_ALIKE) and _RUN in raw.translate(_DIGITS_ALIKE)


@cache
def _finds(pattern: str) -> Callable[[str], bool]:
    return jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=jsonschema_rs.RegexOptions()).is_valid


def _is_shallow(raw: bytes) -> bool:
    """Whether there are so few brackets, or so many of them vanish in pairs, that it cannot have too many levels.

    Quotation marks with nothing between them are texts without brackets. Where there are others, pairs of brackets in
    texts vanish the same way; none of them meets one outside, since there is always a quotation mark in between.
    """
    if len(raw) <= _SMALL and len(raw.translate(None, _NO_BRACKETS_AT_ALL)) <= 2 * DEPTH_MAX:
        return True
    plain = raw.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in raw else raw
    marks = plain.translate(None, _NO_BRACKETS)
    if len(marks) <= 2 * DEPTH_MAX or len(brackets := marks.translate(None, b'"')) <= 2 * DEPTH_MAX:
        return True
    has_bare_texts = 2 * marks.count(b'""') == len(marks) - len(brackets)
    return _vanishes(brackets if has_bare_texts else marks) or _depth(_STRINGS.sub(b"", raw)) <= DEPTH_MAX


def _vanishes(marks: bytes) -> bool:
    """Whether nothing is left before there were too many levels: a round leaves out two at most."""
    for _ in range(DEPTH_MAX // 2):
        if not marks:
            return True
        before, marks = len(marks), marks.replace(b'""', b"").replace(b"[]", b"").replace(b"{}", b"")
        if len(marks) == before:
            return False
    return not marks


def _depth(bare: bytes) -> int:
    """How deep JSON without its texts nests."""
    depth = deepest = 0
    for bracket in bare.translate(None, _NO_BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest
