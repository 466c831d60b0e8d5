"""``toolcrib approvals answer``: answer one question that waits."""

from urllib.parse import quote

from toolcrib.calls.approvals import Reply
from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import OK
from toolcrib.doors.cli.invoke import Options, Parser, add_common
from toolcrib.doors.cli.remote import add_remote, open_remote
from toolcrib.doors.cli.running import run_once
from toolcrib.doors.rest.approvals import PATH


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("id", metavar="ID", help="the question, as `toolcrib approvals ls` shows it")
    parser.add_argument("answer", choices=list(Reply), help="what to answer")
    add_remote(parser)
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """Answer it."""
    return run_once(_answer(options, console))


async def _answer(options: Options, console: Console) -> int:
    remote = open_remote(options)
    try:
        await remote.send("POST", f"{PATH}/{quote(options.id, safe='')}", {"answer": options.answer})
    finally:
        await remote.close()
    console.say(f"Answered: {options.answer}.")
    return OK
