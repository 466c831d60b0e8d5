"""``toolcrib projects rm``: forget a project; nothing in its directory is touched."""

import os

from toolcrib.doors.cli.commands.projects_ls import project_entry
from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import OK
from toolcrib.doors.cli.invoke import Options, Parser, add_common, add_json
from toolcrib.stores.paths import state_directory
from toolcrib.stores.projects import ProjectFile


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("project", metavar="NAME|ID|DIRECTORY", help="the project, as `toolcrib projects ls` shows it")
    add_json(parser, "the project")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """Forget it."""
    forgotten = ProjectFile(state_directory(os.environ)).forget(options.project)
    if options.json:
        console.print_json(project_entry(forgotten))
    else:
        console.say(f"Project {forgotten.name!r} is forgotten; {forgotten.directory} is as it was.")
    return OK
