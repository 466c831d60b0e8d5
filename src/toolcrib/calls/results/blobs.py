"""Binary in the clothes of text: long stretches of base64, which no model can read, and what is inside them."""

import base64
import re
from dataclasses import dataclass

SHORTEST = 400  # characters; what is shorter may be a key or a hash somebody wants to see
_DISTINCT = 20  # different characters at least: a line of dashes or of one letter is no binary
_STRETCH = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{400,}={0,2}")
_NAMED = re.compile(r"data:([\w.+-]+/[\w.+-]+)(?:;[\w=-]+)*;base64,$")
_NAMED_ROOM = 120
_MAGIC = {
    b"\x89PNG": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "a RIFF file",
    b"%PDF": "application/pdf",
    b"PK\x03\x04": "a ZIP archive",
    b"\x1f\x8b": "gzip",
}


@dataclass(frozen=True, slots=True)
class Blob:
    """A stretch of base64 inside a text."""

    start: int
    end: int
    kind: str
    """What it is, if that can be told; else ``binary``."""
    size: int
    """Of the bytes themselves."""


def find_blob(text: str, start: int, end: int) -> Blob | None:
    """The first stretch of base64 that begins between two places; it may reach further."""
    while match := _STRETCH.search(text, start, min(len(text), end + SHORTEST)):
        if match.start() >= end:
            return None
        if _is_mixed(match[0][:SHORTEST]):
            whole = _STRETCH.match(text, match.start()) or match
            size = len(whole[0].rstrip("=")) * 3 // 4
            return Blob(whole.start(), whole.end(), _kind(text, whole.start()), size)
        start = match.end()
    return None


def whole_blob(text: str) -> Blob | None:
    """The text as one blob, if it is nothing else."""
    blob = find_blob(text, 0, 1)
    return blob if blob is not None and blob.start == 0 and blob.end == len(text) else None


def _is_mixed(sample: str) -> bool:
    return (
        len(set(sample)) >= _DISTINCT
        and any(map(str.isupper, sample))
        and any(map(str.islower, sample))
        and any(map(str.isdigit, sample))
    )


def _kind(text: str, start: int) -> str:
    if named := _NAMED.search(text[max(0, start - _NAMED_ROOM) : start]):
        return named[1]
    first = base64.b64decode(text[start : start + 24].replace("-", "+").replace("_", "/"))
    return next((kind for magic, kind in _MAGIC.items() if first.startswith(magic)), "binary")
