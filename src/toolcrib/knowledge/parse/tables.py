"""CSV and JSON: records as text that can be read, and found by the names of their fields."""

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

from toolcrib.core.errors import UnreadableSource
from toolcrib.knowledge.parse.parsed import Parsed
from toolcrib.knowledge.parse.text import clean, decode

FIELD_MAX = 1_000_000
DEPTH_MAX = 64


def parse_csv(content: bytes) -> Parsed:
    """One line per row, each value after the name of its column."""
    text = decode(content)
    rows = _rows(text)
    header = next(rows, [])
    names = [name.strip() or f"column {number}" for number, name in enumerate(header, 1)]
    lines = [", ".join(names), "", *(_row(names, row) for row in rows if any(row))]
    return Parsed(clean("\n".join(lines)), "csv", metadata={"columns": names[:100]})


def _rows(text: str) -> Iterator[list[str]]:
    csv.field_size_limit(FIELD_MAX)
    try:
        dialect: Any = csv.Sniffer().sniff(text[:8192], ",;\t|")
    except csv.Error:
        dialect = csv.excel
    try:
        yield from csv.reader(io.StringIO(text, newline=""), dialect)
    except csv.Error as error:
        raise UnreadableSource(f"it is not CSV: {error}") from None


def _row(names: list[str], row: list[str]) -> str:
    cells = (" ".join(cell.split()) for cell in row)
    named = ((names[index] if index < len(names) else f"column {index + 1}", cell) for index, cell in enumerate(cells))
    return "; ".join(f"{name}: {cell}" for name, cell in named if cell)


def parse_json(content: bytes) -> Parsed:
    """One line per value, after the path that leads to it; records of a list are paragraphs."""
    text = decode(content)
    try:
        values = _documents(text)
        records = [record for value in values for record in (value if isinstance(value, list) else [value])]
        paragraphs = ["\n".join(_lines("", record, 0)) for record in records]
    except RecursionError:
        raise UnreadableSource("it is nested too deeply") from None
    return Parsed(clean("\n\n".join(paragraphs)), "json", metadata={"records": len(records)})


def _documents(text: str) -> list[Any]:
    """One document, or one per line."""
    try:
        return [json.loads(text)]
    except ValueError as error:
        lines = [line for line in text.splitlines() if line.strip()]
        try:
            return [json.loads(line) for line in lines] if len(lines) > 1 else _refuse(error)
        except ValueError:
            return _refuse(error)


def _refuse(error: ValueError) -> list[Any]:
    raise UnreadableSource(f"it is not JSON: {error}") from None


def _lines(path: str, value: Any, depth: int) -> Iterator[str]:
    if depth > DEPTH_MAX:
        raise UnreadableSource("it is nested too deeply")
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _lines(f"{path}.{key}" if path else str(key), item, depth + 1)
    elif isinstance(value, list) and value and not all(isinstance(item, str | int | float) for item in value):
        for number, item in enumerate(value):
            yield from _lines(f"{path}[{number}]", item, depth + 1)
    else:
        shown = ", ".join(map(str, value)) if isinstance(value, list) else _shown(value)
        yield f"{path}: {shown}" if path else shown


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
