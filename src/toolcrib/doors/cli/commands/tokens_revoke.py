"""``toolcrib tokens revoke``: end a token at once, in running servers too."""

import time

from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import OK
from toolcrib.doors.cli.invoke import Options, Parser, add_common, add_json
from toolcrib.doors.cli.ledger import note_decision
from toolcrib.doors.cli.opening import tokens_here
from toolcrib.doors.cli.scopes import token_entry


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("name", metavar="NAME|ID", help="the token, as `toolcrib tokens ls` shows it")
    add_json(parser, "the token")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """End it."""
    token = tokens_here(options).revoke(options.name)
    note_decision(options, console, "token", "revoked", name=token.name, id=token.id)
    if options.json:
        console.print_json(token_entry(token, time.time()))
    else:
        console.say(f"Token {token.name!r} ({token.id}) is revoked.")
    return OK
