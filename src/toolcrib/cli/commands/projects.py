"""``toolcrib projects``: the directories toolcrib was run in, and forgetting one."""

import os

from toolcrib.cli.console import Column, Console, print_table
from toolcrib.cli.invoke import Options, arg, as_json, command
from toolcrib.server.views.projects import project_entry
from toolcrib.stores.paths import state_directory
from toolcrib.stores.projects import ProjectFile

COLUMNS = (Column("NAME", styles=("bold",)), Column("ID"), Column("LAST USED"), Column("DIRECTORY", flexible=True))


@command(as_json("the projects"))
def run_ls(options: Options, console: Console) -> None:
    """List those that are still there."""
    found = [project for project in ProjectFile(state_directory(os.environ)).read() if project.is_there]
    if options.json:
        console.print_json([project_entry(project) for project in found])
    elif found:
        rows = [(project.name, project.id, project.last_used, project.directory) for project in found]
        print_table(console, COLUMNS, rows)
    else:
        console.say("No project is known yet. Run `toolcrib up` in one.")


@command(
    arg("project", metavar="NAME|ID|DIRECTORY", help="the project, as `toolcrib projects ls` shows it"),
    as_json("the project"),
)
def run_rm(options: Options, console: Console) -> None:
    """Forget it."""
    forgotten = ProjectFile(state_directory(os.environ)).forget(options.project)
    if options.json:
        console.print_json(project_entry(forgotten))
    else:
        console.say(f"Project {forgotten.name!r} is forgotten; {forgotten.directory} is as it was.")
