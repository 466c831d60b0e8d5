"""What ``up``, ``serve`` and ``stdio`` share: their flags, and a project opened and served as these say."""

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from toolcrib.catalog.merge import refuse_clashes
from toolcrib.cli.asking import attach_terminal
from toolcrib.cli.console import Console
from toolcrib.cli.invoke import Options
from toolcrib.cli.opening import asking, load_here, wait_with_status
from toolcrib.cli.running import Stop, settle_memory
from toolcrib.core.events import Emit
from toolcrib.crib.bulletin import Bulletin
from toolcrib.crib.crib import Crib
from toolcrib.crib.loading import Loaded
from toolcrib.project.project import Project
from toolcrib.project.running import hide_process, open_project
from toolcrib.server.app import EmitBoth, ServerSettings
from toolcrib.server.serve import Serving, authenticate, serve_project
from toolcrib.server.views.servers import native_view


def flags_of(options: Options) -> dict[str, object]:
    """What the command line says over the files, by its names there; a relative path is seen from here."""
    given = {f"serve.{name}": getattr(options, name, None) for name in ("host", "port", "edit_commands", "replica")}
    given |= {
        "expose.mode": options.expose,
        "access.level": options.level,
        "access.tools": options.only,
        "workspace.enabled": None if options.workspace is None else True,
        "workspace.root": None if options.workspace is None else str(Path(options.workspace).expanduser().absolute()),
    }
    return {name: value for name, value in given.items() if value is not None}


def settings_of(options: Options, stop: Stop) -> ServerSettings:
    """What the command line says of serving that no file does."""
    return ServerSettings(
        token=options.token,
        insecure=options.insecure,
        is_agent=options.agent,
        profile=options.profile,
        allow_hosts=tuple(options.allow_host),
        allow_origins=tuple(options.allow_origin),
        is_background=getattr(options, "background", None) is not None,
        log=getattr(options, "log_file", ""),
        on_end=stop.ask,
    )


@asynccontextmanager
async def open_serving(options: Options, console: Console, emit: Emit, stop: Stop) -> AsyncIterator[Serving]:
    """Serve what is configured here; ends in good order with the block."""
    loaded, settings = load_here(options, flags_of(options)), settings_of(options, stop)
    auth = authenticate(loaded.config, settings, os.environ, emit)
    bulletin = Bulletin(time.time)
    emit = EmitBoth(emit, bulletin)
    async with open_watched(options, console, loaded, emit, live=True) as project:
        attach_terminal(console, project.crib.desk.attach)
        async with serve_project(project, auth, settings, emit, bulletin) as serving:
            yield serving


async def wind_up(serving: Serving, stop: Stop) -> None:
    """Prepare for the end: answer for a while whoever has not heard yet, and say whether somebody follows."""
    serving.is_followed = stop.is_restart
    stop.port = serving.server.port if serving.loaded.config.port == 0 else 0
    await serving.drain(stop.sign)


@asynccontextmanager
async def open_watched(
    options: Options, console: Console, loaded: Loaded, emit: Emit, *, live: bool = False
) -> AsyncIterator[Project]:
    """A project that follows the edits of its configuration files, in a process that does little else."""
    prefix = not options.no_prefix
    hide_process(os.environ)
    flags = flags_of(options)
    async with open_project(loaded, emit, chosen=options.config, flags=flags, prefix=prefix, live=live) as project:
        if not prefix:
            await check_names(project.crib, console)
        settle_memory()
        yield project


async def check_names(crib: Crib, console: Console) -> None:
    """Without prefixes every name must be unique; that is only known once all servers were asked."""
    if len(crib.shelves) + bool(native_view(crib)) > 1:
        await wait_with_status(console, crib.current(), lambda: asking(crib))
    refuse_clashes(crib.catalog)
