"""``up`` on a terminal: alive until all is settled, then quiet; and what it leaves behind."""

import io
import signal
import sys

import pytest
from tests.cli.keyboard import Screen, Terminal
from tests.cli.program import TINY, Program

from toolcrib.cli.board import BoardRow, board_lines, is_settled
from toolcrib.cli.console import Console, breadth
from toolcrib.core.kinds import ServerState

ROWS = [
    BoardRow("native", 4, ServerState.OK, ""),
    BoardRow("memory", 0, ServerState.INSTALLING, "npx fetches @modelcontextprotocol/server-memory", 12.4),
    BoardRow("broken", 0, ServerState.FAILED, "no luck today; try again (toolcrib servers refresh broken)"),
    BoardRow("time", 2, ServerState.OK, ""),
]


class Tty(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def shown(rows=ROWS, seconds=12.0, size=(100, 40), **env):
    return board_lines(Console(Tty(), Tty(), {"TERM": "xterm", **env}), rows, seconds, size)


def test_each_server_has_its_state_how_long_and_what_is_done():
    lines = shown(NO_COLOR="1")

    assert lines[0].split() == ["✓", "native", "4", "ok"]
    assert lines[1].split()[1:5] == ["memory", "0", "installing", "12"]
    assert "npx fetches @modelcontextprotocol/server-memory" in lines[1]
    assert lines[2].startswith("✗ broken")
    assert lines[-1].strip() == "6 tools, 2 of 4 ready, 1 installing, 1 failed  12 s"


def test_something_moves_while_anything_is_under_way():
    first, second = shown(seconds=1.0, NO_COLOR="1"), shown(seconds=1.1, NO_COLOR="1")

    assert first[1][0] != second[1][0]
    assert first[0] == second[0]


@pytest.mark.parametrize("columns", [20, 33, 60, 100, 200])
def test_no_line_is_wider_than_the_terminal(columns):
    """Not even where a name is long, or takes two columns for each character."""
    rows = [*ROWS, BoardRow("名前" * 20, 3, ServerState.STARTING, "説明" * 50, 3.0)]

    assert all(breadth(line) < max(columns, 21) for line in shown(rows, size=(columns, 40), NO_COLOR="1"))


def test_where_there_are_too_many_rows_what_is_under_way_stays():
    rows = [*(BoardRow(f"s{number}", 1, ServerState.OK, "") for number in range(50)), *ROWS]
    lines = shown(rows, size=(80, 10), NO_COLOR="1")

    assert len(lines) <= 9
    assert any("installing" in line for line in lines[:-1])
    assert any("and 47 more" in line for line in lines)


def test_without_colour_and_without_unicode_it_is_plain_text():
    class Ascii(Tty):
        encoding = "ascii"

    lines = board_lines(Console(Tty(), Ascii(), {"TERM": "xterm", "NO_COLOR": "1"}), ROWS, 1.0, (80, 40))

    assert all(line.replace("…", "").isascii() and "\x1b" not in line for line in lines)
    assert "\x1b[" in "".join(shown())


def test_it_is_settled_when_nothing_goes_on_by_itself():
    assert not is_settled(ROWS)
    assert is_settled([row for row in ROWS if row.state is not ServerState.INSTALLING])


def test_a_panel_is_drawn_over_itself_and_leaves_nothing():
    """Also where a log line comes in between, and where the terminal was made narrower meanwhile."""
    err = Tty()
    console, screen = Console(err, err, {"TERM": "xterm", "COLUMNS": "40"}), Screen(80, 24)
    console.panel(["one", "two"])
    console.panel(["one", "two and more", "three"])
    console.say("something happened")
    console.panel(["last"])
    screen.write(err.getvalue())
    assert screen.text == "something happened\nlast"
    console.end_status()
    console.say("over")
    screen = Screen(80, 24)
    screen.write(err.getvalue())

    assert screen.text == "something happened\nover\n"


SLOW = 'command = "sh"\nargs = ["-c", "until test -e {flag}; do sleep 0.05; done; exec {python} {server} {diary}"]'


@pytest.fixture
def gated(toolcrib: Program) -> Program:
    """One server that is there, one that fails, and one that waits for a file."""
    slow = SLOW.format(flag=toolcrib.home / "flag", python=sys.executable, server=TINY, diary=toolcrib.diary)
    toolcrib.write("[serve]\nport = 0", toolcrib.tiny(), toolcrib.broken(), f"[servers.slow]\n{slow}")
    return toolcrib


def test_up_is_alive_until_all_is_settled_and_its_numbers_add_up(gated: Program):
    """How to connect is there from the beginning; the table replaces the moving one in its place."""
    with Terminal(gated, "up") as terminal:
        moving = terminal.wait_for(
            lambda text: "1 of 4 ready" in text or ("2 of 4 ready" in text and "failed" in text), "the table"
        )
        assert "Serving MCP at http://127.0.0.1:" in moving
        (gated.home / "flag").touch()
        text = terminal.wait_for(lambda text: "toolcrib cost" in text, "the end of it")
        rows = {line.split()[0]: line.split() for line in text.splitlines() if line.strip()}

        assert [rows[name][3] for name in ("tiny", "slow", "broken")] == ["ok", "ok", "failed"]
        counted = [int(rows[name][1]) for name in ("toolcrib", "tiny", "slow", "broken")]
        assert int(rows["total"][1]) == sum(counted) == int(rows["11"][0])
        assert text.count("tiny ") == 1
        assert "ready" not in text
        assert terminal.stop(signal.SIGINT) == 0
        assert terminal.is_as_before


def test_ctrl_c_while_it_moves_leaves_the_terminal_as_it_was(gated: Program):
    """Nothing of the moving table stays, no setting is changed, the cursor is where it can be seen."""
    with Terminal(gated, "up", columns=50, rows=12) as terminal:
        terminal.wait_for(lambda text: "starting" in text, "the table")
        assert terminal.stop(signal.SIGINT) == 0

        assert "starting" not in terminal.text
        assert terminal.is_as_before


def test_afterwards_it_is_quiet_until_something_breaks(gated: Program):
    """The log is in the file; what is known to be broken is not told again each time it is tried."""
    (gated.home / "flag").touch()
    with Terminal(gated, "up") as terminal:
        before = terminal.wait_for(lambda text: "toolcrib cost" in text, "the table")
        gated.run("servers", "refresh", "broken")
        gated.run("call", "tiny__echo", "text=x")
        assert terminal.text == before
        kept = gated.run("logs").stdout
        gated.write("[serve]\nport = 0", gated.tiny(), gated.broken("second"))
        text = terminal.wait_for(lambda text: "second" in text, "news of what broke")

    assert "server=broken" in kept
    assert "warning" in text.removeprefix(before)


def test_verbose_shows_the_log_above_the_table(gated: Program):
    (gated.home / "flag").touch()
    with Terminal(gated, "up", "-v", columns=160) as terminal:
        text = terminal.wait_for(lambda text: "toolcrib cost" in text, "the table")

    assert "tools.discovery" in text or "server.connected" in text
    assert text.index("server.con") < text.index("SERVER  ")
