"""``toolcrib audit tail``: the newest entries, and those to come."""

import time

from toolcrib.core.audit import CALL_BEGUN
from toolcrib.doors.cli.audit_view import as_line, one_line_of, open_log, print_entries
from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import OK
from toolcrib.doors.cli.invoke import Options, Parser, add_common, add_json
from toolcrib.doors.views.audit import as_document
from toolcrib.stores.audit_log import AuditLog
from toolcrib.stores.audit_reading import Query, latest

POLL_S = 0.5
EXAMPLES = """\
examples:
  toolcrib audit tail
  toolcrib audit tail -n 5 --follow"""


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("-n", "--number", type=int, default=20, metavar="COUNT", help="how many [20]")
    parser.add_argument("-f", "--follow", action="store_true", help="go on showing what is added, until Ctrl-C")
    add_json(parser, "the entries (with --follow one per line)")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """Show the end of the log."""
    with open_log(options) as log:
        entries = latest(log, Query(), max(options.number, 1))
        if options.json and not options.follow:
            console.print_json([as_document(entry) for entry in entries])
        elif options.json:
            for entry in entries:
                console.print(as_line(entry))
        else:
            print_entries(console, entries)
        if options.follow:
            _follow(log, max((entry.seq for entry in entries), default=0), options, console)
    return OK


def _follow(log: AuditLog, after: int, options: Options, console: Console) -> None:
    """Calls are shown when they have ended, one line each."""
    while True:
        console.out.flush()
        time.sleep(POLL_S)
        for entry in latest(log, Query(after=after)):
            after = max(after, entry.seq)
            if entry.event != CALL_BEGUN:
                console.print(as_line(entry) if options.json else one_line_of(console, entry))
