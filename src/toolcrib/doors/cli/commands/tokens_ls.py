"""``toolcrib tokens ls``: every token, what it may do and whether it works; never the tokens themselves."""

import time

from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import OK
from toolcrib.doors.cli.invoke import Options, Parser, add_common, add_json
from toolcrib.doors.cli.opening import tokens_here
from toolcrib.doors.cli.scopes import shown_expiry, shown_scope, token_entry
from toolcrib.doors.cli.table import Column, print_table

COLUMNS = (
    Column("NAME", styles=("bold",)),
    Column("ID"),
    Column("KIND"),
    Column("STATE", coloured={"active": ("green",), "expired": ("yellow",), "revoked": ("dim",)}),
    Column("ENDS"),
    Column("MAY USE", flexible=True),
)


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    add_json(parser, "the tokens")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """List them."""
    now = time.time()
    tokens = tokens_here(options).read()
    if options.json:
        console.print_json([token_entry(token, now) for token in tokens])
    elif tokens:
        rows = [(t.name, t.id, t.kind, t.state(now), shown_expiry(t), shown_scope(t)) for t in tokens]
        print_table(console, COLUMNS, rows)
    else:
        console.say("There is no token. Create one: toolcrib tokens create NAME")
    return OK
