"""``toolcrib audit export``: the log as JSON lines."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from toolcrib.doors.cli.audit_view import add_since, as_line, open_log, since_us
from toolcrib.doors.cli.console import Console
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
    with open_log(options) as log, _target(options.output) as target:
        for count, entry in enumerate(in_order(log, since_us(options.since)), 1):  # noqa: B007 - told below
            target.write(as_line(entry) + "\n")
    if options.output:
        console.say(f"{count} entries written to {options.output}.")
    return OK


@contextmanager
def _target(path: str | None) -> Iterator[TextIO]:
    if path is None:
        yield sys.stdout
        return
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        yield file
