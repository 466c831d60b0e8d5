"""``toolcrib config path``: the files toolcrib reads here."""

from typing import Any

from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import OK
from toolcrib.doors.cli.invoke import Options, Parser, add_common, add_json
from toolcrib.doors.cli.opening import load_here
from toolcrib.doors.cli.table import Column, print_table
from toolcrib.loading import Loaded

COLUMNS = (Column("KIND", styles=("bold",)), Column(""), Column("PATH"))


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    add_json(parser, "the files")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """Show the files, weakest first, whether they exist or not."""
    files = _files(load_here(options))
    if options.json:
        console.print_json(files)
    else:
        rows = [(file["kind"], "" if file["exists"] else "missing", file["path"]) for file in files]
        print_table(console, COLUMNS, rows)
    return OK


def _files(loaded: Loaded) -> list[dict[str, Any]]:
    user = "rules" if loaded.is_chosen else "user"
    kinds = {user: loaded.user, "project": loaded.project, "lock": loaded.lock}
    return [{"kind": kind, "path": str(path), "exists": path.is_file()} for kind, path in kinds.items() if path]
