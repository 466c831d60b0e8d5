"""``toolcrib approvals ls``: questions that wait, and answers that are kept."""

from typing import Any

from toolcrib.config.ledger import kept_answers
from toolcrib.core.errors import SourceUnavailable
from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import OK
from toolcrib.doors.cli.invoke import Options, Parser, add_common, add_json
from toolcrib.doors.cli.opening import ledger_here
from toolcrib.doors.cli.remote import add_remote, open_remote
from toolcrib.doors.cli.running import run_once
from toolcrib.doors.cli.table import Column, print_table
from toolcrib.doors.rest.approvals import PATH

WAITING = (Column("ID", styles=("bold",)), Column("TOOL"), Column("CALLER"), Column("ARGUMENTS", flexible=True))
KEPT = (Column("TOOL", styles=("bold",)), Column("CALLER"), Column("ANSWER"), Column("SINCE"), Column("BY"))


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    add_remote(parser)
    add_json(parser, "both lists")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """Show both."""
    return run_once(_list(options, console))


async def _list(options: Options, console: Console) -> int:
    waiting = await _waiting(options)
    async with ledger_here(options) as ledger:
        kept = [] if ledger is None else kept_answers(await ledger.lock())
    if options.json:
        console.print_json({"waiting": waiting, "kept": kept})
        return OK
    if waiting:
        rows = [(entry["id"], entry["tool"], entry["caller"], str(entry["arguments"])) for entry in waiting]
        print_table(console, WAITING, rows)
        console.print()
    if kept:
        print_table(console, KEPT, [tuple(entry.values()) for entry in kept])
    if waiting is None:
        console.say("No toolcrib is serving here, so no question waits.", "dim")
    if not waiting and not kept:
        console.say("No question waits, and no answer is kept.")
    return OK


async def _waiting(options: Options) -> list[dict[str, Any]] | None:
    try:
        remote = open_remote(options)
    except SourceUnavailable:
        return None
    try:
        found: list[dict[str, Any]] = (await remote.send("GET", PATH))["questions"]
    except SourceUnavailable:
        return None
    finally:
        await remote.close()
    return found
