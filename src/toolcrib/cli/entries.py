"""Servers as the commands show them: states, what came of asking them, and where exports go."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import assert_never

from toolcrib.cli.console import Column, Console, print_table
from toolcrib.cli.failures import OK, exit_code
from toolcrib.cli.opening import discover
from toolcrib.core.kinds import DiscoveryStatus, ServerState
from toolcrib.crib.crib import Crib
from toolcrib.server.views.servers import ServerView, server_views
from toolcrib.stores.files import writing

STATE_STYLES: Mapping[str, tuple[str, ...]] = {
    ServerState.OK: ("green",),
    ServerState.STALE: ("yellow",),
    ServerState.FAILED: ("red",),
    ServerState.DISABLED: ("dim",),
    ServerState.ASKING: ("cyan",),
    ServerState.NEVER: ("cyan",),
    ServerState.HELD: ("red", "bold"),
}


def what_to_do(view: ServerView) -> str:
    """The next step for a server that is not in order."""
    name, state = view.name, view.state
    match state:
        case ServerState.DISABLED:
            step = f"toolcrib servers enable {name}"
        case ServerState.NEVER:
            step = f"toolcrib servers refresh {name}"
        case ServerState.HELD:
            step = f"in quarantine: toolcrib approve {name}"
        case ServerState.ASKING:
            step = f"trying again: {view.error}" if view.error else "still starting; the log will tell"
        case ServerState.FAILED | ServerState.STALE:
            step = f"toolcrib servers logs {name}"
        case ServerState.OK if view.held:
            step = f"{len(view.held)} in quarantine: toolcrib diff {name}"
        case ServerState.OK:
            step = f"{len(view.problems)} left out: toolcrib doctor" if view.problems else ""
        case _:
            assert_never(state)
    return step


def print_servers(console: Console, views: Sequence[ServerView]) -> None:
    """The one table: server, tools, approximate tokens, state, what to do."""
    columns = (
        Column("SERVER", styles=("bold",)),
        Column("TOOLS", right=True),
        Column("~TOKENS", right=True),
        Column("STATE", coloured=STATE_STYLES),
        Column("WHAT TO DO", flexible=True),
    )
    rows = [(view.name, str(view.tools), f"{view.tokens:,}", str(view.state), what_to_do(view)) for view in views]
    if len(views) > 1:
        rows.append(("total", str(sum(v.tools for v in views)), f"{sum(v.tokens for v in views):,}", "", ""))
    print_table(console, columns, rows)
    say_errors(console, views)


def say_errors(console: Console, views: Sequence[ServerView]) -> None:
    """Below a table, what is wrong with the servers that are not in order."""
    for view in views:
        if view.error and view.state is not ServerState.ASKING:
            console.out.flush()
            console.say(view.error if repr(view.name) in view.error else f"{view.name}: {view.error}", "yellow")


async def ask_and_show(crib: Crib, console: Console, names: list[str], *, as_json: bool = False) -> int:
    """Ask these servers, show how each did; a failure shows in the exit code."""
    await discover(crib, console, names)
    views = [view for view in server_views(crib) if view.name in names]
    if as_json:
        console.print_json(views)
    else:
        print_servers(console, views)
    failed = [name for name in names if crib.shelves[name].record.status is DiscoveryStatus.FAILED]
    return exit_code("TOOL_UNAVAILABLE", crib.shelves[failed[0]].source.status().details) if failed else OK


@contextmanager
def export_to(path: str | None) -> Iterator[Callable[[bytes], object]]:
    """What takes the export part by part; a file that only this user may read has it when all came through."""
    if path is not None:
        with writing(Path(path), 0o600, keep=0o600) as write:
            yield write
        return
    sys.stdout.flush()
    yield sys.stdout.buffer.write
    sys.stdout.buffer.flush()
