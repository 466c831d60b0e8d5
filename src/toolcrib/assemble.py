"""From configuration to a running Crib; the only module that knows every room. The layer stack is listed here."""

import asyncio
import importlib
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from toolcrib.calls.approvals import AnswerBook, Desk, DeskSettings, MemoryAnswers
from toolcrib.calls.breaker import Breakers
from toolcrib.calls.elicit import ClientSurface, Seal
from toolcrib.calls.inbox import Inbox
from toolcrib.calls.layers.approve import approve
from toolcrib.calls.layers.arguments import arguments
from toolcrib.calls.layers.audit import Told, audit, witness
from toolcrib.calls.layers.breaker import breaker
from toolcrib.calls.layers.deadline import deadline
from toolcrib.calls.layers.keep import KeepSettings, keep
from toolcrib.calls.layers.limit import limit
from toolcrib.calls.layers.normalise import normalise
from toolcrib.calls.layers.permit import permit
from toolcrib.calls.layers.record import record
from toolcrib.calls.layers.replay import replay
from toolcrib.calls.layers.result import result
from toolcrib.calls.metrics import Metrics
from toolcrib.calls.pipeline import Layer
from toolcrib.calls.results.reader import DESCRIPTION, INPUT_SCHEMA, ResultReader
from toolcrib.calls.rig import Rig
from toolcrib.config.environment import chosen_config, environment_layer
from toolcrib.config.importers import parse_mcp_servers
from toolcrib.config.lock import Answer, Record, timestamp, with_answer
from toolcrib.config.masks import shown_values
from toolcrib.config.merge import merge
from toolcrib.config.model import (
    DEFAULT,
    Config,
    ResultsConfig,
    ServerConfig,
    has_result_limit,
    without_result_limits,
)
from toolcrib.config.model import Layer as ConfigLayer
from toolcrib.config.parse import flags_layer, parse
from toolcrib.config.references import resolve_server, secret_values
from toolcrib.core.audit import Audit, NoAudit
from toolcrib.core.errors import ConfigError
from toolcrib.core.events import Emit, Event, drop
from toolcrib.core.names import RESULT_READ
from toolcrib.core.tasks import TaskScope
from toolcrib.crib import Crib, CribSettings, Parts
from toolcrib.onlookers import NOBODY, Onlookers, find_tracer, open_audit
from toolcrib.sources.autopsy import redact
from toolcrib.sources.link import CLIENT_NAME, Link, LinkEvents
from toolcrib.sources.mcp import McpSource
from toolcrib.sources.native import MARK, NativeSource, NativeTool, define, native_tool
from toolcrib.sources.negotiate import Offer
from toolcrib.sources.stdio_link import StdioLink
from toolcrib.sources.supervise import Supervisor, SupervisorSettings
from toolcrib.stores.files import read_text
from toolcrib.stores.lockfile import LockFile
from toolcrib.stores.paths import find_project, lock_path, results_path, state_directory, user_config_path
from toolcrib.stores.results import ResultStore
from toolcrib.transports.environment import child_environment
from toolcrib.transports.spawn import Spawner
from toolcrib.transports.spec import ProcessSpec
from toolcrib.version import VERSION

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


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where toolcrib runs; given as a value so that nothing reads it behind anybody's back."""

    cwd: Path = field(default_factory=Path.cwd)
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))


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


_FROM_FILES = ConfigLayer("default", {"audit.enabled": True}, origins={"audit.enabled": DEFAULT})
"""What holds for a configuration of files only: a program that passes its own asks for an audit log if it wants one."""


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
        return Loaded(merge(parse_mcp_servers(text, "config"), flags_layer({})))
    return load(config, surroundings)


class LockRecords:
    """Discovery records in the lock file; file work happens beside the event loop."""

    def __init__(self, file: LockFile) -> None:
        self._file = file

    async def read(self) -> Mapping[str, Record]:
        """All records; an unreadable lock counts as empty, it is moved aside at the next write."""
        try:
            return self._file.read().records
        except ConfigError:
            return {}

    async def update(self, server: str, change: Callable[[Record | None], Record | None]) -> None:
        """Change one record."""
        await asyncio.to_thread(self._file.update, server, change)


class LockAnswers:
    """What people answered once and for all, in the lock file, where they can read and edit it."""

    def __init__(self, file: LockFile) -> None:
        self._file = file

    async def find(self, tool: str, caller: str) -> bool | None:
        """What was answered; an unreadable lock holds no answer."""
        try:
            answer = self._file.read().approvals.get(tool, {}).get(caller)
        except ConfigError:
            return None
        return None if answer is None else answer.allow

    async def write(self, tool: str, caller: str, allow: bool, by: str) -> None:
        """Keep an answer."""
        answer = Answer(allow, timestamp(datetime.now(UTC)), by)
        await asyncio.to_thread(self._file.change, lambda lock: with_answer(lock, tool, caller, answer))


class MemoryRecords:
    """Discovery records for as long as the program runs."""

    def __init__(self) -> None:
        self._records: dict[str, Record] = {}

    async def read(self) -> Mapping[str, Record]:
        """All records."""
        return self._records

    async def update(self, server: str, change: Callable[[Record | None], Record | None]) -> None:
        """Change one record."""
        changed = change(self._records.get(server))
        if changed is None:
            self._records.pop(server, None)
        else:
            self._records[server] = changed


def make_rig(config: Config, emit: Emit, answers: AnswerBook, log: Audit | None = None) -> Rig:
    """What the layers of one Crib share."""
    inbox = Inbox(time.monotonic)
    settings = DeskSettings(config.security.ask_timeout_s)
    audit_log = log or NoAudit()
    desk = Desk(answers, settings, audit_log, emit=emit, surfaces=[ClientSurface(), inbox])
    return Rig(emit, Metrics(), Breakers(time.monotonic), desk, inbox, audit_log)


def layer_stack(config: Config, rig: Rig, onlookers: Onlookers = NOBODY) -> list[Layer]:
    """What every call passes, first to last."""

    def unchecked(tool: str, reason: str) -> None:
        rig.emit(Event("tool.unchecked", "warning", {"tool": tool, "reason": reason}))

    return [
        *onlookers.spans(),
        record(rig.metrics, rig.emit, time.perf_counter, config.slow_call_s),
        audit(rig.log, Told(time.perf_counter, redact=onlookers.redact)),
        permit(),
        approve(rig.desk, Seal(time.time, config.security.ask_timeout_s)),
        deadline(config.call_timeout_s),
        limit(config.limits, rig.breakers),
        witness(rig.log),
        *_keeping(config, rig),
        normalise(rig.emit),
        arguments(unchecked),
        result(unchecked),
        breaker(rig.breakers, rig.emit),
        replay(),
    ]


def _keeping(config: Config, rig: Rig) -> list[Layer]:
    """Without a place for them, no result is too large."""
    if rig.results is None:
        return []
    return [keep(rig.results, KeepSettings(config.results.limit, config.results.keep_s), rig.emit)]


class SourceMaker:
    """Makes the source for a configured server; owns what all servers of a Crib share."""

    def __init__(self, config: Config, surroundings: Surroundings, emit: Emit) -> None:
        self._config, self._around, self._emit = config, surroundings, emit
        self.secrets: frozenset[str] = frozenset()
        """What no server's secret may be shown as, of all servers so far."""
        self._spawner = Spawner()
        self._tasks = TaskScope(self._failed)

    def __call__(self, server: ServerConfig) -> McpSource:
        """The source of one server; nothing is started yet."""
        capabilities: dict[str, Any] = {name: {} for name in server.relay}
        offer = Offer({"name": CLIENT_NAME, "version": VERSION}, capabilities)
        connect = self._config.connect
        secrets = secret_values(server, self._around.env)
        self.secrets |= secrets
        settings = SupervisorSettings(
            delays_s=tuple(connect.delay_before_s(number) for number in range(1, connect.attempts + 1)),
            handshake_timeout_s=0.8 * server.discovery_timeout_s,  # leaves time to tell why it failed
            idle_timeout_s=server.idle_timeout_s,
            secrets=secrets,
        )
        supervisor = Supervisor(server.name, self._dialler(server), offer, settings, self._emit)
        return McpSource(server.name, supervisor, offer, is_http=server.url is not None)

    def redact(self, encoded: str) -> str:
        """Encoded arguments without what is known to be secret, or looks like it."""
        shown = shown_values(msgspec.json.decode(encoded))
        return redact(msgspec.json.encode(shown).decode(), self.secrets)

    def _dialler(self, server: ServerConfig) -> Callable[[LinkEvents], Any]:
        async def dial(events: LinkEvents) -> Link:
            resolved = resolve_server(server, self._around.env)
            if resolved.command is not None:
                return await StdioLink.open(self._spawner, self._process(resolved), events, self._tasks)
            from toolcrib.sources.http_link import HttpLink

            return await HttpLink.open(resolved, events, self._tasks)

        return dial

    def _process(self, server: ServerConfig) -> ProcessSpec:
        env = child_environment(server.env, self._around.env)
        return ProcessSpec((server.command or "", *server.args), env, _directory(server))

    async def close(self) -> None:
        """End the spawner, last of all."""
        await self._tasks.close()
        await self._spawner.close()

    def _failed(self, name: str, error: BaseException) -> None:
        self._emit(Event("source.task.failed", "error", {"task": name, "error": type(error).__name__}))


def _directory(server: ServerConfig) -> str | None:
    """Where the process runs; a relative directory is seen from the configuration file."""
    if server.cwd is None or Path(server.cwd).is_absolute() or not server.origin:
        return server.cwd
    return str(Path(server.origin).parent / server.cwd)


@asynccontextmanager
async def open_crib(
    config: ConfigLike = None,
    *,
    tools: Sequence[Function | NativeTool] = (),
    prefix: bool = True,
    emit: Emit = drop,
    surroundings: Surroundings | None = None,
    keep_results: bool = True,
) -> AsyncIterator[Crib]:
    """A Crib over a configuration (a path, an ``mcpServers`` object, or what is found here) and native functions."""
    around = surroundings or Surroundings()
    loaded = as_loaded(config, around)
    if not keep_results:
        loaded = replace(loaded, config=without_result_limits(loaded.config))
    crib = await assemble(loaded, tools=tools, prefix=prefix, emit=emit, surroundings=around)
    try:
        yield crib
    finally:
        await crib.close()


async def assemble(
    loaded: Loaded,
    *,
    tools: Sequence[Function | NativeTool] = (),
    prefix: bool = True,
    emit: Emit = drop,
    surroundings: Surroundings | None = None,
    one_shot: bool = False,
) -> Crib:
    """An open Crib; the caller closes it. One for a single call hands results over whole: nobody could read on."""
    config, around = loaded.config, surroundings or Surroundings()
    maker = SourceMaker(config, around, emit)
    own = [native_tool(entry) for entry in (*tools, *(entry for path in config.native for entry in import_tools(path)))]
    results = await open_results(config, around) if has_result_limit(config) else None
    if results is not None:
        own.append(reading_tool(results, config, own))
    lock = LockFile(loaded.lock) if loaded.lock is not None else None
    log = open_audit(config, audit_path(config, around), emit)
    onlookers = Onlookers(maker.redact if config.audit.values else None, find_tracer(config, around.env))
    rig = make_rig(config, emit, LockAnswers(lock) if lock is not None else MemoryAnswers(), log)
    rig = replace(rig, results=None if one_shot else results)
    parts = Parts(
        native=NativeSource(own, emit=emit, capacity=config.capacity),
        make_source=maker,
        records=LockRecords(lock) if lock is not None else MemoryRecords(),
        layers=layer_stack(config, rig, onlookers),
        rig=rig,
        settings=CribSettings(config.list_grace_s, prefix, config.capacity),
        security=config.security,
        close_last=_closing(maker, results),
    )
    return await Crib(parts).open(config.servers.values())


def _closing(maker: SourceMaker, results: ResultStore | None) -> Callable[[], Any]:
    async def close() -> None:
        try:
            await maker.close()
        finally:
            if results is not None:
                await results.close()

    return close


async def open_results(config: Config, surroundings: Surroundings) -> ResultStore:
    """Where large results are kept; what killed programs left there is removed."""
    store = ResultStore(results_path(surroundings.env), config.results)
    await store.open()
    return store


def reading_tool(results: ResultStore, config: Config, beside: Sequence[NativeTool]) -> NativeTool:
    """``result_read``, whose name nobody else may use."""
    if any(entry.tool.name == RESULT_READ for entry in beside):
        raise ConfigError(
            f"A native tool is named {RESULT_READ!r}, which is how large results are read.",
            hint="Rename it, or switch that off: [results] limit = 0.",
        )
    reader = ResultReader(results, config.results.limit or ResultsConfig().limit)
    made = define(reader.read, name=RESULT_READ, description=DESCRIPTION, security_level="read_only")
    return replace(made, tool=replace(made.tool, input_schema=INPUT_SCHEMA, output_schema=None))


def audit_path(config: Config, surroundings: Surroundings) -> Path:
    """Where the audit log is, whether it is switched on or not; a relative path is seen from the working directory."""
    if not config.audit.path:
        return state_directory(surroundings.env) / "audit.db"
    return (surroundings.cwd / Path(config.audit.path).expanduser()).absolute()


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
