"""``toolcrib audit export``: the log as JSON lines."""

from toolcrib.doors.cli.audit_view import add_since, as_line, open_log, since_us
from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.exporting import export_to
from toolcrib.doors.cli.failures import OK
from toolcrib.doors.cli.invoke import Options, Parser, add_common
from toolcrib.stores.audit_reading import in_order

EXAMPLES = """\
examples:
  toolcrib audit export --since 2026-01-01 -o january.jsonl
  toolcrib audit export | jq -r 'select(.outcome == "TOOL_TIMEOUT") | .tool'"""


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    add_since(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="write to this file, which only you may read")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """Write every entry, the oldest first."""
    count = 0
    with open_log(options) as log, export_to(options.output) as write:
        for count, entry in enumerate(in_order(log, since_us(options.since)), 1):  # noqa: B007 - told below
            write(f"{as_line(entry)}\n".encode())
    if options.output:
        console.say(f"{count} entries written to {options.output}.")
    return OK
