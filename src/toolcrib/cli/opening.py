"""The Crib a command works with: what is configured here, or the built-in tools when nothing is."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar

from toolcrib.cli.console import Console
from toolcrib.cli.failures import unknown_server
from toolcrib.cli.invoke import Options, Parser
from toolcrib.cli.logs import one_shot_log
from toolcrib.config.environment import chosen_config
from toolcrib.config.lock import LockStore, Record
from toolcrib.config.model import is_bare as is_bare_config
from toolcrib.config.references import Environment
from toolcrib.core.errors import InvalidName
from toolcrib.core.names import is_own, split_name
from toolcrib.crib.backend import find_backend, open_lock
from toolcrib.crib.crib import Crib
from toolcrib.crib.loading import Loaded, load
from toolcrib.crib.window import Profiles, ProfileView
from toolcrib.project.running import assemble_configured
from toolcrib.server.views.servers import is_unasked
from toolcrib.sources.native.builtin import BUILTIN
from toolcrib.stores.access_tokens import TokenBook
from toolcrib.stores.paths import find_project, user_config_path

PATIENCE_S = 0.4
TICK_S = 0.2
NAMES_SHOWN = 5

T = TypeVar("T")


def load_here(options: Options, flags: Mapping[str, object] | None = None) -> Loaded:
    """The configuration the command line points at."""
    return load(options.config, Environment(), flags)


def ledger_here(options: Options) -> AbstractAsyncContextManager[LockStore | None]:
    """Where records and answers are kept, for a command that needs no Crib."""
    loaded = load_here(options)
    return open_lock(loaded.config, loaded.lock, Environment())


def tokens_here(options: Options) -> TokenBook:
    """The tokens that were given to others."""
    return find_backend(load_here(options).config, Environment()).tokens(time.time)


def is_bare(loaded: Loaded) -> bool:
    """Whether nothing at all is configured, so that the built-in tools stand in."""
    return is_bare_config(loaded.config)


def has_only_builtin(crib: Crib) -> bool:
    """Whether the built-in tools stand in for a configuration."""
    names = {tool.__name__ for tool in BUILTIN}
    others = {name for name in crib.catalog.routes if not is_own(name)}
    return not crib.shelves and not crib.disabled and others == names


@asynccontextmanager
async def open_here(options: Options, console: Console) -> AsyncIterator[Crib]:
    """The Crib of a command that runs once."""
    async with open_window(options, console) as window:
        yield window.crib


@asynccontextmanager
async def open_window(options: Options, console: Console) -> AsyncIterator[ProfileView]:
    """What a command that runs once looks at: all that is configured, or the profile it names."""
    loaded = load_here(options)
    crib = await assemble_configured(loaded, one_shot_log(options, console), one_shot=True)
    try:
        await wait_with_status(console, crib.servers.find(), "asking the platform")
        yield Profiles(crib, loaded.config).need(getattr(options, "profile", ""))
    finally:
        console.end_status()
        await crib.close()


async def wait_with_status(console: Console, work: Awaitable[T], what: str | Callable[[], str]) -> T:
    """Wait for ``work``; if it takes long, a person at a terminal sees for what and how long."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait([task], timeout=PATIENCE_S)
        while not task.done():
            console.status(f"{what() if callable(what) else what} … {loop.time() - began:.0f} s")
            await asyncio.wait([task], timeout=TICK_S)
        return await task
    except asyncio.CancelledError:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        raise
    finally:
        console.end_status()


def asking(crib: Crib) -> str:
    """Who is being waited for right now."""
    names = [name for name, shelf in crib.shelves.items() if shelf.flight is not None]
    return f"asking {', '.join(names) if len(names) < NAMES_SHOWN else f'{len(names)} servers'}"


async def discover(crib: Crib, console: Console, names: list[str]) -> dict[str, Record]:
    """Ask these servers now, showing who is being waited for."""
    for name in names:
        if name not in crib.shelves:
            raise unknown_server(name, [*crib.shelves, *crib.disabled])
    if not names:
        return {}
    return await wait_with_status(console, crib.refresh(*names), lambda: asking(crib))


async def discover_unasked(crib: Crib, console: Console) -> dict[str, Record]:
    """Ask the servers nobody has asked yet."""
    return await discover(crib, console, [name for name, shelf in crib.shelves.items() if is_unasked(shelf)])


async def make_known(crib: Crib, console: Console, tool: str) -> None:
    """Ask whoever may offer ``tool``, if nobody known does: its server, or all when the name names none."""
    if tool in crib.catalog.routes:
        return
    server = server_of(tool)
    if server in crib.shelves:
        await discover(crib, console, [server] if is_unasked(crib.shelves[server]) else [])
    elif server not in crib.disabled:
        await discover_unasked(crib, console)


def server_of(tool: str) -> str:
    """The server part of a tool's name, empty for a native one."""
    try:
        return split_name(tool)[0]
    except InvalidName:
        return ""


def add_workspace(parser: Parser) -> None:
    """What it takes."""
    parser.add_argument(
        "--workspace", metavar="DIR", help="offer tools that read, write and search the files of a directory"
    )


def workspace_flags(options: Options) -> dict[str, object]:
    """The same by its names in the file; a relative path is seen from here."""
    given = getattr(options, "workspace", None)
    if given is None:
        return {}
    root = str(Path(given).expanduser().absolute())
    return {"workspace.enabled": True, "workspace.root": root}


def add_first_run(parser: Parser) -> None:
    """The options of a command that offers an import."""
    offer = parser.add_mutually_exclusive_group()
    offer.add_argument(
        "--import", dest="take_over", action="store_true", help="if nothing is configured: import what is found"
    )
    offer.add_argument("--no-import", action="store_true", help="do not look for servers of other programs")


def offer_import(options: Options, console: Console) -> None:
    """Ask, or say how; costs a look for two files when there is a configuration."""
    around = Environment()
    if options.no_import or _has_configuration(options, around) or not is_bare(load_here(options)):
        return
    from toolcrib.cli.commands.files import choose, count, is_person_here, listed
    from toolcrib.project.importing import ImportRequest, find_imports, import_target, take_over

    target = import_target(around)
    found = find_imports(around, ImportRequest(target))
    names = [candidate.name for candidate in found.in_state("new")]
    if not names:
        return
    told = f"{count(len(names))} from {listed(found.clients)}"
    if not options.take_over and not is_person_here(console):
        console.say(f"toolcrib: found {told}; `toolcrib import` brings them in.")
        return
    chosen = names if options.take_over else choose(console, f"Import {told}?", names)
    done = take_over(found, chosen, target, around)
    if done:
        console.say(f"{count(len(done))} written to {target}.")
    for candidate in done:
        for note in candidate.notes:
            console.say(f"  {candidate.name}: {note}", "dim")


def _has_configuration(options: Options, around: Environment) -> Path | str | None:
    user = user_config_path(around.env)
    return options.config or chosen_config(around.env) or find_project(around.cwd) or (user if user.is_file() else None)
