"""MCP over HTTP as ``up`` and ``serve`` run it: who may connect, what is at which path, and an orderly end."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from toolcrib.catalog.merge import refuse_clashes
from toolcrib.cli.asking import attach_terminal
from toolcrib.cli.builtin import BUILTIN
from toolcrib.cli.callers import OWNER
from toolcrib.cli.console import Console
from toolcrib.cli.doorways import (
    Doorways,
    Draining,
    drain_s,
    guard_policy,
    mcp_url,
    open_roaming,
    page_address,
    probe_routes,
)
from toolcrib.cli.entrance import Entrance, Here, access_flags, add_access, admit_proven, make_entrance
from toolcrib.cli.invoke import Options, Parser, add_profile
from toolcrib.cli.opening import asking, assemble_here, load_here, wait_with_status, workspace_flags
from toolcrib.cli.running import settle_memory
from toolcrib.cli.tokens import FoundToken
from toolcrib.config.model import Config
from toolcrib.config.sections import EXPOSE_MODES, ExposeConfig, SecurityConfig
from toolcrib.core import events
from toolcrib.core.audit import AuditEntry
from toolcrib.core.clocks import Moments, elapsed
from toolcrib.core.errors import ConfigError, StoreUnavailable, ToolcribError
from toolcrib.core.events import Emit, Event
from toolcrib.core.tasks import TaskScope
from toolcrib.crib.bulletin import Bulletin, follow
from toolcrib.crib.crib import Crib
from toolcrib.crib.loading import Loaded
from toolcrib.project.project import Project
from toolcrib.project.projects import Projects, remember
from toolcrib.project.sessions import AgentSessions
from toolcrib.server.identity.run_proof import PATH as PROOF_PATH
from toolcrib.server.identity.run_proof import RunProof
from toolcrib.server.mcp.addresses import PATH as MCP_PATH
from toolcrib.server.mcp.addresses import Addresses, ServerDoors
from toolcrib.server.mcp.service import ServerIdentity
from toolcrib.server.views.servers import native_entry
from toolcrib.server.visit import ServedProject
from toolcrib.sources.native.functions import native_tool
from toolcrib.stores.paths import state_directory
from toolcrib.stores.projects import ProjectFile
from toolcrib.stores.run_files import OwnRunFile, RunFiles
from toolcrib.transports.http.server import Handler, HttpServer
from toolcrib.transports.process.environment import forbid_inspection
from toolcrib.version import VERSION

POLL_S = 2.0
SETTLE_S = 0.2

Stamp = tuple[tuple[str, int, int, int], ...]


class FileWatch:
    """Looks at the files a project is read from."""

    def __init__(self, project: Project, emit: Emit) -> None:
        self._project, self._emit = project, emit
        self._seen: Stamp | None = None
        self._kept: object = None

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await asyncio.sleep(POLL_S)
            await self._take_over_pins()
            if self._stamp() != self._seen:
                await asyncio.sleep(SETTLE_S)  # an editor may be in the middle of replacing the file
                await self._reload()

    async def _take_over_pins(self) -> None:
        """What ``toolcrib approve`` accepted in another process stands in the lock."""
        ledger = self._project.crib.ledger
        with suppress(StoreUnavailable):  # looked at again when it is back
            if ledger is not None and (stamp := await ledger.stamp()) != self._kept:
                await self._project.crib.servers.fresh.reload_pins()
                self._kept = stamp

    def _reject(self, reason: str) -> None:
        self._emit(Event("config.rejected", "error", {"error": reason, "kept": "the configuration before"}))

    async def _reload(self) -> None:
        """Apply what the files say now; the first time around, what changed since they were loaded."""
        first, self._seen = self._seen is None, self._stamp()
        before = self._project.config
        try:
            changed = await self._project.reload()
        except ToolcribError as error:
            self._reject(str(error))
            return
        except Exception as error:  # whatever an edit does to the parser, the next one is looked at again
            self._reject(f"{type(error).__name__}: {error}"[:500])
            return
        if changed or not first:
            self._emit(Event("config.applied", fields={"changed": ", ".join(changed) or "no server"}))
        if not first and _without_servers(self._project.config) != _without_servers(before):
            self._emit(Event("config.restart.needed", "warning", {"reason": "settings beside the servers changed"}))
        if changed:
            self._project.crib.servers.wake()

    def _stamp(self) -> Stamp:
        return tuple(_stat(path) for path in self._project.paths())


def _stat(path: Path) -> tuple[str, int, int, int]:
    try:
        found = path.stat()
    except OSError:
        return str(path), 0, 0, 0
    return str(path), found.st_mtime_ns, found.st_size, found.st_ino


def _without_servers(config: Config) -> Config:
    """What only counts from the next start on."""
    return replace(config, servers={}, security=SecurityConfig(), expose=ExposeConfig(), profiles={})


CLOSE_S = 2.0


@dataclass(frozen=True, slots=True)
class Serving:
    """What serves right now."""

    project: Project
    url: str
    token: FoundToken | None
    sign_in: str
    """An address that signs the owner in to the page, once."""
    draining: Draining

    @property
    def crib(self) -> Crib:
        """What is served."""
        return self.project.crib

    @property
    def loaded(self) -> Loaded:
        """What it is made from."""
        return self.project.loaded

    async def drain(self, sign: int) -> None:
        """Let balancers and calls under way take note that this will end."""
        await self.draining.run(drain_s(self.loaded.config, sign, has_fleet=self.crib.fleet is not None))


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


@asynccontextmanager
async def open_serving(options: Options, console: Console, emit: Emit) -> AsyncIterator[Serving]:
    """Serve what is configured here; ends in good order with the block."""
    loaded = load_here(options, flags_of(options))
    proof = RunProof(OWNER, time.monotonic)
    here = Here(os.environ, Moments(), elapsed, emit)
    entrance = admit_proven(make_entrance(loaded.config, options, here), proof)
    bulletin = Bulletin(time.time)
    emit = _Both(emit, bulletin)
    async with kept_fresh(entrance, emit), open_watched(options, console, loaded, emit, live=True) as project:
        crib, config = project.crib, loaded.config
        unfollow = follow(crib, bulletin)
        attach_terminal(console, crib.desk.attach)
        identity = ServerIdentity(version=VERSION)
        draining = Draining(emit)
        roaming = await open_roaming(project)
        addresses = Addresses(project.windows, identity, entrance.caller, entrance.may_stay, roaming)
        by_server = ServerDoors(crib, identity, entrance.caller, entrance.may_stay, roaming)
        door = addresses.open(project.windows.need(options.profile))
        probes = probe_routes(crib, entrance.caller, lambda: draining.is_on)
        routes: dict[str, Handler] = {MCP_PATH: door.handle, PROOF_PATH: proof.handle, **probes}
        sessions = AgentSessions(
            Projects(project, projects_here(project), [native_tool(entry) for entry in BUILTIN]),
            emit,
            lambda: [*addresses.stays(), *by_server.stays()],
            replica=crib.fleet.replica if crib.fleet is not None else "",
        )
        people = Doorways(addresses, by_server)
        server = HttpServer(routes, fallback=people.handle, policy=guard_policy(config, entrance.identify, options))
        draining.server = server
        run: OwnRunFile | None = None
        try:
            await server.start(config.host, config.port)
            run = announce(project, server.local_url, proof, emit)
            entrance.sign_ins.open(page_address(config, server, project.around.env))
            sessions.start()
            premises = _premises(project, config, entrance, mcp_url(server))
            people.open(replace(premises, bulletin=bulletin, sessions=sessions), entrance, emit)
            crib.audit.note(AuditEntry("start", details={"version": VERSION, "url": mcp_url(server)}))
            yield Serving(project, mcp_url(server), entrance.owner, entrance.sign_ins.make_link(), draining)
        finally:
            if run is not None:
                run.remove()
            unfollow()
            bulletin.close()
            await people.close()
            await _end(server, addresses, by_server)
            if roaming is not None:
                await roaming.close()
            await sessions.close()


def announce(project: Project, url: str, proof: RunProof, emit: Emit) -> OwnRunFile | None:
    """Write the run file; where that cannot be done, other commands need ``--url``, and all else works."""
    try:
        run = RunFiles(project.around.env).write(url, project.file.resolve(), VERSION)
    except ConfigError as error:
        emit(Event("run.file.failed", "warning", {"error": str(error)}))
        return None
    proof.open(run.entry)
    return run


class _Both:
    """Tells the log and the bulletin; the log alone says which levels are worth putting into words."""

    def __init__(self, log: Emit, bulletin: Bulletin) -> None:
        self._log, self._bulletin = log, bulletin

    def __call__(self, event: Event) -> None:
        """Tell both."""
        self._log(event)
        self._bulletin.hear(event)

    def hears(self, level: str) -> bool:
        """What is beneath the log is no news either."""
        return events.hears(self._log, level)


def _premises(project: Project, config: Config, entrance: Entrance, url: str) -> ServedProject:
    return ServedProject(
        project=project,
        sign_ins=entrance.sign_ins,
        url=url,
        started_s=elapsed(),
        edit_commands=config.edit_commands,
        needs_token=entrance.identify is not None,
        tokens=entrance.tokens,
    )


@asynccontextmanager
async def kept_fresh(entrance: Entrance, emit: Emit) -> AsyncIterator[None]:
    """The keys of the issuer and the tokens of the fleet, followed while the block runs."""
    tasks = TaskScope(lambda name, error: emit(Event(f"{name}.failed", "error", {"error": repr(error)})))
    if entrance.keys is not None:
        tasks.spawn(entrance.keys.run(), "auth.keys")
    if entrance.tokens is not None:
        tasks.spawn(entrance.tokens.follow(), "auth.tokens")
    try:
        yield
    finally:
        await tasks.close()


@asynccontextmanager
async def open_watched(
    options: Options, console: Console, loaded: Loaded, emit: Emit, *, live: bool = False
) -> AsyncIterator[Project]:
    """A project that follows the edits of its configuration files."""
    prefix = not getattr(options, "no_prefix", False)
    tasks = TaskScope(lambda name, error: emit(Event(f"{name}.failed", "error", {"error": repr(error)})))
    if not os.environ.get("TOOLCRIB_DEBUG"):  # a debugger must be able to look
        forbid_inspection()
    crib = await assemble_here(loaded, emit, prefix=prefix, live=live)
    try:
        if not prefix:
            await check_names(crib, console)
        settle_memory()
        await crib.servers.find(0)
        project = Project(crib, loaded, options.config, flags=flags_of(options), prefix=prefix)
        tasks.spawn(FileWatch(project, emit).run(), "watch")
        tasks.spawn(remember(project, projects_here(project), emit), "projects.remember")
        yield project
    finally:
        await tasks.close()
        await crib.close()


def projects_here(project: Project) -> ProjectFile:
    """Where the projects of this user are remembered."""
    return ProjectFile(state_directory(project.around.env))


def projects_beside(project: Project) -> Projects:
    """The served project and those known from before."""
    return Projects(project, projects_here(project), [native_tool(entry) for entry in BUILTIN])


async def check_names(crib: Crib, console: Console) -> None:
    """Without prefixes every name must be unique; that is only known once all servers were asked."""
    if len(crib.shelves) + bool(native_entry(crib)) > 1:
        await wait_with_status(console, crib.current(), lambda: asking(crib))
    refuse_clashes(crib.catalog)


async def _end(server: HttpServer, *doors: Addresses | ServerDoors) -> None:
    """Take no more clients, end the standing streams, give calls a moment, then end whoever is left."""
    for door in doors:
        door.end_streams()
    await server.close(CLOSE_S)
    for door in doors:
        await door.close()


def client_entry(serving: Serving) -> Mapping[str, object]:
    """What a client's ``mcpServers`` file needs to reach this."""
    entry: dict[str, object] = {"type": "http", "url": serving.url}
    if serving.token is not None:
        entry["headers"] = {"Authorization": "Bearer ${TOOLCRIB_TOKEN}"}
    return {"mcpServers": {"toolcrib": entry}}
