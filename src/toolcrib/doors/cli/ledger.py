"""Decisions taken at the command line, for the audit log."""

import asyncio

from toolcrib.core.access import LOCAL_USER
from toolcrib.core.audit import AuditEntry
from toolcrib.core.errors import ToolcribError
from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.invoke import Options
from toolcrib.doors.cli.opening import load_here
from toolcrib.onlookers import write_down
from toolcrib.surroundings import Surroundings


def note_decision(options: Options, console: Console, event: str, decision: str, **details: object) -> None:
    """Write down what the person decided; if that cannot be, they are told, for it is done already."""
    tool = str(details.pop("tool", ""))
    entry = AuditEntry(event, tool, caller=LOCAL_USER.id, caller_kind="local", decision=decision, details=details)
    try:
        asyncio.run(write_down(load_here(options).config, Surroundings(), entry))
    except ToolcribError as error:
        console.say(f"This was not written to the audit log: {error}", "yellow")
