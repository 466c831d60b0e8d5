"""Edits of configuration files by command: which file, changed how, told to whom."""

import asyncio
from pathlib import Path

from toolcrib.cli.console import Console
from toolcrib.cli.failures import OK
from toolcrib.cli.invoke import Options, Parser, add_common
from toolcrib.cli.opening import load_here
from toolcrib.config.edit import set_enabled
from toolcrib.config.references import Environment
from toolcrib.core.access import LOCAL_USER
from toolcrib.core.audit import AuditEntry
from toolcrib.core.errors import ToolcribError
from toolcrib.crib.layers import write_down
from toolcrib.project.project import edit_file, file_of, project_file
from toolcrib.stores.paths import user_config_path


def file_for_new(options: Options) -> Path:
    """Where a new server is written: the file that was chosen, the user's, or the one the project is read from."""
    around = Environment()
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


def note_decision(options: Options, console: Console, event: str, decision: str, **details: object) -> None:
    """Write down what the person decided; if that cannot be, they are told, for it is done already."""
    tool = str(details.pop("tool", ""))
    entry = AuditEntry(event, tool, caller=LOCAL_USER.id, caller_kind="local", decision=decision, details=details)
    try:
        asyncio.run(write_down(load_here(options).config, Environment(), entry))
    except ToolcribError as error:
        console.say(f"This was not written to the audit log: {error}", "yellow")
