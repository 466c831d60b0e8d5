"""``toolcrib approvals forget``: take a kept answer back."""

import asyncio

from toolcrib.core.errors import did_you_mean
from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import OK, NotFound
from toolcrib.doors.cli.invoke import Options, Parser, add_common
from toolcrib.doors.cli.ledger import note_decision
from toolcrib.doors.cli.opening import ledger_here


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("tool", metavar="TOOL", help="the tool, as `toolcrib approvals ls` shows it")
    parser.add_argument("--caller", help="only the answer that was given for this caller")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """Take it out of the lock."""
    callers = asyncio.run(_forget(options))
    note_decision(options, console, "approval", "forgotten", tool=options.tool, callers=callers)
    console.say(f"Forgotten: {options.tool}. The person is asked again at its next call.")
    return OK


async def _forget(options: Options) -> list[str]:
    """Whose answers were taken back; it is an error if there are none."""
    async with ledger_here(options) as ledger:
        wanted = None if options.caller is None else [options.caller]
        gone = [] if ledger is None else await ledger.forget(options.tool, wanted)
        known = [] if gone or ledger is None else list((await ledger.lock()).approvals)
    if not gone:
        raise NotFound(f"No answer is kept for {options.tool!r}.", hint=did_you_mean(options.tool, known))
    return gone
