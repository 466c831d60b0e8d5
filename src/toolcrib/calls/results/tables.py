"""Rows in the clothes of text: JSON lines, and values between commas or tabs under a line of names."""

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from msgspec import Raw

LARGEST = 16 * 1024 * 1024  # characters; larger ones are read as lines
FEWEST = 2
_NAME = re.compile(r"[^\W\d_][\w .()/%#:-]{0,59}")
_SEPARATORS = {"\t": "TSV", ",": "CSV", ";": "CSV"}


@dataclass(frozen=True, slots=True)
class Table:
    """A text as an array of rows."""

    kind: str
    rows: Raw


def as_table(text: str) -> Table | None:
    """The rows of a text in which every line is one; anything else is no table."""
    if "\n" not in text or len(text) > LARGEST:
        return None
    return _json_lines(text) if text.lstrip()[:1] in ("{", "[") else _separated(text)


def join_rows(rows: Sequence[Raw]) -> Raw:
    """Many JSON values as one array."""
    return Raw(b"[" + b",".join(map(bytes, rows)) + b"]")


def _json_lines(text: str) -> Table | None:
    lines = [line for line in text.splitlines() if line.strip()]
    try:
        rows = [msgspec.json.decode(line, type=Raw) for line in lines]
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return Table("JSON lines", join_rows(rows)) if len(rows) >= FEWEST else None


def _separated(text: str) -> Table | None:
    first = text[: text.index("\n")]
    for separator, kind in _SEPARATORS.items():
        if separator in first and (rows := _rows(text, separator)) is not None:
            return Table(kind, rows)
    return None


def _rows(text: str, separator: str) -> Raw | None:
    """Every row has a value for each name, or it is no table: a text with commas in it is not one."""
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
