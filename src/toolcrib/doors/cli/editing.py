"""Edits of configuration files by command: which file, changed how, told to whom."""

from collections.abc import Callable
from pathlib import Path

from toolcrib.assemble import Loaded
from toolcrib.config.edit import set_enabled
from toolcrib.config.environment import chosen_config
from toolcrib.config.parse import parse
from toolcrib.core.errors import ConfigError
from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import OK, unknown_server
from toolcrib.doors.cli.invoke import Options, Parser, add_common
from toolcrib.doors.cli.opening import load_here
from toolcrib.stores.files import locked, read_text, replace_text
from toolcrib.stores.paths import CONFIG_NAME, NEW_FILE, find_project, user_config_path
from toolcrib.surroundings import Surroundings

Edit = Callable[[str], str]


def file_for_new(options: Options) -> Path:
    """Where a new server is written: the file that was chosen, the user's, or the one the project is read from."""
    around = Surroundings()
    chosen = options.config or chosen_config(around.env)
    if options.user:
        return user_config_path(around.env)
    if chosen:
        return around.cwd / Path(chosen).expanduser()
    return find_project(around.cwd) or around.cwd / CONFIG_NAME


def file_of(name: str, loaded: Loaded) -> Path:
    """The strongest file that says something of a server."""
    for path in reversed(loaded.files):
        if name in parse(read_text(path) or "", str(path)).servers:
            return path
    server = loaded.config.servers.get(name)
    if server is None:
        raise unknown_server(name, list(loaded.config.servers))
    raise ConfigError(
        f"Server {name!r} is not written in a file: it comes from the {server.origin}.", hint="Change that variable."
    )


def edit_file(path: Path, change: Edit) -> None:
    """Change a file in one step; nobody else can change it meanwhile."""
    with locked(path):
        text = read_text(path)
        if text is None:
            text = NEW_FILE if path.suffix == ".toml" else ""
        replace_text(path, change(text))


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
