"""The Crib a command works with: what is configured here, or the built-in tools when nothing is."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar

from msgspec import convert

from toolcrib.catalog.records import RunningElsewhere
from toolcrib.catalog.standing import is_unasked
from toolcrib.cli.console import Console
from toolcrib.cli.failures import unknown_server
from toolcrib.cli.invoke import Options
from toolcrib.cli.joining import wanted_here
from toolcrib.cli.logs import Log, one_shot_log
from toolcrib.config.lock import LockStore, Record
from toolcrib.core.access import LOCAL_USER
from toolcrib.core.audit import AuditEntry
from toolcrib.core.errors import InvalidName, ToolcribError
from toolcrib.core.kinds import ServerState
from toolcrib.core.names import name_of_uri, split_name
from toolcrib.crib.backend import find_backend, open_lock
from toolcrib.crib.crib import Crib
from toolcrib.crib.layers import write_down
from toolcrib.crib.loading import Loaded, load
from toolcrib.crib.window import Profiles, ProfileView
from toolcrib.project.running import assemble_configured
from toolcrib.server.remote import ByRunFile, Remote
from toolcrib.server.rest.about import ROOT
from toolcrib.server.views.servers import ServerList, ServerView
from toolcrib.stores.access_tokens import TokenBook
from toolcrib.stores.paths import Environment
from toolcrib.stores.run_files import RunFile, RunFiles

ANSWER_S = 30.0
"""How long a running toolcrib may take to say how its servers stand."""
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


def note_decision(options: Options, console: Console, event: str, decision: str, **details: object) -> None:
    """Write down what the person decided; if that cannot be, they are told, for it is done already."""
    tool = str(details.pop("tool", ""))
    entry = AuditEntry(event, tool, caller=LOCAL_USER.id, caller_kind="local", decision=decision, details=details)
    try:
        asyncio.run(write_down(load_here(options).config, Environment(), entry))
    except ToolcribError as error:
        console.say(f"This was not written to the audit log: {error}", "yellow")


@asynccontextmanager
async def opened(loaded: Loaded, console: Console, log: Log, *, one_shot: bool = True) -> AsyncIterator[Crib]:
    """The Crib of a configuration; ends with the block."""
    crib = await assemble_configured(loaded, log, one_shot=one_shot)
    try:
        yield crib
    finally:
        console.end_status()
        await crib.close()


@asynccontextmanager
async def following(crib: Crib, options: Options, console: Console) -> AsyncIterator[None]:
    """Have the toolcrib that runs for this very configuration, if one does, ask the servers and say how they stand:
    then every command and the page say the same of them, and each runs once."""
    run = running_for(options)
    if run is None:
        yield
        return
    remote = Remote(run.url, ByRunFile(run))

    async def ask(name: str) -> RunningElsewhere:
        said = await remote.send("POST", f"{ROOT}/servers/{name}/refresh")
        return _elsewhere(convert(said["server"], type=ServerView))

    try:
        async with asyncio.timeout(ANSWER_S):
            found = convert(await remote.send("GET", f"{ROOT}/servers"), type=ServerList)
        enabled = (view for view in found.servers if view.state is not ServerState.DISABLED)
        await crib.servers.fresh.follow({view.name: _elsewhere(view) for view in enabled}, ask)
    except (ToolcribError, TimeoutError) as error:
        told = str(error) or f"{run.url} has not answered after {ANSWER_S:g} s."
        console.say(f"{told} Servers are asked from here.", "dim")
    try:
        yield
    finally:
        await remote.close()


def _elsewhere(view: ServerView) -> RunningElsewhere:
    return RunningElsewhere(view, view.last_discovered or "")


def running_for(options: Options) -> RunFile | None:
    """Who serves the very configuration that counts here, if anybody does."""
    env = Environment().env
    wanted = wanted_here(options.config, env, Path.cwd(), {})
    return next((run for run in RunFiles(env).read() if (run.config, run.user, run.is_chosen) == wanted[:3]), None)


@asynccontextmanager
async def open_window(options: Options, console: Console) -> AsyncIterator[ProfileView]:
    """What a command that runs once looks at: all that is configured, or the profile it names."""
    loaded = load_here(options)
    async with opened(loaded, console, one_shot_log(options, console)) as crib, following(crib, options, console):
        await wait_with_status(console, crib.servers.find(), "asking the platform")
        yield Profiles(crib, loaded.config).need(getattr(options, "profile", ""))


@asynccontextmanager
async def open_here(options: Options, console: Console) -> AsyncIterator[Crib]:
    """The Crib of a command that runs once."""
    async with open_window(options, console) as window:
        yield window.crib


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


async def make_known(crib: Crib, console: Console, name: str) -> None:
    """Ask whoever may offer what has this name, if nobody known does: its server, or all when the name names none."""
    if crib.catalog.named(name) is not None:
        return
    server = server_of(name_of_uri(name) if "://" in name else name.rpartition(" ")[2])
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
