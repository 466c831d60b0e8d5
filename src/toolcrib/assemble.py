"""From configuration to a running Crib; the only module that knows every room. The layer stack is listed here."""

import importlib
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from toolcrib.calls.approvals import AnswerBook, Desk, DeskSettings, MemoryAnswers
from toolcrib.calls.breaker import Breakers
from toolcrib.calls.elicit import ClientSurface, Seal
from toolcrib.calls.inbox import Inbox
from toolcrib.calls.layers.approve import approve
from toolcrib.calls.layers.arguments import arguments
from toolcrib.calls.layers.audit import witness
from toolcrib.calls.layers.breaker import breaker
from toolcrib.calls.layers.deadline import deadline
from toolcrib.calls.layers.fleet_limit import fleet_limit
from toolcrib.calls.layers.keep import KeepSettings, keep
from toolcrib.calls.layers.limit import limit
from toolcrib.calls.layers.live import at_source
from toolcrib.calls.layers.normalise import normalise
from toolcrib.calls.layers.observe import Told, Watchers, observe
from toolcrib.calls.layers.permit import permit
from toolcrib.calls.layers.replay import replay
from toolcrib.calls.layers.result import result
from toolcrib.calls.layers.shelter import IsolationOf, shelter
from toolcrib.calls.live import Live
from toolcrib.calls.marks import Marks
from toolcrib.calls.metrics import Metrics
from toolcrib.calls.pipeline import Layer, Subject
from toolcrib.calls.results.reader import DESCRIPTION, INPUT_SCHEMA, ResultReader
from toolcrib.calls.rig import Rig
from toolcrib.catalog.supply import Supply
from toolcrib.config.environment import chosen_config, environment_layer
from toolcrib.config.importers import parse_mcp_servers
from toolcrib.config.merge import merge
from toolcrib.config.model import DEFAULT, Config, ResultsConfig, has_result_limit, without_result_limits
from toolcrib.config.model import Layer as ConfigLayer
from toolcrib.config.parse import flags_layer, parse
from toolcrib.core.audit import Audit, AuditEntry, NoAudit
from toolcrib.core.errors import ConfigError
from toolcrib.core.events import Emit, Event, drop
from toolcrib.core.names import RESULT_READ
from toolcrib.core.subagent import SubAgents
from toolcrib.crib import Crib, CribSettings, Parts
from toolcrib.fleet import join_fleet
from toolcrib.isolate.grants import Wish
from toolcrib.isolate.levels import AUTO, IsolationLevel
from toolcrib.kb import LateLibrary
from toolcrib.keeping import make_ledger
from toolcrib.maker import SourceMaker
from toolcrib.onlookers import NOBODY, Onlookers, audit_place, find_tracer, open_audit
from toolcrib.shared import Shared, open_shared
from toolcrib.sources.native import MARK, NativeSource, NativeTool, define, native_tool
from toolcrib.stores.files import read_text
from toolcrib.stores.paths import find_project, lock_path, results_path, user_config_path
from toolcrib.stores.postgres.database import PgDatabase
from toolcrib.stores.records import MemoryRecords
from toolcrib.stores.results import ResultStore
from toolcrib.stores.results_shared import SharedResults
from toolcrib.surroundings import Surroundings
from toolcrib.thinking import errands_of
from toolcrib.window import Window, Windows

if TYPE_CHECKING:
    from toolcrib.outfit import Outfit

Function = Callable[..., Any]
ConfigLike: TypeAlias = "str | Path | Mapping[str, Any] | Config | Loaded | None"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration, and the files it came from."""

    config: Config
    project: Path | None = None
    user: Path | None = None
    lock: Path | None = None
    """``None`` keeps discovery records in memory."""

    @property
    def files(self) -> list[Path]:
        """The files that exist, weakest first."""
        return [path for path in (self.user, self.project) if path is not None and path.is_file()]


def load(
    chosen: str | Path | None = None,
    surroundings: Surroundings | None = None,
    flags: Mapping[str, object] | None = None,
) -> Loaded:
    """Find, read and merge the configuration: user's file, project's file, environment, flags."""
    around = surroundings or Surroundings()
    user = user_config_path(around.env)
    project = _project_file(chosen or chosen_config(around.env), around)
    paths = [project] if chosen and project else [path for path in (user, project) if path is not None]
    layers = [_parse_file(path) for path in paths if path.is_file()]
    known = {name for layer in layers for name in layer.servers}
    config = merge(_FROM_FILES, *layers, environment_layer(around.env, known), flags_layer(flags or {}))
    lock = lock_path(project or user)
    return Loaded(config, project, None if chosen else user, lock)


_ON = ("audit.enabled", "kb.enabled")
_FROM_FILES = ConfigLayer("default", dict.fromkeys(_ON, True), origins=dict.fromkeys(_ON, DEFAULT))
"""What holds for a configuration of files only: a program that passes its own asks for these if it wants them."""


def _project_file(chosen: str | Path | None, around: Surroundings) -> Path | None:
    if chosen is None:
        return find_project(around.cwd)
    path = (around.cwd / Path(chosen).expanduser()).absolute()
    if not path.is_file():
        raise ConfigError(f"There is no configuration file {str(chosen)!r}.", hint="Check the path given to --config.")
    return path


def _parse_file(path: Path) -> Any:
    return parse(read_text(path) or "", str(path))


def as_loaded(config: ConfigLike, surroundings: Surroundings) -> Loaded:
    """Whatever a program passes as configuration: a path, a ready value, an ``mcpServers`` object, or nothing."""
    if isinstance(config, Loaded):
        return config
    if isinstance(config, Config):
        return Loaded(config)
    if isinstance(config, Mapping):
        text = msgspec.json.encode(config).decode()
        return Loaded(merge(parse_mcp_servers(text, "config", is_file=False), flags_layer({})))
    return load(config, surroundings)


def make_rig(
    config: Config, emit: Emit, answers: AnswerBook, log: Audit | None = None, marks: Marks | None = None
) -> Rig:
    """What the layers of one Crib share."""
    inbox = Inbox(time.monotonic)
    settings = DeskSettings(config.security.ask_timeout_s)
    audit_log = log or NoAudit()
    desk = Desk(answers, settings, audit_log, emit=emit, surfaces=[ClientSurface(), inbox], marks=marks)
    return Rig(emit, Metrics(), Breakers(time.monotonic), desk, inbox, audit_log)


async def nowhere(subject: Subject) -> IsolationLevel | None:
    """An ``IsolationOf`` where nothing is isolated."""
    del subject
    return IsolationLevel.NONE


def layer_stack(
    config: Config, rig: Rig, onlookers: Onlookers = NOBODY, isolation_of: IsolationOf = nowhere
) -> list[Layer]:
    """What every call passes, first to last."""

    def unchecked(tool: str, reason: str) -> None:
        rig.emit(Event("tool.unchecked", "warning", {"tool": tool, "reason": reason}))

    clock = time.perf_counter if rig.live is None else rig.live.clock
    told = Told(clock, redact=onlookers.redact, slow_s=config.slow_call_s)
    return [
        *onlookers.spans(),
        observe(Watchers(rig.metrics, rig.emit, rig.log, rig.live), told),
        permit(),
        shelter(config.isolation.minimum, isolation_of),
        approve(rig.desk, Seal(time.time, config.security.ask_timeout_s, rig.desk.secret)),
        deadline(config.call_timeout_s),
        _limiting(config, rig),
        witness(rig.log),
        *_keeping(config, rig),
        normalise(rig.emit),
        arguments(unchecked, rig.emit),
        result(unchecked),
        breaker(rig.breakers, rig.emit),
        replay(),
        *([] if rig.live is None else [at_source()]),
    ]


def _limiting(config: Config, rig: Rig) -> Layer:
    """With other replicas, limits hold over all of them."""
    if rig.fleet is None:
        return limit(config.limits, rig.breakers)
    return fleet_limit(config.limits, rig.breakers, rig.fleet)


def _keeping(config: Config, rig: Rig) -> list[Layer]:
    """Without a place for them, no result is too large."""
    if rig.results is None:
        return []
    return [keep(rig.results, KeepSettings(config.results.limit, config.results.keep_s), rig.emit)]


@asynccontextmanager
async def open_crib(  # noqa: PLR0913 - what a program may wish, each by its name
    config: ConfigLike = None,
    *,
    tools: Sequence[Function | NativeTool] = (),
    prefix: bool = True,
    emit: Emit = drop,
    surroundings: Surroundings | None = None,
    keep_results: bool = True,
    live: bool = False,
    sub_agents: SubAgents | None = None,
) -> AsyncIterator[Crib]:
    """A Crib over a configuration (a path, an ``mcpServers`` object, or what is found here) and native functions.

    With ``live``, its calls can be looked at, and ended, while they run: see ``Crib.live``. ``sub_agents`` is who
    stands behind the workspace's ``delegate``.
    """
    around = surroundings or Surroundings()
    loaded = as_loaded(config, around)
    if not keep_results:
        loaded = replace(loaded, config=without_result_limits(loaded.config))
    crib = await assemble(
        loaded, tools=tools, prefix=prefix, emit=emit, surroundings=around, live=live, sub_agents=sub_agents
    )
    try:
        yield crib
    finally:
        await crib.close()


@asynccontextmanager
async def open_profile(name: str, config: ConfigLike = None, **wishes: Any) -> AsyncIterator[Window]:
    """One profile of a configuration, for whatever takes a Crib's tools; the wishes are those of ``open_crib``."""
    loaded = as_loaded(config, wishes.get("surroundings") or Surroundings())
    async with open_crib(loaded, **wishes) as crib:
        yield Windows(crib, loaded.config).need(name)


async def assemble(  # noqa: PLR0913 - the wishes of open_crib, and of commands
    loaded: Loaded,
    *,
    tools: Sequence[Function | NativeTool] = (),
    prefix: bool = True,
    emit: Emit = drop,
    surroundings: Surroundings | None = None,
    one_shot: bool = False,
    live: bool = False,
    sub_agents: SubAgents | None = None,
) -> Crib:
    """An open Crib; the caller closes it. One for a single call hands results over whole: nobody could read on."""
    around = surroundings or Surroundings()
    shared = await open_shared(loaded.config, around.env)
    try:
        wishes = Wishes(tools, prefix, one_shot, live, sub_agents)
        return await _assemble(loaded, shared, around, emit, wishes)
    except BaseException:
        await shared.close()
        raise


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a program may wish of a Crib besides its configuration."""

    tools: Sequence[Function | NativeTool] = ()
    prefix: bool = True
    one_shot: bool = False
    live: bool = False
    sub_agents: SubAgents | None = None


async def _assemble(loaded: Loaded, shared: Shared, around: Surroundings, emit: Emit, wishes: Wishes) -> Crib:
    config, tools = loaded.config, wishes.tools
    maker = SourceMaker(config, around, emit)
    own = [native_tool(entry) for entry in (*tools, *(entry for path in config.native for entry in import_tools(path)))]
    library = LateLibrary(config.kb, around, shared.settings)
    own += without_taken(library.tools() if config.kb.enabled else [], own)
    agents = wishes.sub_agents or errands_of(config.model, around.env)
    outfit = make_outfit(loaded, around, maker, agents, shared.database) if config.workspace.enabled else None
    own += without_taken(outfit.tools() if outfit is not None else [], own)
    results = await open_results(config, around) if has_result_limit(config) else None
    kept = share_results(results, shared, config.results)
    if kept is not None:
        own.append(reading_tool(kept, config, own))
    maker.native_wishes |= {entry.tool.name: entry.isolation for entry in own if entry.isolation is not None}
    native = NativeSource(own, emit=emit, capacity=config.capacity, run_isolated=maker.run_isolated)
    ledger = make_ledger(shared.database, loaded.lock)
    log = open_audit(config, audit_place(config, around), emit)
    onlookers = Onlookers(maker.redact if config.audit.values else None, find_tracer(config, around.env))
    fleet = await join_fleet(shared, emit)
    marks = Marks(fleet.coordination, await shared.secret()) if fleet is not None else None
    rig = make_rig(config, emit, ledger or MemoryAnswers(), log, marks)
    watched = Live(time.time, time.perf_counter, hide=maker.hide) if wishes.live else None
    rig = replace(rig, results=None if wishes.one_shot else kept, live=watched, fleet=shared.coordination)
    parts = Parts(
        native=native,
        make_source=maker,
        records=ledger or MemoryRecords(),
        layers=layer_stack(config, rig, onlookers, maker.isolation_of),
        rig=rig,
        settings=CribSettings(config.list_grace_s, wishes.prefix, config.capacity),
        security=config.security,
        close_last=_closing(maker, results, library, *([] if outfit is None else [outfit]), shared),
        ledger=ledger,
        supply=find_supply(config, around, emit),
        fleet=fleet,
    )
    crib = Crib(parts)
    if outfit is not None:
        outfit.tooling = crib
    return await crib.open(config.servers.values())


def find_supply(config: Config, around: Surroundings, emit: Emit) -> Supply | None:
    """The servers of a platform, where one is configured; nobody is asked yet."""
    if not config.platform.is_on:
        return None
    from toolcrib.platform.supply import PlatformSupply

    return Supply(PlatformSupply(config, around.cwd, around.env, emit), config.platform.ttl_s)


def make_outfit(
    loaded: Loaded,
    surroundings: Surroundings,
    maker: SourceMaker,
    agents: SubAgents | None,
    database: PgDatabase | None = None,
) -> "Outfit":
    """The workspace of a configuration; ``bash`` runs at whatever isolation is proven here."""
    from toolcrib.outfit import Behind, Outfit, Place, find_root

    config = loaded.config.workspace
    files = [path for path in (*loaded.files, loaded.lock) if path is not None]
    place = Place(find_root(config, loaded.project, surroundings), maker.spawner, maker.bounds, tuple(files))
    maker.native_wishes["bash"] = Wish(AUTO)
    return Outfit(config, place, surroundings, Behind(agents, database))


def _closing(
    maker: SourceMaker, results: ResultStore | None, *behind: "LateLibrary | Outfit | Shared"
) -> Callable[[], Any]:
    async def close() -> None:
        try:
            await maker.close()
            for each in behind:
                await each.close()
        finally:
            if results is not None:
                await results.close()

    return close


def without_taken(offered: Sequence[NativeTool], taken: Sequence[NativeTool]) -> list[NativeTool]:
    """The tools whose names a user's own tools do not have already: theirs count."""
    names = {entry.tool.name for entry in taken}
    return [entry for entry in offered if entry.tool.name not in names]


async def open_results(config: Config, surroundings: Surroundings) -> ResultStore:
    """Where large results are kept; what killed programs left there is removed."""
    store = ResultStore(results_path(surroundings.env), config.results)
    await store.open()
    return store


def share_results(
    results: ResultStore | None, shared: Shared, config: ResultsConfig
) -> ResultStore | SharedResults | None:
    """Where there are replicas, results are read at any of them."""
    if results is None or shared.coordination is None:
        return results
    return SharedResults(results, shared.coordination, config, time.monotonic)


def reading_tool(results: ResultStore | SharedResults, config: Config, beside: Sequence[NativeTool]) -> NativeTool:
    """``result_read``, whose name nobody else may use."""
    if any(entry.tool.name == RESULT_READ for entry in beside):
        raise ConfigError(
            f"A native tool is named {RESULT_READ!r}, which is how large results are read.",
            hint="Rename it, or switch that off: [results] limit = 0.",
        )
    reader = ResultReader(results, config.results.limit or ResultsConfig().limit)
    made = define(reader.read, name=RESULT_READ, description=DESCRIPTION, security_level="read_only")
    return replace(made, tool=replace(made.tool, input_schema=INPUT_SCHEMA, output_schema=None, reads_results=True))


async def write_down(loaded: Loaded, entry: AuditEntry, surroundings: Surroundings | None = None) -> None:
    """Put one decision into the audit log from outside a Crib; returns when it will survive a power cut."""
    log = open_audit(loaded.config, audit_place(loaded.config, surroundings or Surroundings()), drop)
    try:
        await log.commit(entry)
    finally:
        await log.close()


def import_tools(path: str) -> list[Function]:
    """The function ``module:function`` names, or every ``@tool`` function of ``module``."""
    module_name, _, attribute = path.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # whatever a user's module raises while it is loaded
        raise ConfigError(
            f"native: cannot import {module_name!r}: {type(error).__name__}: {error}.",
            hint="Check `native` and PYTHONPATH.",
        ) from None
    if attribute:
        if not callable(getattr(module, attribute, None)):
            raise ConfigError(f"native: {module_name!r} has no function {attribute!r}.")
        return [getattr(module, attribute)]
    return [entry for entry in vars(module).values() if callable(entry) and hasattr(entry, MARK)]
