"""What a strict reader would refuse in a server's result, found without taking the result apart.

Results pass as the bytes they came in, and not all that is JSON by its grammar can be read by every client: some give
up on numbers beyond all bounds, on deep nesting, on names that stand there twice, and the official Python client waits
for ever for an answer it cannot read. Most results are texts and are known to be harmless by a second look at their
blocks; in the others, the regex engine of ``jsonschema_rs`` looks for the suspicious (0.5 µs for 1 KB).
"""

import re
from collections.abc import Callable
from functools import cache
from typing import Any, Literal

import jsonschema_rs
import msgspec
from msgspec import UNSET, Raw

from toolcrib.wire.results import ResultHead

DEPTH_MAX = 100
"""Of a result; the official Python client reads messages of at most 200 levels."""
QUICK_BYTES = 256 * 1024
"""Larger results that are suspicious are looked into elsewhere."""
FLAW = f"{__name__}:flaw_beside"

_STRIDE = 32
_DIGITS = 6 * _STRIDE
"""A number with fewer digits, and less than three in its exponent, is finite for everybody."""
_HUGE_EXPONENT = r"[0-9][eE]\+?[0-9]{3}"
_SAMPLED_DIGITS = r"[0-9]{6}"
_LONG_RUN = f"[0-9]{{{_DIGITS}}}"
_ROOM = 8
"""Bytes that may be spaces; any further member would take more."""
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b'[]{}"')
_STRINGS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_BLOCK = len('{"type":"text","text":}')
_MEMBER = len('"":,')


class _Text(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    type: Literal["text"]
    text: Raw


_texts = msgspec.json.Decoder(list[_Text])
_members = msgspec.json.Decoder(dict[str, Raw])
_object = msgspec.json.Decoder(dict[str, Any])
_QUOTE = ord('"')


def is_plain(size: int, head: ResultHead) -> bool:
    """Whether a result of so many bytes is nothing but texts: no number, no depth, and no member twice."""
    if head.content is UNSET or head.structured is not UNSET or head.meta is not UNSET:
        return False
    try:
        blocks = _texts.decode(head.content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    known = len('{"content":[]}') + _size_of_flags(head)
    for block in blocks:
        text = block.text
        if memoryview(text)[0] != _QUOTE:
            return False
        known += _BLOCK + 1 + len(text)
    return size - known < _ROOM


def _size_of_flags(head: ResultHead) -> int:
    size = 0 if head.is_error is None else len(',"isError":true') + (not head.is_error)
    return size if head.result_type is None else size + len(',"resultType":""') + len(head.result_type)


def drop_duplicates(raw: bytes, head: ResultHead) -> bytes:
    """The result with each of its members once, the last as everybody reads it; the same bytes if none can be twice."""
    known = 1 + _size_of_flags(head)
    for name, part in (("content", head.content), ("structuredContent", head.structured), ("_meta", head.meta)):
        known += 0 if part is UNSET else len(name) + _MEMBER + len(part)
    if len(raw) - known < _ROOM:
        return raw
    members = _members.decode(raw)
    known = 1 + sum(len(name) + _MEMBER + len(part) for name, part in members.items())
    return raw if len(raw) - known < _ROOM else msgspec.json.encode(members)


def is_suspicious(raw: bytes) -> bool:
    """Whether there may be a number beyond all bounds, or too many levels, somewhere in it."""
    text = str(raw, "utf-8")
    return _has_huge_number(raw, text) or _may_be_deep(raw)


def flaw_of(raw: bytes) -> str:
    """What a strict reader would refuse, as the end of a sentence; nothing if there is nothing."""
    text = str(raw, "utf-8")
    if _may_be_deep(raw) and not _is_shallow(raw):
        return f"it nests deeper than {DEPTH_MAX} levels"
    if _has_huge_number(raw, text):
        try:
            msgspec.json.decode(raw)
        except (msgspec.DecodeError, RecursionError) as error:
            return str(error)[:1].lower() + str(error)[1:]
    return ""


def flaw_beside(raw: bytes) -> bytes:
    """The same for a helper process."""
    return flaw_of(raw).encode()


def clean_object(raw: bytes) -> bytes:
    """A small object that is passed on, encoded anew; raises ``msgspec.DecodeError`` if not everybody could read it."""
    if len(raw) > QUICK_BYTES:
        if is_suspicious(raw):
            raise msgspec.DecodeError("it is too large to be looked into")
        return raw
    if flaw := flaw_of(raw):
        raise msgspec.DecodeError(flaw)
    return msgspec.json.encode(_object.decode(raw))


def _has_huge_number(raw: bytes, text: str) -> bool:
    """Whether something looks like one, be it in a text; so many digits in a row show in every sample."""
    return _finds(_HUGE_EXPONENT)(text) or (
        len(raw) > _DIGITS and _finds(_SAMPLED_DIGITS)(str(raw[::_STRIDE], "latin-1")) and _finds(_LONG_RUN)(text)
    )


def _may_be_deep(raw: bytes) -> bool:
    return raw.count(b"[") + raw.count(b"{") > DEPTH_MAX


@cache
def _finds(pattern: str) -> Callable[[str], bool]:
    return jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=jsonschema_rs.RegexOptions()).is_valid


def _is_shallow(raw: bytes) -> bool:
    """Whether innermost pairs of brackets, left out again and again, leave nothing before there were too many levels.

    Brackets in texts go the same way where they come in pairs; they never meet one outside, since there is always a
    quotation mark in between. What does not vanish is looked at without its texts.
    """
    plain = raw.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in raw else raw
    brackets = plain.translate(None, _NO_BRACKETS)
    for _ in range(DEPTH_MAX // 2):
        if not brackets:
            return True
        before, brackets = len(brackets), brackets.replace(b'""', b"").replace(b"[]", b"").replace(b"{}", b"")
        if len(brackets) == before:
            break
    return _depth(_STRINGS.sub(b"", raw)) <= DEPTH_MAX


def _depth(bare: bytes) -> int:
    """How deep JSON without its texts nests."""
    depth = deepest = 0
    for bracket in bare.translate(None, _NO_BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest
