"""``toolcrib tokens reset``: end all tokens and open the door again, on purpose."""

import sys

from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import OK, UsageError
from toolcrib.doors.cli.invoke import Options, Parser, add_common
from toolcrib.doors.cli.ledger import note_decision
from toolcrib.doors.cli.opening import tokens_here
from toolcrib.stores.token_file import TokenFile

EXAMPLES = """\
examples:
  toolcrib tokens reset --yes

Every token ends, also those whose file is gone or damaged. Afterwards programs on this machine need none, until one is
made again."""


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """End them all."""
    tokens = tokens_here(options)
    if not isinstance(tokens, TokenFile):
        raise UsageError("The tokens are in the shared database.", hint="End them with `toolcrib tokens revoke NAME`.")
    if not options.yes and not _is_wanted():
        raise UsageError("Nothing was changed.", hint="Say --yes to end all tokens.")
    tokens.reset()
    note_decision(options, console, "token", "reset")
    console.say("All tokens are ended. Programs on this machine need none now.")
    return OK


def _is_wanted() -> bool:
    if not sys.stdin.isatty():
        return False
    return input("End all tokens, so that programs on this machine need none? [y/N] ").strip().lower() in ("y", "yes")
