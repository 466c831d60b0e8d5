"""From configuration to a running Crib; the only module that knows every room. The layer stack is listed here."""

import asyncio
import importlib
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from toolcrib.calls.layers.arguments import arguments
from toolcrib.calls.layers.deadline import deadline
from toolcrib.calls.layers.normalise import normalise
from toolcrib.calls.layers.record import record
from toolcrib.calls.layers.replay import replay
from toolcrib.calls.layers.result import result
from toolcrib.calls.metrics import Metrics
from toolcrib.calls.pipeline import Layer
from toolcrib.config.environment import chosen_config, environment_layer
from toolcrib.config.importers import parse_mcp_servers
from toolcrib.config.lock import Record
from toolcrib.config.merge import merge
from toolcrib.config.model import Config, ServerConfig
from toolcrib.config.parse import flags_layer, parse
from toolcrib.config.references import resolve_server, secret_values
from toolcrib.core.call import ToolCall, ToolResult
from toolcrib.core.errors import ConfigError
from toolcrib.core.events import Emit, Event, drop
from toolcrib.core.tasks import TaskScope
from toolcrib.crib import Crib, CribSettings, Parts
from toolcrib.sources.bounds import Bounds, from_file
from toolcrib.sources.link import CLIENT_NAME, Link, LinkEvents
from toolcrib.sources.mcp import McpSource
from toolcrib.sources.native import MARK, NativeSource, NativeTool
from toolcrib.sources.negotiate import Offer
from toolcrib.sources.stdio_link import StdioLink
from toolcrib.sources.supervise import Supervisor, SupervisorSettings
from toolcrib.stores.files import read_text
from toolcrib.stores.lockfile import LockFile
from toolcrib.stores.paths import find_project, lock_path, user_config_path
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
    config = merge(*layers, environment_layer(around.env, known), flags_layer(flags or {}))
    lock = lock_path(project or user)
    return Loaded(config, project, None if chosen else user, lock)


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

    def __init__(self, path: Path) -> None:
        self._file = LockFile(path)

    async def read(self) -> Mapping[str, Record]:
        """All records; an unreadable lock counts as empty, it is moved aside at the next write."""
        try:
            return self._file.read().records
        except ConfigError:
            return {}

    async def update(self, server: str, change: Callable[[Record | None], Record | None]) -> None:
        """Change one record."""
        await asyncio.to_thread(self._file.update, server, change)


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


def layer_stack(config: Config, metrics: Metrics, emit: Emit) -> list[Layer]:
    """What every call passes, first to last."""

    def unchecked(tool: str, reason: str) -> None:
        emit(Event("tool.unchecked", "warning", {"tool": tool, "reason": reason}))

    return [
        record(metrics, emit, time.perf_counter, config.slow_call_s),
        deadline(config.call_timeout_s),
        normalise(emit),
        arguments(unchecked),
        result(unchecked),
        replay(),
    ]


class SourceMaker:
    """Makes the source for a configured server; owns what all servers of a Crib share."""

    def __init__(self, config: Config, surroundings: Surroundings, emit: Emit) -> None:
        self._config, self._around, self._emit = config, surroundings, emit
        self._spawner = Spawner()
        self.bounds = Bounds(self._spawner, surroundings.env, config.isolation, VERSION)
        self._tasks = TaskScope(self._failed)

    def __call__(self, server: ServerConfig) -> McpSource:
        """The source of one server; nothing is started yet."""
        capabilities: dict[str, Any] = {name: {} for name in server.relay}
        offer = Offer({"name": CLIENT_NAME, "version": VERSION}, capabilities)
        connect = self._config.connect
        settings = SupervisorSettings(
            delays_s=tuple(connect.delay_before_s(number) for number in range(1, connect.attempts + 1)),
            handshake_timeout_s=0.8 * server.discovery_timeout_s,  # leaves time to tell why it failed
            idle_timeout_s=server.idle_timeout_s,
            secrets=secret_values(server, self._around.env),
        )
        supervisor = Supervisor(server.name, self._dialler(server), offer, settings, self._emit)
        return McpSource(server.name, supervisor, offer, is_http=server.url is not None)

    def _dialler(self, server: ServerConfig) -> Callable[[LinkEvents], Any]:
        async def dial(events: LinkEvents) -> Link:
            resolved = resolve_server(server, self._around.env)
            if resolved.command is not None:
                spec = await self.bounds.around(self._process(resolved), resolved)
                return await StdioLink.open(self._spawner, spec, events, self._tasks)
            from toolcrib.sources.http_link import HttpLink

            return await HttpLink.open(resolved, events, self._tasks)

        return dial

    def _process(self, server: ServerConfig) -> ProcessSpec:
        env = child_environment(server.env, self._around.env)
        cwd = None if server.cwd is None else from_file(server.cwd, server)
        return ProcessSpec((server.command or "", *server.args), env, cwd)

    async def run_isolated(self, entry: NativeTool, call: ToolCall) -> ToolResult:
        """Run a native tool in a worker process."""
        from toolcrib.isolate.worker import Workers
        from toolcrib.sources.isolated import in_workers

        workers = Workers(self._spawner, self.bounds.host, self.bounds.prover, self._around.env)
        return await in_workers(workers)(entry, call)

    async def close(self) -> None:
        """End the spawner, last of all."""
        await self._tasks.close()
        await self._spawner.close()

    def _failed(self, name: str, error: BaseException) -> None:
        self._emit(Event("source.task.failed", "error", {"task": name, "error": type(error).__name__}))


@asynccontextmanager
async def open_crib(
    config: ConfigLike = None,
    *,
    tools: Sequence[Function | NativeTool] = (),
    prefix: bool = True,
    emit: Emit = drop,
    surroundings: Surroundings | None = None,
) -> AsyncIterator[Crib]:
    """A Crib over a configuration (a path, an ``mcpServers`` object, or what is found here) and native functions."""
    around = surroundings or Surroundings()
    crib = await assemble(as_loaded(config, around), tools=tools, prefix=prefix, emit=emit, surroundings=around)
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
) -> Crib:
    """An open Crib; the caller closes it."""
    config = loaded.config
    metrics = Metrics()
    maker = SourceMaker(config, surroundings or Surroundings(), emit)
    functions = [*tools, *(entry for path in config.native for entry in import_tools(path))]
    native = NativeSource(functions, emit=emit, run_isolated=maker.run_isolated)
    parts = Parts(
        native=native,
        make_source=maker,
        records=LockRecords(loaded.lock) if loaded.lock is not None else MemoryRecords(),
        layers=layer_stack(config, metrics, emit),
        metrics=metrics,
        emit=emit,
        settings=CribSettings(list_grace_s=config.list_grace_s, prefix=prefix),
        close_last=maker.close,
    )
    return await Crib(parts).open(config.servers.values())


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
