"""From configuration to a running Crib; the only module that knows every room."""

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from toolcrib.calls.approvals import MemoryAnswers
from toolcrib.calls.inbox import Inbox
from toolcrib.calls.live import Live
from toolcrib.calls.marks import Marks
from toolcrib.calls.pipeline import Layer
from toolcrib.calls.results.reader import DESCRIPTION, INPUT_SCHEMA, ResultReader
from toolcrib.catalog.supply import Supply
from toolcrib.config.importers import parse_mcp_servers
from toolcrib.config.merge import merge
from toolcrib.config.model import Config, ResultsConfig, without_result_limits
from toolcrib.config.parse import flags_layer
from toolcrib.config.secrets import secrets_of
from toolcrib.core.errors import ConfigError
from toolcrib.core.events import Emit, StandardLog, drop
from toolcrib.core.kinds import AUTO
from toolcrib.core.names import RESULT_READ
from toolcrib.core.requests import SubAgents
from toolcrib.core.source import LocalSource, Source
from toolcrib.crib.accounts import ServerSignIns
from toolcrib.crib.attached import AttachedSource, attach_sources
from toolcrib.crib.backend import find_backend, replica_name
from toolcrib.crib.crib import Crib
from toolcrib.crib.knowledge import look_of, make_knowledge
from toolcrib.crib.layers import find_tracer, layer_stack, make_approvals, make_seal, noted, open_audit
from toolcrib.crib.loading import Loaded, load, user_rules
from toolcrib.crib.replicas import join_fleet
from toolcrib.crib.servers import Parts, room_of
from toolcrib.crib.sources import LocalSources, SourceMaker, model_key, sub_agents_of
from toolcrib.crib.tasks import TaskSettings
from toolcrib.crib.window import Profiles, ProfileView
from toolcrib.isolate.levels import IsolationWanted
from toolcrib.sources.native.functions import NativeTool, define, native_tool
from toolcrib.sources.native.modules import NativeModules
from toolcrib.sources.native.source import NativeSource
from toolcrib.stores.local import Backend
from toolcrib.stores.lockfile import MemoryRecords
from toolcrib.stores.paths import Environment, for_network
from toolcrib.stores.results import Results

if TYPE_CHECKING:
    from toolcrib.credentials.accounts import Accounts
    from toolcrib.crib.workspace import WorkspaceSource


def check_reading_name(entries: Sequence[NativeTool]) -> None:
    """Refuse a tool that is named like toolcrib's own way to read large results."""
    if any(entry.tool.name == RESULT_READ for entry in entries):
        raise ConfigError(
            f"A native tool is named {RESULT_READ!r}, which is how large results are read.",
            hint="Rename it, or switch that off: [results] limit = 0.",
        )


def reading_tool(results: Results, config: Config) -> NativeTool:
    """``result_read``, whose name nobody else may use."""
    reader = ResultReader(results, config.results.limit or ResultsConfig().limit)
    made = define(reader.read, name=RESULT_READ, description=DESCRIPTION, security_level="read_only")
    return replace(made, tool=replace(made.tool, input_schema=INPUT_SCHEMA, output_schema=None, reads_results=True))


Function = Callable[..., Any]
ConfigLike: TypeAlias = str | Path | Mapping[str, Any] | Config | Loaded | None


def as_loaded(config: ConfigLike, surroundings: Environment) -> Loaded:
    """Whatever a program passes as configuration: a path, a ready value, an ``mcpServers`` object, or nothing."""
    if isinstance(config, Loaded):
        return config
    if isinstance(config, Config):
        return Loaded(config)
    if isinstance(config, Mapping):
        text = msgspec.json.encode(config).decode()
        servers = parse_mcp_servers(text, "config", is_file=False)
        return Loaded(merge(user_rules(surroundings), servers, flags_layer({})))
    return load(config, surroundings)


@asynccontextmanager
async def open_crib(  # noqa: PLR0913 - what a program may wish, each by its name
    config: ConfigLike = None,
    *,
    tools: Sequence[Function | NativeTool] = (),
    prefix: bool = True,
    emit: Emit | None = None,
    surroundings: Environment | None = None,
    keep_results: bool = True,
    live: bool = False,
    sub_agents: SubAgents | None = None,
    sources: Sequence[Source] = (),
    layers: Sequence[Layer] = (),
) -> AsyncIterator[Crib]:
    """A Crib over a configuration (a path, an ``mcpServers`` object, or what is found here) and native functions.

    ``sources`` are a program's own (see ``Source``), closed with the Crib; ``layers`` its own layers, which see a
    call after its caller, limits and arguments were checked and before it goes to its source. With ``live``, calls
    can be looked at, and ended, while they run: see ``Crib.live``. ``sub_agents`` is who stands behind the
    workspace's ``delegate``. ``emit`` is told what happens; without it, Python's own ``logging`` is (``toolcrib``).
    """
    around = surroundings or Environment()
    loaded = as_loaded(config, around)
    if not keep_results:
        loaded = replace(loaded, config=without_result_limits(loaded.config))
    options = BuildOptions(tools, prefix, False, live, sub_agents, sources, layers)
    crib = await assemble(loaded, options, emit=emit or StandardLog(), surroundings=around)
    try:
        yield crib
    finally:
        await crib.close()


@asynccontextmanager
async def open_profile(name: str, config: ConfigLike = None, **wishes: Any) -> AsyncIterator[ProfileView]:
    """One profile of a configuration, for whatever takes a Crib's tools; the wishes are those of ``open_crib``."""
    loaded = as_loaded(config, wishes.get("surroundings") or Environment())
    async with open_crib(loaded, **wishes) as crib:
        yield Profiles(crib, loaded.config).need(name)


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """What a program may wish of a Crib besides its configuration."""

    tools: Sequence[Function | NativeTool] = ()
    prefix: bool = True
    one_shot: bool = False
    """For a single call: results are handed over whole, since nobody could read on."""
    live: bool = False
    sub_agents: SubAgents | None = None
    sources: Sequence[Source] = ()
    layers: Sequence[Layer] = ()


PLAIN = BuildOptions()


async def assemble(
    loaded: Loaded, options: BuildOptions = PLAIN, *, emit: Emit = drop, surroundings: Environment | None = None
) -> Crib:
    """An open Crib; the caller closes it."""
    around = for_network(surroundings or Environment(), loaded.config)
    backend = await find_backend(loaded.config, around).open()
    try:
        return await CribBuilder(loaded, options, backend, around, emit).build()
    except BaseException:
        await backend.close()
        raise


class CribBuilder:
    """From a configuration, and what a program wishes besides, to a Crib; the only place that knows every room."""

    def __init__(
        self, loaded: Loaded, options: BuildOptions, backend: Backend, around: Environment, emit: Emit
    ) -> None:
        self._loaded, self._options, self._backend, self._around = loaded, options, backend, around
        self._config, self._emit = loaded.config, emit
        self._maker = SourceMaker(loaded.config, around, emit, prefix=options.prefix)
        self._accounts: Accounts | None = None
        self._sign_ins = ServerSignIns(self._find_accounts, self._around)
        self._maker.accounts = self._find_accounts
        self._maker.own_secrets |= secrets_of([("key", model_key(loaded.config.model, around))], {})

    async def build(self) -> Crib:
        """The Crib, opened; nothing is started before it is needed."""
        config, maker = self._config, self._maker
        attached = attach_sources(self._options.sources, config.servers, maker.links)
        results, workspace = await self._backend.results(), self._workspace()
        modules = NativeModules(config.native, project_directory(self._loaded), self._emit)
        native = LocalSources([self._functions(results, modules), *self._knowledge(), *workspace], self._emit)
        modules.attach(native)
        parts = await self._parts(native, results, attached)
        redact, tracer = maker.redact if config.audit.values else None, find_tracer(config, self._around.env)
        crib = Crib(
            parts,
            layer_stack(config, parts, self._options.layers, maker.isolation_of, redact, tracer),
        )
        crib.loaded, crib.around, crib.modules = self._loaded, self._around, modules
        crib.sign_ins, self._sign_ins.servers = self._sign_ins, crib.servers
        for source in workspace:
            source.tooling = crib
        return await crib.open(config.servers.values())

    async def _parts(
        self, native: LocalSource, results: Results | None, attached: Mapping[str, AttachedSource]
    ) -> Parts:
        config, options, backend, maker, emit = self._config, self._options, self._backend, self._maker, self._emit
        ledger = backend.lock(self._loaded.lock)
        log, inbox = open_audit(config, noted(backend), emit), Inbox(time.monotonic)
        fleet = await join_fleet(backend, replica_name(config), emit)
        marks = Marks(fleet.coordination, await backend.secret()) if fleet is not None else None
        maker.desk = desk = make_approvals(config, emit, ledger or MemoryAnswers(), log, inbox, marks)
        maker.seal = make_seal(marks.secret if marks is not None else b"")
        return Parts(
            native=native,
            make_source=maker,
            records=ledger or MemoryRecords(),
            desk=desk,
            inbox=inbox,
            emit=emit,
            log=log,
            results=None if options.one_shot else results,
            live=Live(time.time, time.perf_counter, hide=maker.hide) if options.live else None,
            coordination=backend.coordination,
            links=maker.links,
            helpers=maker.helpers,
            security=config.security,
            tasks=TaskSettings(config.tasks.after_s, config.tasks.ttl_s, config.tasks.per_caller),
            list_grace_s=config.list_grace_s,
            prefix=options.prefix,
            room=room_of(config),
            ledger=ledger,
            supply=find_supply(config, self._around, emit),
            fleet=fleet,
            attached=attached,
            close_last=self._close,
            sign_ins=self._sign_ins,
            seal=maker.seal,
        )

    def _functions(self, results: Results | None, modules: NativeModules) -> NativeSource:
        """The user's own functions, and the way to read large results."""

        def check(entries: Sequence[NativeTool]) -> None:
            if results is not None:
                check_reading_name(entries)
            wishes = {entry.tool.name: entry.isolation for entry in entries}
            self._maker.native_wishes |= {name: wish for name, wish in wishes.items() if wish is not None}

        given = [native_tool(entry) for entry in self._options.tools]
        check(given)
        modules.check = check
        own = [*given, *modules.load()]
        if results is not None:
            own.append(reading_tool(results, self._config))
        run = self._maker.run_isolated
        room = {"capacity": self._config.capacity, "memory": self._config.catalog_memory}
        return NativeSource(own, emit=self._emit, run_isolated=run, **room)

    def _knowledge(self) -> list[LocalSource]:
        config, backend, fills = self._config.kb, self._backend, not self._options.one_shot
        if not config.enabled:
            return []
        source = make_knowledge(config, self._around, backend, self._maker.workers, self._emit, fills=fills)
        source.list_while(look_of(self._config, backend))
        return [source]

    def _workspace(self) -> "list[WorkspaceSource]":
        """Where it is switched on; its ``bash`` runs at whatever isolation is proven here."""
        config, around, loaded = self._config.workspace, self._around, self._loaded
        if not config.enabled:
            return []
        from toolcrib.crib.workspace import WorkspacePlace, WorkspaceSource, find_root

        named = (*loaded.files, loaded.lock, *named_manifests(loaded.config, around))
        guarded = tuple(path for path in named if path is not None)
        root = find_root(config, loaded.project, around)
        place = WorkspacePlace(root, self._maker.spawner, self._maker.bounds, guarded)
        self._maker.native_wishes["bash"] = IsolationWanted(AUTO)
        agents = self._options.sub_agents or sub_agents_of(loaded.config.model, around)
        return [WorkspaceSource(config, place, self._backend, agents, self._emit)]

    def _find_accounts(self) -> "Accounts":
        """The accounts at servers, made when the first server behind a URL is dialled."""
        if self._accounts is None:
            from toolcrib.credentials.accounts import open_accounts

            store, env, hide = self._backend.credentials(), self._around.env, self._maker.hide_tokens
            self._accounts = open_accounts(store, env, self._emit, hide)
            self._accounts.around.env = self._around.variables
            self._accounts.around.link_to = self._sign_ins.link_to
        return self._accounts

    async def _close(self) -> None:
        """What all sources shared, one after the other, whatever becomes of one."""
        try:
            if self._accounts is not None:
                await self._accounts.close()
            await self._maker.close()
        finally:
            await self._backend.close()


def project_directory(loaded: Loaded) -> Path | None:
    """Where modules stand beside the configuration; ``None`` if it is in no file."""
    return None if loaded.project is None else loaded.project.parent


def find_supply(config: Config, around: Environment, emit: Emit) -> Supply | None:
    """The servers of a platform, where one is configured; nobody is asked yet."""
    if not config.platform.is_on:
        return None
    from toolcrib.platform.supply import PlatformSupply

    return Supply(PlatformSupply(config, around.cwd, around.env, emit, around.variables), config.platform.ttl_s)


def named_manifests(config: Config, around: Environment) -> list[Path]:
    """The manifests of a platform that are called by a path of their own."""
    from toolcrib.platform.gateway import VARIABLE

    named = (config.platform.manifest, around.env.get(VARIABLE, "").strip())
    return [around.cwd / Path(name).expanduser() for name in named if name]
