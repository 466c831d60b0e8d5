"""``toolcrib projects``: the directories toolcrib was run in, and forgetting one."""

import os

from toolcrib.cli.console import Column, Console, print_table
from toolcrib.cli.failures import OK
from toolcrib.cli.invoke import Options, Parser, add_common, add_json
from toolcrib.server.views.projects import project_entry
from toolcrib.stores.paths import state_directory
from toolcrib.stores.projects import ProjectFile

COLUMNS = (Column("NAME", styles=("bold",)), Column("ID"), Column("LAST USED"), Column("DIRECTORY", flexible=True))


def add_ls_arguments(parser: Parser) -> None:
    """What it takes."""
    add_json(parser, "the projects")
    add_common(parser)


def run_ls(options: Options, console: Console) -> int:
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


def add_rm_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("project", metavar="NAME|ID|DIRECTORY", help="the project, as `toolcrib projects ls` shows it")
    add_json(parser, "the project")
    add_common(parser)


def run_rm(options: Options, console: Console) -> int:
    """Forget it."""
    forgotten = ProjectFile(state_directory(os.environ)).forget(options.project)
    if options.json:
        console.print_json(project_entry(forgotten))
    else:
        console.say(f"Project {forgotten.name!r} is forgotten; {forgotten.directory} is as it was.")
    return OK
