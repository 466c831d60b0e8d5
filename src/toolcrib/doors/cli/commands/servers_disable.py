"""``toolcrib servers disable``: switch a server off."""

from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.editing import add_toggle, toggle
from toolcrib.doors.cli.invoke import Options, Parser


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    add_toggle(parser)


def run(options: Options, console: Console) -> int:
    """Write it into the file the server is written in."""
    return toggle(options, console, enabled=False)
