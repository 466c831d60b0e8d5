"""Servers as the commands show them: states, what came of asking them, and where exports go."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from toolcrib.catalog.standing import failure_on
from toolcrib.cli.console import Column, Console, print_table
from toolcrib.cli.failures import AUTH, OK, UNREACHABLE
from toolcrib.cli.opening import discover
from toolcrib.config.lock import Record
from toolcrib.core.kinds import DiscoveryStatus, FailureKind, ServerState, StepKind
from toolcrib.core.view import Standing
from toolcrib.crib.crib import Crib
from toolcrib.server.views.servers import ServerView, server_views
from toolcrib.stores.files import writing

NARROW = 60
"""Columns a terminal needs for the whole table."""
STATE_STYLES: Mapping[str, tuple[str, ...]] = {
    ServerState.OK: ("green",),
    ServerState.STALE: ("yellow",),
    ServerState.FAILED: ("red",),
    ServerState.DISABLED: ("dim",),
    ServerState.SIGN_IN: ("yellow", "bold"),
    ServerState.INSTALLING: ("cyan",),
    ServerState.STARTING: ("cyan",),
    ServerState.ASKING: ("cyan",),
    ServerState.NEVER: ("cyan",),
    ServerState.HELD: ("red", "bold"),
}


def next_words(view: Standing) -> str:
    """The next step as one sentence would have it, with what to type for it; empty where there is none."""
    step = view.next
    if step is None:
        return ""
    return f"{step.words} ({step.command})" if step.command else step.words


def what_to_do(view: Standing) -> str:
    """Why a server is not in order, and the next step."""
    is_underway = view.next is not None and view.next.kind is StepKind.WAIT
    cause = None if view.state in (ServerState.NEVER, ServerState.DISABLED) else view.cause  # the state says it
    parts = [cause, "" if is_underway and view.state.is_underway else next_words(view)]
    return "; ".join(part for part in parts if part)


def print_servers(console: Console, views: Sequence[ServerView]) -> None:
    """The one table: server, tools, approximate tokens where there is room, state, what to do."""
    columns = [
        Column("SERVER", styles=("bold",)),
        Column("TOOLS", right=True),
        Column("~TOKENS", right=True),
        Column("STATE", coloured=STATE_STYLES),
        Column("WHAT TO DO", flexible=True),
    ]
    rows = [[view.name, str(view.tools), f"{view.tokens:,}", str(view.state), what_to_do(view)] for view in views]
    if len(views) > 1:
        rows.append(["total", str(sum(v.tools for v in views)), f"{sum(v.tokens for v in views):,}", "", ""])
    if console.width < NARROW:
        del columns[2]
        rows = [[*row[:2], *row[3:]] for row in rows]
    print_table(console, columns, rows)
    say_errors(console, views)


def say_errors(console: Console, views: Sequence[ServerView]) -> None:
    """Below a table, what is wrong with the servers that are not in order."""
    for view in views:
        if view.error and not view.state.is_underway:
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
    return next((code for name in names if (code := asking_code(crib.shelves[name].record)) != OK), OK)


def asking_code(record: Record) -> int:
    """The exit code of how asking a server ended; one that wants to know who asks is not merely unreachable."""
    if record.status is not DiscoveryStatus.FAILED:
        return OK
    return AUTH if failure_on(record).kind in (FailureKind.SIGN_IN, FailureKind.CREDENTIAL) else UNREACHABLE


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
