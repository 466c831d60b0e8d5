"""``toolcrib approvals watch``: answer questions at this terminal as they come in."""

import sys
from typing import Any

from toolcrib.core.errors import PermissionDenied
from toolcrib.doors.cli.asking import ask, describe
from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import OK, UsageError
from toolcrib.doors.cli.invoke import Options, Parser, add_common
from toolcrib.doors.cli.remote import Remote, add_remote, open_remote
from toolcrib.doors.cli.running import run_once
from toolcrib.doors.rest.approvals import PATH

WAIT_S = 30


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    add_remote(parser)
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """Wait for questions, until Ctrl-C."""
    if not sys.stdin.isatty():
        raise UsageError("This needs a terminal.", hint="Answer by `toolcrib approvals answer ID once` instead.")
    return run_once(_watch(options, console))


async def _watch(options: Options, console: Console) -> int:
    remote = open_remote(options)
    console.say(f"Waiting for questions from {remote.url}; Ctrl-C ends.", "dim")
    try:
        while True:
            found = await remote.send("GET", f"{PATH}?wait={WAIT_S}")
            for question in found["questions"]:
                if not await _answer(remote, question, console):
                    return OK
    finally:
        await remote.close()


async def _answer(remote: Remote, question: dict[str, Any], console: Console) -> bool:
    """Ask the person and pass the answer on; false when the terminal was closed."""
    lines = describe(question["tool"], question["level"], question["caller"], question["arguments"])
    reply = await ask(console, sys.stdin.fileno(), lines)
    if reply is None:
        return False
    try:
        await remote.send("POST", f"{PATH}/{question['id']}", {"answer": reply})
    except PermissionDenied as error:
        console.say(str(error), "yellow")
    return True
