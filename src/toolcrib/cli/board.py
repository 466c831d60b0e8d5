"""The table of ``up`` while servers come up: drawn anew in place until all is settled."""

import asyncio
import shutil
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from toolcrib.catalog.standing import standing_of
from toolcrib.cli.console import Console, breadth, cut, one_line
from toolcrib.cli.entries import STATE_STYLES, what_to_do
from toolcrib.core.kinds import ServerState
from toolcrib.crib.crib import Crib
from toolcrib.server.views.servers import inner_views

TICK_S = 0.1
SOON_S = 0.02
"""Before the first look, so that whoever is asked is asked."""
NAME_MAX = 24
BESIDE_NAME = 20
SPARE_ROWS = 3
"""Of the terminal's rows: what is above the rows of servers, and below."""
BRAILLE, PLAIN = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "|/-\\"
MARKS = {ServerState.OK: "✓", ServerState.FAILED: "✗", ServerState.SIGN_IN: "!", ServerState.HELD: "!"}


class BoardRow(NamedTuple):
    """One server as the table shows it while it comes up."""

    name: str
    tools: int
    state: ServerState
    words: str
    seconds: float = 0.0
    """How long it has been so; only said while something is under way."""


class Board:
    """The rows of a Crib's servers, and how long each has been in its state."""

    def __init__(self, crib: Crib) -> None:
        self._crib = crib
        self._now = asyncio.get_running_loop().time
        self._began = self._now()
        self._since: dict[str, tuple[ServerState, float]] = {}

    def rows(self) -> list[BoardRow]:
        """Every server that is switched on, and what is in this process."""
        inner = [BoardRow(view.name, view.tools, view.state, "") for view in inner_views(self._crib)]
        return [*inner, *(self._row(name) for name in sorted(self._crib.shelves))]

    def _row(self, name: str) -> BoardRow:
        standing, now = standing_of(self._crib.shelves[name]), self._now()
        since = self._since.get(name, (None, now))
        if since[0] is not standing.state:
            since = self._since[name] = (standing.state, now)
        tools = len(self._crib.catalog.of_server(name))
        return BoardRow(name, tools, standing.state, one_line(what_to_do(standing)), now - since[1])

    @property
    def seconds(self) -> float:
        """How long it is looked at."""
        return self._now() - self._began


def is_settled(rows: Sequence[BoardRow]) -> bool:
    """Whether nothing of it changes by itself any more for now."""
    return not any(row.state.is_underway for row in rows)


def board_lines(console: Console, rows: Sequence[BoardRow], seconds: float, size: tuple[int, int]) -> list[str]:
    """The table as it is now, in at most so many columns and rows; where that is too few, what is settled is left out
    first."""
    columns, height = max(20, size[0] - 1), size[1]
    shown = _shown(rows, max(1, height - SPARE_ROWS))
    width = min(NAME_MAX, max(4, columns - BESIDE_NAME), max((breadth(row.name) for row in rows), default=0))
    lines = [_line(console, row, width, columns, seconds) for row in shown]
    if len(shown) < len(rows):
        lines.append(console.paint(cut(f"  and {len(rows) - len(shown)} more", columns), "dim", talk=True))
    return [*lines, console.paint(cut(_summary(rows, seconds), columns), "dim", talk=True)]


def _shown(rows: Sequence[BoardRow], most: int) -> list[BoardRow]:
    kept = sorted(rows, key=lambda row: (not row.state.is_underway, row.state is ServerState.OK))[:most]
    return [row for row in rows if row in kept]


def _line(console: Console, row: BoardRow, width: int, columns: int, seconds: float) -> str:
    """A mark, the name, how many tools, the state, how long, and what is done or to be done."""
    name = cut(row.name, width)
    time = f"{row.seconds:.0f} s" if row.state.is_underway else ""
    cells = (f"{_mark(console, row, seconds)} ", name + " " * (width - breadth(name)), f"  {row.tools:>4}  ")
    room = max(1, columns - sum(map(breadth, cells)))
    state = cut(f"{row.state!s:<10}", room)
    left = room - breadth(state)
    rest = cut(f" {time:>5}  {row.words}".rstrip(), left) if left > 1 else ""
    painted = (
        console.paint(cells[0], *STATE_STYLES[row.state], talk=True),
        console.paint(cells[1], "bold", talk=True),
        cells[2],
        console.paint(state, *STATE_STYLES[row.state], talk=True),
    )
    return "".join(painted) + rest


def _mark(console: Console, row: BoardRow, seconds: float) -> str:
    is_plain = "utf" not in (console.err.encoding or "").lower()
    if row.state.is_underway:
        frames = PLAIN if is_plain else BRAILLE
        return frames[int(seconds / TICK_S) % len(frames)]
    return " " if is_plain else MARKS.get(row.state, " ")


def _summary(rows: Sequence[BoardRow], seconds: float) -> str:
    """How many tools, from how many servers that are ready, and what the others do."""
    states = Counter(row.state for row in rows)
    told = [f"{count} {state}" for state, count in states.items() if state is not ServerState.OK]
    parts = [f"{sum(row.tools for row in rows)} tools", f"{states[ServerState.OK]} of {len(rows)} ready", *told]
    return f"  {', '.join(parts)}  {seconds:.0f} s"


async def watch(crib: Crib, console: Console, stop: asyncio.Event) -> bool:
    """Have all servers asked, and show how that goes until it is settled; false if we are to stop before."""
    board = Board(crib)
    waits = [asyncio.ensure_future(crib.current()), asyncio.ensure_future(stop.wait())]
    try:
        await asyncio.sleep(SOON_S)
        while not stop.is_set():
            rows = board.rows()
            lines = board_lines(console, rows, board.seconds, shutil.get_terminal_size())
            await asyncio.to_thread(console.panel, lines)
            if waits[0].done() and is_settled(rows):
                waits[0].result()
                return True
            pending = [wait for wait in waits if not wait.done()]
            await asyncio.wait(pending, timeout=TICK_S, return_when=asyncio.FIRST_COMPLETED)
        return False
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.wait(waits)
        console.end_status()
