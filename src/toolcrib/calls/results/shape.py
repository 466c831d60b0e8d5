"""The shape of a large result: its JSON in one line, tables and binary in the clothes of text."""

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from msgspec import Raw

from toolcrib.calls.results.paths import NAME_MAX, items, kind_of, members

LARGEST = 16 * 1024 * 1024  # characters; larger ones are read as lines
FEWEST = 2
_NAME = re.compile(r"[^\W\d_][\w .()/%#:-]{0,59}")
_SEPARATORS = {"\t": "TSV", ",": "CSV", ";": "CSV"}


@dataclass(frozen=True, slots=True)
class TextTable:
    """A text as an array of rows."""

    kind: str
    rows: Raw


def as_table(text: str) -> TextTable | None:
    """The rows of a text in which every line is one; anything else is no table."""
    if "\n" not in text or len(text) > LARGEST:
        return None
    return _json_lines(text) if text.lstrip()[:1] in ("{", "[") else _separated(text)


def join_rows(rows: Sequence[Raw]) -> Raw:
    """Many JSON values as one array."""
    return Raw(b"[" + b",".join(map(bytes, rows)) + b"]")


def _json_lines(text: str) -> TextTable | None:
    lines = [line for line in text.splitlines() if line.strip()]
    try:
        rows = [msgspec.json.decode(line, type=Raw) for line in lines]
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return TextTable("JSON lines", join_rows(rows)) if len(rows) >= FEWEST else None


def _separated(text: str) -> TextTable | None:
    first = text[: text.index("\n")]
    for separator, kind in _SEPARATORS.items():
        if separator in first and (rows := _rows(text, separator)) is not None:
            return TextTable(kind, rows)
    return None


def _rows(text: str, separator: str) -> Raw | None:
    """Every row has a value for each name, or it is no table: a text with commas in it is not one."""
    import csv  # most programs never see a large result, and fewer a table

    reader = csv.reader(text.splitlines(keepends=True), delimiter=separator, strict=True)
    try:
        names = next(reader)
        if len(set(names)) < len(names) or not all(_NAME.fullmatch(name.strip("\ufeff ")) for name in names):
            return None
        rows = []
        for row in reader:
            if len(row) != len(names) and row:
                return None
            rows += [dict(zip(names, row, strict=True))] if row else []
        return Raw(msgspec.json.encode(rows)) if len(rows) >= FEWEST else None
    except (csv.Error, StopIteration, UnicodeError):
        return None


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


KEYS_SHOWN = 20
DEPTH_SHOWN = 6
PARTS_SHOWN = 200
LONG_STRING = 200


def shape_of(raw: Raw) -> str:
    """For example ``{total: number, rows: [1200 × {id: number, name: string}]}``; of arrays, the first item tells."""
    return _Sketch().draw(raw, DEPTH_SHOWN)


class _Sketch:
    """One drawing; wide and deep data is drawn only so far."""

    def __init__(self) -> None:
        self._left = PARTS_SHOWN

    def draw(self, raw: Raw, depth: int) -> str:
        self._left -= 1
        kind = kind_of(raw)
        if kind == "object":
            return self._draw_object(raw, depth)
        if kind == "array":
            return self._draw_array(raw, depth)
        size = memoryview(raw).nbytes - 2
        if kind != "string" or size <= LONG_STRING:
            return kind
        blob = find_blob(bytes(memoryview(raw)[1 : 2 * SHORTEST]).decode(errors="replace"), 0, 1)
        return f"string of {size:,} bytes" + (f", {blob.kind} in base64" if blob else "")

    def _draw_object(self, raw: Raw, depth: int) -> str:
        held = members(raw)
        if depth == 0 or self._left < 0:
            return f"{{{len(held)} keys}}"
        first = list(held.items())[:KEYS_SHOWN]
        shown = [f"{name[:NAME_MAX]}: {self.draw(value, depth - 1)}" for name, value in first]
        more = [f"… {len(held) - KEYS_SHOWN} more"] if len(held) > KEYS_SHOWN else []
        return "{" + ", ".join([*shown, *more]) + "}"

    def _draw_array(self, raw: Raw, depth: int) -> str:
        held = items(raw)
        inside = self.draw(held[0], depth - 1) if held and depth > 0 and self._left > 0 else ""
        return f"[{len(held):,} × {inside}]" if inside else f"[{len(held):,} items]"
