"""Edits of configuration files by command: which file, changed how, told to whom."""

from pathlib import Path

from toolcrib.config.edit import set_enabled
from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import OK
from toolcrib.doors.cli.invoke import Options, Parser, add_common
from toolcrib.doors.cli.opening import load_here
from toolcrib.project import edit_file, file_of, project_file
from toolcrib.stores.paths import user_config_path
from toolcrib.surroundings import Surroundings


def file_for_new(options: Options) -> Path:
    """Where a new server is written: the file that was chosen, the user's, or the one the project is read from."""
    around = Surroundings()
    return user_config_path(around.env) if options.user else project_file(options.config, around)


def add_toggle(parser: Parser) -> None:
    """The arguments of ``enable`` and ``disable``."""
    parser.add_argument("name", metavar="NAME", help="the server, as `toolcrib servers ls` shows it")
    add_common(parser)


def toggle(options: Options, console: Console, *, enabled: bool) -> int:
    """Switch a server on or off in the file it is written in."""
    loaded = load_here(options)
    path = file_of(options.name, loaded)
    edit_file(path, lambda text: set_enabled(text, options.name, enabled, str(path)))
    console.say(f"Server {options.name!r} is {'enabled' if enabled else 'disabled'} in {path}.")
    return OK
