"""Tables for people: columns as wide as they need, one of them cut to what the terminal leaves."""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from toolcrib.doors.cli.console import Console
from toolcrib.schema.text import printable

GAP = "  "
NARROWEST = 12


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its title, and how it is set."""

    title: str
    right: bool = False
    flexible: bool = False
    """Cut to what is left of the terminal's width."""
    styles: tuple[str, ...] = ()
    coloured: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Styles by what the cell says."""


def print_table(console: Console, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; the last column is never padded."""
    cells = [[one_line(cell) for cell in row] for row in rows]
    widths = _fit(columns, _natural(columns, cells), console.width)
    console.print(_line(console, [(column, column.title, ("dim",)) for column in columns], widths))
    for row in cells:
        painted = [
            (column, cell, column.coloured.get(cell, column.styles)) for column, cell in zip(columns, row, strict=True)
        ]
        console.print(_line(console, painted, widths))


def one_line(text: str) -> str:
    """Text safe for one cell."""
    return " ".join(printable(text).split())


def _natural(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[int]:
    return [
        max([breadth(column.title), *(breadth(row[index]) for row in rows)]) for index, column in enumerate(columns)
    ]


def _fit(columns: Sequence[Column], widths: list[int], available: int) -> list[int]:
    excess = sum(widths) + len(GAP) * (len(widths) - 1) - available
    return [
        max(NARROWEST, width - excess) if column.flexible and excess > 0 else width
        for column, width in zip(columns, widths, strict=True)
    ]


def _line(console: Console, cells: Sequence[tuple[Column, str, tuple[str, ...]]], widths: Sequence[int]) -> str:
    last = len(cells) - 1
    parts = [
        _cell(console, column, cut(text, width), styles, 0 if index == last and not column.right else width)
        for index, ((column, text, styles), width) in enumerate(zip(cells, widths, strict=True))
    ]
    return GAP.join(parts).rstrip()


def _cell(console: Console, column: Column, text: str, styles: tuple[str, ...], width: int) -> str:
    padding = " " * (width - breadth(text))
    painted = console.paint(text, *styles)
    return padding + painted if column.right else painted + padding


def cut(text: str, width: int) -> str:
    """The text in at most ``width`` columns."""
    if breadth(text) <= width:
        return text
    kept = ""
    for char in text:
        if breadth(kept) + breadth(char) >= width:
            break
        kept += char
    return kept.rstrip() + "…"


def breadth(text: str) -> int:
    """How many columns a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(_char_breadth(char) for char in text)


def _char_breadth(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
