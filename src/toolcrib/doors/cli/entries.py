"""Server states as the commands show them."""

from collections.abc import Mapping, Sequence
from typing import Any

from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.table import Column, print_table

STATE_STYLES: Mapping[str, tuple[str, ...]] = {
    "ok": ("green",),
    "stale": ("yellow",),
    "failed": ("red",),
    "disabled": ("dim",),
    "asking": ("cyan",),
    "never": ("cyan",),
    "held": ("red", "bold"),
}


_COMMANDS = {
    "disabled": "toolcrib servers enable",
    "never": "toolcrib servers refresh",
    "held": "in quarantine: toolcrib approve",
}


def what_to_do(entry: Mapping[str, Any]) -> str:
    """The next step for a server that is not in order."""
    name, state = entry["name"], entry["state"]
    if state in _COMMANDS:
        return f"{_COMMANDS[state]} {name}"
    if state == "asking":
        return f"trying again: {entry['error']}" if entry["error"] else "still starting; the log will tell"
    if state in ("failed", "stale"):
        return f"toolcrib servers logs {name}"
    if entry["held"]:
        return f"{len(entry['held'])} in quarantine: toolcrib diff {name}"
    return f"{len(entry['problems'])} left out: toolcrib doctor" if entry["problems"] else ""


def print_servers(console: Console, entries: Sequence[Mapping[str, Any]]) -> None:
    """The one table: server, tools, approximate tokens, state, what to do."""
    columns = (
        Column("SERVER", styles=("bold",)),
        Column("TOOLS", right=True),
        Column("~TOKENS", right=True),
        Column("STATE", coloured=STATE_STYLES),
        Column("WHAT TO DO", flexible=True),
    )
    rows = [_row(entry) for entry in entries]
    if len(entries) > 1:
        total = {key: sum(entry[key] for entry in entries) for key in ("tools", "tokens")}
        rows.append(("total", str(total["tools"]), f"{total['tokens']:,}", "", ""))
    print_table(console, columns, rows)
    say_errors(console, entries)


def say_errors(console: Console, entries: Sequence[Mapping[str, Any]]) -> None:
    """Below a table, what is wrong with the servers that are not in order."""
    for entry in entries:
        if entry["error"] and entry["state"] != "asking":
            console.out.flush()
            named = entry["error"] if repr(entry["name"]) in entry["error"] else f"{entry['name']}: {entry['error']}"
            console.say(named, "yellow")


def _row(entry: Mapping[str, Any]) -> tuple[str, ...]:
    return entry["name"], str(entry["tools"]), f"{entry['tokens']:,}", entry["state"], what_to_do(entry)
