"""What is known of a project from its files alone: its configuration, and the catalogue of its lock.

Reading it starts no server and imports nobody's code. While the files are the same, it costs a few looks at them:
what was put together once is kept, already encoded.
"""

import asyncio
import hashlib
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import msgspec

from toolcrib.catalog.catalog import Catalog, Route
from toolcrib.catalog.entries import KnownServer, ToolEntry
from toolcrib.catalog.recorded import Named, Recorded, offered, recorded_catalog
from toolcrib.config.explain import Explained, explain
from toolcrib.config.lock import LockStore, Record
from toolcrib.config.model import Config, ServerConfig, is_bare
from toolcrib.config.secrets import shown_args, shown_url
from toolcrib.core.access import Caller, decide, matches, may_operate
from toolcrib.core.errors import StoreUnavailable, ToolcribError
from toolcrib.core.kinds import DiscoveryStatus
from toolcrib.core.offers import SecurityLevel, Tool
from toolcrib.core.view import View
from toolcrib.crib.backend import open_lock
from toolcrib.crib.knowledge import kb_tools
from toolcrib.crib.loading import Loaded, config_files, load
from toolcrib.project.project import Project, project_id
from toolcrib.sources.native.functions import import_tools, native_tool
from toolcrib.stores.paths import Environment
from toolcrib.stores.projects import name_of

Stamp = tuple[object, ...]

_encode = msgspec.json.Encoder(enc_hook=str).encode


class ConfiguredProject(View):
    """Whose configuration it is."""

    id: str
    name: str
    is_served: bool
    directory: str | None
    files: list[str]
    """Where the configuration is written; only for operators."""


class ConfiguredServer(View):
    """One server, and what its last discovery came to."""

    name: str
    description: str
    enabled: bool
    kind: Literal["command", "url"]
    tools: int
    discovery_status: DiscoveryStatus
    last_discovered: str | None
    runs: str | None
    """What is started or reached, without secrets; only for operators, as all that follows."""
    error: str | None
    era: str | None
    origin: str | None


class AvailableTool(ToolEntry, omit_defaults=True):
    """One tool, and how fresh that knowledge is."""

    is_live: bool | None = None
    """In a session, whether its server answered in this run; if not, it is shown as the record knows it."""


class Configuration(View):
    """What a project is configured to offer, or offers while it runs."""

    project: ConfiguredProject
    settings: list[Explained]
    """Only for operators."""
    problems: list[str]
    servers: list[ConfiguredServer]
    available_tools: list[AvailableTool]


class ConfigurationView(View):
    """The configuration of a project, from its files alone, or of a session."""

    configuration: Configuration


@dataclass(frozen=True, slots=True)
class ProjectPlace:
    """Where a project is, and how its configuration is found there."""

    directory: Path
    around: Environment
    chosen: str | None = None
    """The file that was named, if it was not found."""
    flags: Mapping[str, object] = field(default_factory=dict)
    prefix: bool = True
    last_used: str = ""
    is_served: bool = False

    @property
    def id(self) -> str:
        """Its name in addresses."""
        return project_id(self.directory)

    @property
    def name(self) -> str:
        """What people call it."""
        return name_of(self.directory)

    def files(self) -> tuple[Path, ...]:
        """The files it is read from, whether they exist or not; the lock last."""
        files = config_files(self.chosen, self.around)
        return (*files.paths, files.lock)


def elsewhere(directory: Path, env: Mapping[str, str]) -> Environment:
    """As if toolcrib were run in that directory, without the file that was named for this one."""
    cwd = directory.parent if directory.name in (".cursor", ".vscode") else directory
    kept = {name: value for name, value in env.items() if name != "TOOLCRIB_CONFIG"}
    return Environment(cwd, kept, elsewhere=True)


@dataclass(frozen=True)
class Snapshot:
    """A project as its files told of it at one moment."""

    place: ProjectPlace
    loaded: Loaded
    recorded: Recorded
    problem: str = ""
    """Why the files could not be used, when this is from before."""

    @cached_property
    def encoded(self) -> bytes:
        """The whole configuration, for who may see everything."""
        return _encode(self.document(None))

    @cached_property
    def etag(self) -> bytes:
        """What changes whenever the configuration does."""
        return b'"%b"' % hashlib.sha256(self.encoded).hexdigest()[:32].encode()

    def document(self, caller: Caller | None, tools: list[AvailableTool] | None = None) -> ConfigurationView:
        """What a caller may see of it (``None``: everything), with the tools of a session if they are given."""
        config = self.loaded.config
        sees_all = caller is None or may_operate(caller, SecurityLevel.ADMIN)
        return ConfigurationView(
            Configuration(
                project=self.about(full=sees_all),
                settings=list(explain(config)) if sees_all else [],
                problems=[*config.problems, *([self.problem] if self.problem else [])] if sees_all else [],
                servers=self.servers(caller, full=sees_all),
                available_tools=self.entries(caller) if tools is None else tools,
            )
        )

    def about(self, *, full: bool) -> ConfiguredProject:
        """Which project it is; where it is concerns only who looks after it."""
        place = self.place
        return ConfiguredProject(
            id=place.id,
            name=place.name,
            is_served=place.is_served,
            directory=str(place.directory) if full else None,
            files=[str(path) for path in self.loaded.files] if full else [],
        )

    def entries(self, caller: Caller | None) -> list[AvailableTool]:
        """The tools: every one that is on record, or those a caller may use."""
        entries = map(self.recorded.entry, shown_to(caller, self.recorded.catalog))
        return [AvailableTool(**msgspec.structs.asdict(entry)) for entry in entries]

    def servers(self, caller: Caller | None, *, full: bool) -> list[ConfiguredServer]:
        """The servers, by name; what they run concerns only who looks after them."""
        counts = Counter(route.server for route in shown_to(caller, self.recorded.catalog))
        return [
            _server(server, self.recorded.servers.get(name), counts[name], full=full)
            for name, server in self.loaded.config.servers.items()
            if caller is None or matches(name, caller.grants.servers)
        ]


def shown_to(caller: Caller | None, catalog: Catalog) -> list[Route]:
    """The tools a caller may use; for ``None`` and who may see everything, those nobody may use as well."""
    routes = offered(catalog.routes.values())
    if caller is None or may_operate(caller, SecurityLevel.SYSTEM):
        return routes
    return [route for route in routes if decide(caller.grants, route.reach).is_listed]


def _server(server: ServerConfig, known: KnownServer | None, tools: int, *, full: bool) -> ConfiguredServer:
    record = known.record if known is not None else Record(server.name)
    origin = f"{server.origin}:{server.line}" if server.line else server.origin
    return ConfiguredServer(
        name=server.name,
        description=server.description,
        enabled=server.enabled,
        kind="url" if server.url is not None else "command",
        tools=tools,
        discovery_status=known.status if known is not None else record.status,
        last_discovered=record.last_discovery or None,
        runs=_runs(server) if full else None,
        error=record.error or None if full else None,
        era=record.era or None if full else None,
        origin=origin if full else None,
    )


def _runs(server: ServerConfig) -> str:
    if server.url is not None:
        return shown_url(server.url)
    return " ".join((server.command or "", *shown_args(server.args)))


class ProjectState:
    """Reads a project's files again only when one of them has changed."""

    def __init__(self, place: ProjectPlace, builtin: Sequence[Tool] = (), running: Project | None = None) -> None:
        """``builtin`` is offered where nothing is configured; ``running`` is what counts while the files are broken."""
        self.place, self._builtin, self._running = place, tuple(builtin), running
        self._turn = asyncio.Lock()
        self._seen: Stamp | None = None
        self._records_seen: object = None
        self._snapshot: Snapshot | None = None

    async def read(self) -> Snapshot:
        """The project as it is now; a configuration or a lock that cannot be read is an error."""
        if self._snapshot is not None and self._stamp() == self._seen and not _is_shared(self._snapshot.loaded):
            return self._snapshot
        async with self._turn:
            stamp = self._stamp()
            if self._snapshot is None or stamp != self._seen:
                loaded, problem = await asyncio.to_thread(self._load)
                self._snapshot = await self._put_together(loaded, problem)
                self._seen = stamp
            elif _is_shared(self._snapshot.loaded):
                self._snapshot = await self._follow(self._snapshot)
            return self._snapshot

    async def _follow(self, before: Snapshot) -> Snapshot:
        """What other replicas found since then; while they cannot be asked, what there was before."""
        try:
            async with self._open_ledger(before.loaded) as ledger:
                is_same = ledger is None or await ledger.stamp() == self._records_seen
            return before if is_same else await self._put_together(before.loaded, "")
        except StoreUnavailable as error:
            return replace(before, problem=str(error))

    def _stamp(self) -> Stamp:
        native = self._snapshot.loaded.config.native if self._snapshot is not None else ()
        modules = tuple(path.partition(":")[0] in sys.modules for path in native)
        return (*map(stamp_of, self.place.files()), modules)

    async def _put_together(self, loaded: Loaded, problem: str) -> Snapshot:
        async with self._open_ledger(loaded) as ledger:
            self._records_seen = None if ledger is None else await ledger.stamp()
            records = {} if ledger is None else (await ledger.lock()).records
        return await asyncio.to_thread(self._catalogue, loaded, records, problem)

    def _catalogue(self, loaded: Loaded, records: Mapping[str, Record], problem: str) -> Snapshot:
        native = named_natives(loaded.config, self._builtin)
        recorded = recorded_catalog(loaded.config, records, native, prefix=self.place.prefix)
        snapshot = Snapshot(self.place, loaded, recorded, problem)
        _ = snapshot.etag  # encoded here, beside the event loop
        return snapshot

    def _load(self) -> tuple[Loaded, str]:
        try:
            return load(self.place.chosen, self.place.around, self.place.flags), ""
        except ToolcribError as error:
            if self._running is None:
                raise
            return self._running.loaded, str(error)

    def _open_ledger(self, loaded: Loaded) -> AbstractAsyncContextManager[LockStore | None]:
        if self._running is not None and _is_shared(loaded):
            return nullcontext(self._running.crib.ledger)
        return open_lock(loaded.config, loaded.lock, self.place.around)


def _is_shared(loaded: Loaded) -> bool:
    """Whether the records are where no look at a file tells that they changed."""
    return bool(loaded.config.store.url)


def named_natives(config: Config, builtin: Sequence[Tool] = ()) -> Named:
    """The native tools of a configuration; a module nobody has imported yet is not imported for this.

    ``module:function`` tells its tool's name at least; what is in a ``module`` is not known before it is imported.
    """
    own = [*kb_tools(config), *_workspace_tools(config)]
    if is_bare(config):
        return Named((*builtin, *own))
    tools: list[Tool] = []
    unseen: set[str] = set()
    for path in config.native:
        module, _, function = path.partition(":")
        if module in sys.modules:
            tools += [native_tool(entry).tool for entry in import_tools(path)]
        elif function:
            tools.append(Tool(function))
            unseen.add(function)
    taken = {tool.name for tool in tools}
    return Named((*tools, *(tool for tool in own if tool.name not in taken)), frozenset(unseen))


def _workspace_tools(config: Config) -> list[Tool]:
    if not config.workspace.enabled:
        return []
    from toolcrib.crib.workspace import workspace_tools

    return workspace_tools(config.workspace)


def stamp_of(path: Path) -> tuple[str, int, int, int]:
    """What changes when a file does."""
    try:
        found = os.stat(path)  # noqa: PTH116 - a plain stat is the whole cost of a cached read
    except OSError:
        return str(path), 0, 0, 0
    return str(path), found.st_mtime_ns, found.st_size, found.st_ino
