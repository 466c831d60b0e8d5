"""``toolcrib projects ls``: the directories toolcrib was run in."""

import os
from typing import Any

from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import OK
from toolcrib.doors.cli.invoke import Options, Parser, add_common, add_json
from toolcrib.doors.cli.table import Column, print_table
from toolcrib.stores.paths import state_directory
from toolcrib.stores.projects import KnownProject, ProjectFile

COLUMNS = (Column("NAME", styles=("bold",)), Column("ID"), Column("LAST USED"), Column("DIRECTORY", flexible=True))


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    add_json(parser, "the projects")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """List those that are still there."""
    found = [project for project in ProjectFile(state_directory(os.environ)).read() if project.is_there]
    if options.json:
        console.print_json([project_entry(project) for project in found])
    elif found:
        rows = [(project.name, project.id, project.last_used, project.directory) for project in found]
        print_table(console, COLUMNS, rows)
    else:
        console.say("No project is known yet. Run `toolcrib up` in one.")
    return OK


def project_entry(project: KnownProject) -> dict[str, Any]:
    """A project as ``--json`` shows it."""
    return {
        "id": project.id,
        "name": project.name,
        "directory": project.directory,
        "file": project.chosen or None,
        "lastUsed": project.last_used,
    }
