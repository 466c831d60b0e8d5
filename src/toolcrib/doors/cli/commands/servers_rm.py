"""``toolcrib servers rm``: take a server out of the configuration, and what is known of it out of the lock."""

import asyncio

from toolcrib.config.edit import remove_server
from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.failures import OK
from toolcrib.doors.cli.invoke import Options, Parser, add_common
from toolcrib.doors.cli.opening import ledger_here, load_here
from toolcrib.loading import Loaded
from toolcrib.project import edit_file, file_of


def add_arguments(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument("name", metavar="NAME", help="the server, as `toolcrib servers ls` shows it")
    add_common(parser)


def run(options: Options, console: Console) -> int:
    """Remove the server from the file it is written in."""
    path = file_of(options.name, load_here(options))
    edit_file(path, lambda text: remove_server(text, options.name, str(path)))
    console.say(f"Server {options.name!r} is removed from {path}.")
    _after(options, load_here(options), console)
    return OK


def _after(options: Options, loaded: Loaded, console: Console) -> None:
    left = loaded.config.servers.get(options.name)
    if left is not None:
        console.say(f"There is still one of that name in {left.origin}; it counts from now on.")
    else:
        asyncio.run(_forget(options))


async def _forget(options: Options) -> None:
    async with ledger_here(options) as ledger:
        if ledger is not None and options.name in await ledger.read():
            await ledger.update(options.name, lambda _: None)
