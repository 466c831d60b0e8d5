"""The terminal, or what stands in for it: where data and talk go, how wide it is, whether it shows colours."""

import os
import re
import shutil
import sys
import threading
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, TextIO

from toolcrib.schema.text import SUSPECT, printable

STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
UNLIMITED = 1_000_000
_STYLING = re.compile(r"\x1b\[[\d;]*m")


@dataclass(slots=True)
class Console:
    """Data goes to ``out``, talk to ``err``; what strangers wrote never reaches a terminal raw."""

    out: TextIO
    err: TextIO
    env: Mapping[str, str] = field(default_factory=dict)
    hold_status: bool = False
    """While somebody types an answer, nothing may be written over it."""
    _panel: tuple[str, ...] = ()
    """The lines that stay at the bottom of the terminal."""
    _drawn: tuple[str, ...] = ()
    """Those of them that are to be seen now."""
    _turn: threading.RLock = field(default_factory=threading.RLock)
    """What moves may be drawn beside the event loop: a terminal that nobody reads must not hold that up."""

    @classmethod
    def standard(cls) -> Self:
        """The console this process was started with."""
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")
        return cls(sys.stdout, sys.stderr, dict(os.environ))

    @property
    def is_live(self) -> bool:
        """Whether a person may be watching stderr, so that progress makes sense."""
        return self.err.isatty() and self.env.get("TERM") != "dumb"

    @property
    def width(self) -> int:
        """Columns of stdout; no limit when it is not a terminal."""
        return shutil.get_terminal_size().columns if self.out.isatty() else UNLIMITED

    def paint(self, text: str, *styles: str, talk: bool = False) -> str:
        """The text in a style, where colours are shown and wanted."""
        if not styles or not self._has_colour(self.err if talk else self.out):
            return text
        return f"\x1b[{';'.join(STYLES[style] for style in styles)}m{text}\x1b[0m"

    def _has_colour(self, stream: TextIO) -> bool:
        if self.env.get("NO_COLOR"):
            return False
        if self.env.get("FORCE_COLOR"):
            return True
        return stream.isatty() and self.env.get("TERM") != "dumb"

    def print(self, text: str = "") -> None:
        """One piece of data; the caller has made it safe."""
        with self._turn:
            self._hide_panel()
            self.out.write(text + "\n")
            self._draw_panel()

    def print_foreign(self, text: str) -> None:
        """Text of a stranger: as it is for a program, made safe for a terminal."""
        self.print(printable(text) if self.out.isatty() else text)

    def print_json(self, value: Any) -> None:
        """One JSON document."""
        import msgspec

        text = msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2).decode()
        self.print(escaped(text))

    def say(self, text: str, *styles: str) -> None:
        """One piece of talk."""
        self.write_log(self.paint(printable(text), *styles, talk=True))

    def write_log(self, line: str) -> None:
        """A finished line of the log."""
        with self._turn:
            self._hide_panel()
            self.err.write(line + "\n")
            self.err.flush()
            self._draw_panel()

    def status(self, text: str) -> None:
        """What is being waited for, on a line that goes away; only where a person may be watching."""
        line = printable(text).replace("\n", " ")[: shutil.get_terminal_size().columns - 1]
        self.panel([self.paint(line, "dim", talk=True)])

    def panel(self, lines: Sequence[str]) -> None:
        """Lines that stay at the bottom, and go away; the caller has made them safe, and narrower than the terminal."""
        with self._turn:
            if self.is_live and not self.hold_status:
                self._panel = tuple(lines)
                self._draw_panel()

    def end_status(self) -> None:
        """Nothing is waited for any more."""
        with self._turn:
            self._hide_panel()
            self._panel = ()

    def _draw_panel(self) -> None:
        """In one piece, over what is there, so that nothing flickers."""
        if self._panel:
            self.out.flush()
            self.err.write(self._to_its_top() + "\x1b[K\n".join(self._panel) + "\x1b[J")
            self.err.flush()
            self._drawn = self._panel

    def _hide_panel(self) -> None:
        if self._drawn:
            self.out.flush()
            self.err.write(self._to_its_top() + "\x1b[J")
            self.err.flush()
            self._drawn = ()

    def _to_its_top(self) -> str:
        """The way from its end to its beginning; a terminal that was made narrower has broken its lines anew."""
        width = max(1, shutil.get_terminal_size().columns)
        rows = sum(max(1, -(-breadth(_STYLING.sub("", line)) // width)) for line in self._drawn)
        return f"\r\x1b[{rows - 1}A" if rows > 1 else "\r"


def escaped(json_text: str) -> str:
    """JSON with what a terminal might obey written as JSON writes it when it must."""
    import json

    return SUSPECT.sub(lambda match: json.dumps(match[0])[1:-1], json_text)


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
