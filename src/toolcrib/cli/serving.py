"""What ``up``, ``serve`` and ``stdio`` share: their flags, and a project opened and served as these say."""

import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from toolcrib.catalog.merge import refuse_clashes
from toolcrib.cli.asking import attach_terminal
from toolcrib.cli.console import Console
from toolcrib.cli.invoke import Options, Parser, add_profile
from toolcrib.cli.opening import asking, load_here, wait_with_status, workspace_flags
from toolcrib.cli.running import settle_memory
from toolcrib.config.sections import EXPOSE_MODES
from toolcrib.core.events import Emit
from toolcrib.core.tool import SecurityLevel
from toolcrib.crib.bulletin import Bulletin
from toolcrib.crib.crib import Crib
from toolcrib.crib.loading import Loaded
from toolcrib.project.project import Project
from toolcrib.project.running import open_project
from toolcrib.server.app import EmitBoth, ServerSettings
from toolcrib.server.serve import Serving, authenticate, serve_project
from toolcrib.server.views.servers import native_view
from toolcrib.transports.process.environment import forbid_inspection


def add_serving(parser: Parser) -> None:
    """The options of a command that serves HTTP."""
    parser.add_argument("--host", help="the address to listen on [127.0.0.1; env: TOOLCRIB_HOST]")
    parser.add_argument("--port", type=int, help="the port to listen on; 0 takes a free one [7337; env: TOOLCRIB_PORT]")
    parser.add_argument(
        "--token", help="the bearer token clients must send; others can see it here, prefer TOOLCRIB_TOKEN"
    )
    parser.add_argument(
        "--insecure",
        action="store_true",
        help='with auth = "none" in [serve]: serve an address that others reach to everybody',
    )
    parser.add_argument(
        "--edit-commands",
        action="store_true",
        default=None,
        help="let servers that run a command be added and changed on the page and over REST",
    )
    add_access(parser)
    add_window(parser)
    parser.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME", help="answer for this Host too (repeatable)"
    )
    parser.add_argument(
        "--allow-origin", action="append", default=[], metavar="ORIGIN", help="let pages of this origin in (repeatable)"
    )


def add_replica(parser: Parser) -> None:
    """The option for one of several that serve the same."""
    parser.add_argument(
        "--replica", metavar="NAME", help="what this one is called among replicas [by its machine and process]"
    )


def add_no_prefix(parser: Parser) -> None:
    """The option for names as the servers gave them."""
    parser.add_argument(
        "--no-prefix",
        action="store_true",
        help="name tools as their servers do; two servers with one name in common are an error",
    )


def add_window(parser: Parser) -> None:
    """The options that say what MCP clients are shown."""
    parser.add_argument(
        "--expose",
        choices=EXPOSE_MODES,
        help="show clients all tools, three that search them, or whichever fits [all; see [expose]]",
    )
    add_profile(parser, "show clients this profile")


def flags_of(options: Options) -> dict[str, object]:
    """What the command line says over the files, by its names there."""
    given = {f"serve.{name}": getattr(options, name, None) for name in ("host", "port", "edit_commands", "replica")}
    given["expose.mode"] = getattr(options, "expose", None)
    return (
        {name: value for name, value in given.items() if value is not None}
        | access_flags(options)
        | workspace_flags(options)
    )


def add_access(parser: Parser) -> None:
    """The options that limit whoever comes without a token."""
    limits = parser.add_argument_group("callers without a token")
    limits.add_argument(
        "--level", choices=list(SecurityLevel), help="the furthest-reaching tools they may use [system]"
    )
    limits.add_argument("--only", action="append", metavar="PATTERN", help="tools they may use (repeatable) [*]")
    limits.add_argument("--agent", action="store_true", help="they are agents, which cannot approve their own calls")


def access_flags(options: Options) -> dict[str, object]:
    """The limits given on the command line, by their names in the file."""
    given = {"access.level": options.level, "access.tools": options.only}
    return {name: value for name, value in given.items() if value is not None}


def settings_of(options: Options) -> ServerSettings:
    """What the command line says of serving that no file does."""
    return ServerSettings(
        token=options.token,
        insecure=options.insecure,
        is_agent=options.agent,
        profile=options.profile,
        allow_hosts=tuple(options.allow_host),
        allow_origins=tuple(options.allow_origin),
    )


@asynccontextmanager
async def open_serving(options: Options, console: Console, emit: Emit) -> AsyncIterator[Serving]:
    """Serve what is configured here; ends in good order with the block."""
    loaded, settings = load_here(options, flags_of(options)), settings_of(options)
    auth = authenticate(loaded.config, settings, os.environ, emit)
    bulletin = Bulletin(time.time)
    emit = EmitBoth(emit, bulletin)
    async with open_watched(options, console, loaded, emit, live=True) as project:
        attach_terminal(console, project.crib.desk.attach)
        async with serve_project(project, auth, settings, emit, bulletin) as serving:
            yield serving


@asynccontextmanager
async def open_watched(
    options: Options, console: Console, loaded: Loaded, emit: Emit, *, live: bool = False
) -> AsyncIterator[Project]:
    """A project that follows the edits of its configuration files, in a process that does little else."""
    prefix = not getattr(options, "no_prefix", False)
    if not os.environ.get("TOOLCRIB_DEBUG"):  # a debugger must be able to look
        forbid_inspection()
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


def client_entry(serving: Serving) -> Mapping[str, object]:
    """What a client's ``mcpServers`` file needs to reach this."""
    entry: dict[str, object] = {"type": "http", "url": serving.url}
    if serving.token is not None:
        entry["headers"] = {"Authorization": "Bearer ${TOOLCRIB_TOKEN}"}
    return {"mcpServers": {"toolcrib": entry}}
