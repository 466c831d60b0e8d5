"""``toolcrib audit search``: the entries that fit."""

from toolcrib.doors.cli.audit_view import add_since, open_log, print_entries, since_us
from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import OK
from toolcrib.doors.cli.invoke import Options, Parser, add_common, add_json
from toolcrib.doors.views.audit import as_document
from toolcrib.stores.audit_reading import Query, latest

EXAMPLES = """\
examples:
  toolcrib audit search --tool 'github__*' --since 1h
  toolcrib audit search --denied
  toolcrib audit search --outcome TOOL_TIMEOUT --json"""


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("--tool", metavar="PATTERN", help="the tool's name; * stands for anything")
    parser.add_argument("--caller", metavar="PATTERN", help="who called")
    parser.add_argument("--outcome", metavar="PATTERN", help="success, or the code of an error")
    parser.add_argument("--denied", action="store_true", help="only what was refused to its caller")
    add_since(parser)
    parser.add_argument("-n", "--number", type=int, default=100, metavar="COUNT", help="the newest so many [100]")
    add_json(parser, "the entries")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """Show what fits, the newest last."""
    query = Query(options.tool, options.caller, options.outcome, since_us(options.since), options.denied)
    with open_log(options) as log:
        entries = latest(log, query, max(options.number, 1))
    if options.json:
        console.print_json([as_document(entry) for entry in entries])
    elif entries:
        print_entries(console, entries)
    else:
        console.say("Nothing in the log fits.")
    return OK
