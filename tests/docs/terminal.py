"""What a person at a terminal sees, as a picture: a real pseudo-terminal, read by a terminal emulator, drawn as SVG."""

import fcntl
import html
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import pyte
from pyte.screens import Char

COLUMNS, ROWS = 110, 80
DEADLINE_S = 150
QUIET_S = 4
"""How long nothing changes on the screen of something that goes on running before its picture is taken."""
Start = Callable[..., "subprocess.Popen[bytes]"]

WIDTH, HEIGHT, MARGIN, TOP = 8.4, 19, 18, 44
NAMES = ("default", "black", "red", "green", "brown", "blue", "magenta", "cyan", "white", "brightblack")
SHADES = ("d8dee9", "4c566a", "f07178", "a3d977", "ebcb8b", "82aaff", "c792ea", "7fdbca", "eceff4", "8490a5")
COLOURS = {name: f"#{shade}" for name, shade in zip(NAMES, SHADES, strict=True)}
STYLE = """\
text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;white-space:pre}
.step{animation:appear .2s backwards}
@keyframes appear{from{opacity:0}}
@media (prefers-reduced-motion:reduce){.step{animation:none}}"""


@dataclass(frozen=True)
class Line:
    """One line of a screen: its characters, and whether a person typed it."""

    cells: tuple[Char, ...]
    is_typed: bool = False

    @property
    def text(self) -> str:
        return "".join(cell.data for cell in self.cells).rstrip()


def record(start: Start, words: Sequence[str], replaced: Mapping[str, str], until: str = "") -> list[Line]:
    """The screen after a command has ended, or, with ``until``, once it said that and then changed nothing more.

    ``replaced`` are patterns of what differs from run to run, each with what is seen in its place.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    process = start(*words, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    watched = Watched(ours, replaced)
    try:
        watched.follow(until)
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(DEADLINE_S)
        finally:
            process.kill()
            os.close(ours)
    return watched.lines()


class Watched:
    """A terminal, and the screen of whoever looks at it."""

    def __init__(self, terminal: int, replaced: Mapping[str, str]) -> None:
        self.terminal, self.replaced = terminal, replaced
        self.screen = pyte.Screen(COLUMNS, ROWS)
        self.stream = pyte.Stream(self.screen)
        self.held = b""
        """What has no end of a line yet, so that nothing is replaced by halves."""

    def follow(self, until: str) -> None:
        """Read until the command has ended, or has said that and is quiet."""
        end = time.monotonic() + DEADLINE_S
        changed, seen = time.monotonic(), ""
        while time.monotonic() < end:
            said = "\n".join(self.screen.display)
            if said != seen:
                changed, seen = time.monotonic(), said
            if until and until in said and time.monotonic() - changed > QUIET_S:
                return
            if not select.select([self.terminal], [], [], 0.2)[0]:
                self._show(b"")
            elif (data := self._read()) is None:
                self._show(b"")
                return
            else:
                self._show(data)
        raise TimeoutError(f"Nothing settled within {DEADLINE_S} s:\n{seen}")

    def _read(self) -> bytes | None:
        try:
            return os.read(self.terminal, 65536) or None
        except OSError:  # Linux says so when the other end is closed
            return None

    def _show(self, data: bytes) -> None:
        """Put whole lines on the screen; nothing new means that what is held is whole, too."""
        whole, newline, rest = (self.held + data).rpartition(b"\n") if data else (self.held, b"", b"")
        self.held = rest
        text = (whole + newline).decode(errors="replace")
        for pattern, instead in self.replaced.items():
            text = re.sub(pattern, instead, text)
        self.stream.feed(text)

    def lines(self) -> list[Line]:
        """What stands on the screen, without what is empty below."""
        rows = [Line(tuple(self.screen.buffer[row][column] for column in range(COLUMNS))) for row in range(ROWS)]
        while rows and not rows[-1].text:
            rows.pop()
        return rows


def typed(command: str) -> Line:
    """The prompt, and what stands behind it."""
    prompt = [Char("$", fg="green"), Char(" ")]
    return Line((*prompt, *(Char(letter, bold=True) for letter in command)), is_typed=True)


def draw(lines: Sequence[Line], title: str) -> str:
    """The lines as a window; what a command printed appears a moment after the command."""
    columns = max([60, *(len(line.text) for line in lines)])
    width, height = round(columns * WIDTH + 2 * MARGIN), TOP + len(lines) * HEIGHT + MARGIN - 6
    dots = "".join(f'<circle cx="{22 + 20 * at}" cy="20" r="6" fill="#4c566a"/>' for at in range(3))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img"><title>{html.escape(title)}</title><style>{STYLE}</style>'
        f'<rect width="{width}" height="{height}" rx="10" fill="#1f2430"/>{dots}\n{"".join(_steps(lines))}</svg>\n'
    )


def _steps(lines: Sequence[Line]) -> Iterator[str]:
    step = 0
    for at, line in enumerate(lines):
        step += line.is_typed or (at > 0 and lines[at - 1].is_typed)
        drawn = "".join(_runs(line, TOP + at * HEIGHT))
        if drawn:
            yield f'<g class="step" style="animation-delay:{(step - 1) * 0.7:.1f}s">{drawn}</g>\n'


def _runs(line: Line, y: int) -> Iterator[str]:
    column = 0
    for (colour, is_bold, is_underlined), cells in groupby(line.cells[: len(line.text)], key=_look):
        text = "".join(cell.data for cell in cells)
        if text.strip():
            weight = ' font-weight="700"' if is_bold else ""
            under = ' text-decoration="underline"' if is_underlined else ""
            fitted = f'textLength="{len(text) * WIDTH:.1f}" lengthAdjust="spacingAndGlyphs"'
            at = f'x="{MARGIN + column * WIDTH:.1f}" y="{y + 14}"'
            yield f'<text {at} {fitted} fill="{colour}"{weight}{under}>{html.escape(text)}</text>'
        column += len(text)


def _look(cell: Char) -> tuple[str, bool, bool]:
    colour = COLOURS.get(cell.fg) or (f"#{cell.fg}" if len(cell.fg) == 6 else COLOURS["default"])
    return colour, cell.bold, cell.underscore
