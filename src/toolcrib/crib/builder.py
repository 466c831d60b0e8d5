"""From configuration to a running Crib; the only module that knows every room."""

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
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
from toolcrib.core.events import Emit, drop
from toolcrib.core.kinds import AUTO
from toolcrib.core.names import RESULT_READ
from toolcrib.core.requests import SubAgents
from toolcrib.core.source import LocalSource, Source
from toolcrib.crib.backend import find_backend, replica_name
from toolcrib.crib.crib import Crib
from toolcrib.crib.knowledge import make_knowledge
from toolcrib.crib.layers import find_tracer, layer_stack, make_approvals, noted, open_audit
from toolcrib.crib.loading import Loaded, load, user_rules
from toolcrib.crib.replicas import join_fleet
from toolcrib.crib.servers import Parts
from toolcrib.crib.sources import LocalSources, SourceMaker, attach_sources, model_key, sub_agents_of
from toolcrib.crib.window import Profiles, ProfileView
from toolcrib.isolate.levels import IsolationWanted
from toolcrib.sources.native.functions import NativeTool, define, import_tools, native_tool
from toolcrib.sources.native.source import NativeSource
from toolcrib.stores.local import Backend
from toolcrib.stores.lockfile import MemoryRecords
from toolcrib.stores.paths import Environment, for_network
from toolcrib.stores.results import Results

if TYPE_CHECKING:
    from toolcrib.crib.workspace import WorkspaceTools


def reading_tool(results: Results, config: Config, beside: Sequence[NativeTool]) -> NativeTool:
    """``result_read``, whose name nobody else may use."""
    if any(entry.tool.name == RESULT_READ for entry in beside):
        raise ConfigError(
            f"A native tool is named {RESULT_READ!r}, which is how large results are read.",
            hint="Rename it, or switch that off: [results] limit = 0.",
        )
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
    emit: Emit = drop,
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
    workspace's ``delegate``.
    """
    around = surroundings or Environment()
    loaded = as_loaded(config, around)
    if not keep_results:
        loaded = replace(loaded, config=without_result_limits(loaded.config))
    options = BuildOptions(tools, prefix, False, live, sub_agents, sources, layers)
    crib = await assemble(loaded, options, emit=emit, surroundings=around)
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
        return await _assemble(loaded, backend, around, emit, options)
    except BaseException:
        await backend.close()
        raise


async def _assemble(loaded: Loaded, backend: Backend, around: Environment, emit: Emit, options: BuildOptions) -> Crib:
    config = loaded.config
    attached = attach_sources(options.sources, config.servers)
    maker = SourceMaker(config, around, emit)
    maker.own_secrets |= secrets_of([("key", model_key(config.model, around.env))], {})
    imported = [entry for path in config.native for entry in import_tools(path)]
    own = [native_tool(entry) for entry in (*options.tools, *imported)]
    agents = options.sub_agents or sub_agents_of(config.model, around.env)
    workspace = find_workspace(loaded, backend, maker, agents)
    own += without_taken(workspace.tools() if workspace is not None else [], own)
    kept = await backend.results()
    if kept is not None:
        own.append(reading_tool(kept, config, own))
    maker.native_wishes |= {entry.tool.name: entry.isolation for entry in own if entry.isolation is not None}
    local: list[LocalSource] = [NativeSource(own, emit=emit, capacity=config.capacity, run_isolated=maker.run_isolated)]
    if config.kb.enabled:
        local.append(make_knowledge(config.kb, around, backend, maker.workers, emit, fills=not options.one_shot))
    ledger = backend.lock(loaded.lock)
    log, inbox = open_audit(config, noted(backend), emit), Inbox(time.monotonic)
    fleet = await join_fleet(backend, replica_name(config), emit)
    marks = Marks(fleet.coordination, await backend.secret()) if fleet is not None else None
    parts = Parts(
        native=local[0] if len(local) == 1 else LocalSources(local, emit),
        make_source=maker,
        records=ledger or MemoryRecords(),
        desk=make_approvals(config, emit, ledger or MemoryAnswers(), log, inbox, marks),
        inbox=inbox,
        emit=emit,
        log=log,
        results=None if options.one_shot else kept,
        live=Live(time.time, time.perf_counter, hide=maker.hide) if options.live else None,
        coordination=backend.coordination,
        helpers=maker.helpers,
        security=config.security,
        list_grace_s=config.list_grace_s,
        prefix=options.prefix,
        capacity=config.capacity,
        ledger=ledger,
        supply=find_supply(config, around, emit),
        fleet=fleet,
        attached=attached,
        close_last=_closing(maker, *([] if workspace is None else [workspace]), backend),
    )
    redact, tracer = maker.redact if config.audit.values else None, find_tracer(config, around.env)
    crib = Crib(parts, layer_stack(config, parts, options.layers, maker.isolation_of, redact, tracer))
    crib.loaded, crib.around = loaded, around
    if workspace is not None:
        workspace.tooling = crib
    return await crib.open(config.servers.values())


def find_supply(config: Config, around: Environment, emit: Emit) -> Supply | None:
    """The servers of a platform, where one is configured; nobody is asked yet."""
    if not config.platform.is_on:
        return None
    from toolcrib.platform.supply import PlatformSupply

    return Supply(PlatformSupply(config, around.cwd, around.env, emit), config.platform.ttl_s)


def named_manifests(config: Config, around: Environment) -> list[Path]:
    """The manifests of a platform that are called by a path of their own."""
    from toolcrib.platform.gateway import VARIABLE

    named = (config.platform.manifest, around.env.get(VARIABLE, "").strip())
    return [around.cwd / Path(name).expanduser() for name in named if name]


def find_workspace(
    loaded: Loaded, backend: Backend, maker: SourceMaker, agents: SubAgents | None
) -> "WorkspaceTools | None":
    """The workspace of a configuration, where it is switched on; ``bash`` runs at whatever isolation is proven here."""
    config, around = loaded.config.workspace, backend.around
    if not config.enabled:
        return None
    from toolcrib.crib.workspace import WorkspacePlace, WorkspaceTools, find_root

    files = [path for path in (*loaded.files, loaded.lock, *named_manifests(loaded.config, around)) if path is not None]
    place = WorkspacePlace(find_root(config, loaded.project, around), maker.spawner, maker.bounds, tuple(files))
    maker.native_wishes["bash"] = IsolationWanted(AUTO)
    return WorkspaceTools(config, place, backend, agents)


def _closing(*parts: "SourceMaker | WorkspaceTools | Backend") -> Callable[[], Any]:
    """What closes one after the other, all of them whatever becomes of one."""

    async def close() -> None:
        async with AsyncExitStack() as closing:
            for part in reversed(parts):
                closing.push_async_callback(part.close)

    return close


def without_taken(offered: Sequence[NativeTool], taken: Sequence[NativeTool]) -> list[NativeTool]:
    """The tools whose names a user's own tools do not have already: theirs count."""
    names = {entry.tool.name for entry in taken}
    return [entry for entry in offered if entry.tool.name not in names]
