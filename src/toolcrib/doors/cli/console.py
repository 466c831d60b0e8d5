"""The terminal, or what stands in for it: where data and talk go, how wide it is, whether it shows colours."""

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self, TextIO

from toolcrib.schema.text import SUSPECT, printable

STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
UNLIMITED = 1_000_000
_CLEAR_LINE = "\r\x1b[2K"


@dataclass(slots=True)
class Console:
    """Data goes to ``out``, talk to ``err``; what strangers wrote never reaches a terminal raw."""

    out: TextIO
    err: TextIO
    env: Mapping[str, str] = field(default_factory=dict)
    hold_status: bool = False
    """While somebody types an answer, no status line may write over it."""
    _status: str = ""

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
        self._hide_status()
        self.out.write(text + "\n")
        self._show_status()

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
        self._hide_status()
        self.err.write(self.paint(printable(text), *styles, talk=True) + "\n")
        self.err.flush()
        self._show_status()

    def write_log(self, line: str) -> None:
        """A finished line of the log."""
        self._hide_status()
        self.err.write(line + "\n")
        self.err.flush()
        self._show_status()

    def status(self, text: str) -> None:
        """What is being waited for, on a line that goes away; only where a person may be watching."""
        if self.is_live and not self.hold_status:
            self._status = printable(text).replace("\n", " ")[: shutil.get_terminal_size().columns - 1]
            self._show_status()

    def end_status(self) -> None:
        """Nothing is waited for any more."""
        self._hide_status()
        self._status = ""

    def _show_status(self) -> None:
        if self._status:
            self.err.write(_CLEAR_LINE + self.paint(self._status, "dim", talk=True))
            self.err.flush()

    def _hide_status(self) -> None:
        if self._status:
            self.out.flush()
            self.err.write(_CLEAR_LINE)
            self.err.flush()


def escaped(json_text: str) -> str:
    """JSON with what a terminal might obey written as JSON writes it when it must."""
    import json

    return SUSPECT.sub(lambda match: json.dumps(match[0])[1:-1], json_text)
