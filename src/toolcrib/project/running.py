"""A project at work: opened from its configuration, following the edits of its files."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

from toolcrib.config.model import Config, is_bare
from toolcrib.config.references import variables_in, variables_of
from toolcrib.config.sections import ExposeConfig, SecurityConfig
from toolcrib.core.errors import StoreUnavailable, ToolcribError
from toolcrib.core.events import Emit, Event
from toolcrib.core.names import is_own
from toolcrib.core.tasks import TaskScope
from toolcrib.crib.builder import BuildOptions, assemble
from toolcrib.crib.crib import Crib
from toolcrib.crib.loading import Loaded
from toolcrib.project.project import Project
from toolcrib.project.projects import Projects, remember
from toolcrib.sources.native.builtin import BUILTIN
from toolcrib.sources.native.functions import native_tool
from toolcrib.stores.files import stamp_of
from toolcrib.stores.paths import state_directory
from toolcrib.stores.projects import ProjectFile
from toolcrib.stores.secrets import SecretStore
from toolcrib.transports.process.environment import forbid_inspection

POLL_S = 2.0
SETTLE_S = 0.2

Stamp = tuple[tuple[str, int, int, int], ...]


class FileWatch:
    """Looks at the files a project is read from, and at those of its native modules."""

    def __init__(self, project: Project, emit: Emit, tasks: TaskScope) -> None:
        self._project, self._emit, self._tasks = project, emit, tasks
        self._variables, self._secrets = project.around.variables, SecretStore(project.around.env).path
        self._meant: tuple[object, dict[str, str | None]] = None, {}
        self._seen: Stamp | None = None
        self._kept: object = None

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        await self._follow_secrets()
        while True:
            await asyncio.sleep(POLL_S)
            await self._take_over_pins()
            await self._follow_secrets()
            if self._stamp() != self._seen:
                await asyncio.sleep(SETTLE_S)  # an editor may be in the middle of replacing the file
                await self._reload()
            modules = self._project.crib.modules
            if await asyncio.to_thread(modules.has_changed):
                await asyncio.sleep(SETTLE_S)
                await modules.follow()

    async def _take_over_pins(self) -> None:
        """What ``toolcrib approve`` accepted in another process stands in the lock."""
        ledger = self._project.crib.ledger
        with suppress(StoreUnavailable):  # looked at again when it is back
            if ledger is not None and (stamp := await ledger.stamp()) != self._kept:
                await self._project.crib.servers.fresh.reload_pins()
                self._kept = stamp

    async def _follow_secrets(self) -> None:
        """Start anew whoever refers to a kept secret that is another one now; ``toolcrib secrets`` keeps them."""
        config, stamp = self._project.config, stamp_of(self._secrets)
        if self._meant[0] == (config, stamp):
            return
        before = self._meant[1]
        now = await asyncio.to_thread(lambda: {name: self._variables.get(name) for name in variables_of(config)})
        self._meant = (config, stamp), now
        changed = {name for name, value in now.items() if name in before and before[name] != value}
        servers = self._project.crib.servers
        for name in [name for name in servers.shelves if changed & variables_in(config.servers.get(name))]:
            self._tasks.spawn(servers.restart(name), "secret.changed")

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
    return replace(config, servers={}, native=(), security=SecurityConfig(), expose=ExposeConfig(), profiles={})


async def assemble_configured(
    loaded: Loaded, emit: Emit, *, prefix: bool = True, one_shot: bool = False, live: bool = False
) -> Crib:
    """An open Crib, with the built-in tools where nothing is configured; the caller closes it."""
    tools = BUILTIN if is_bare(loaded.config) else ()
    return await assemble(loaded, BuildOptions(tools, prefix, one_shot, live), emit=emit)


def has_only_builtin(crib: Crib) -> bool:
    """Whether the built-in tools stand in for a configuration."""
    names = {tool.__name__ for tool in BUILTIN}
    others = {name for name in crib.catalog.routes if not is_own(name)}
    return not crib.shelves and not crib.disabled and others == names


def hide_process(env: Mapping[str, str]) -> None:
    """Let no program look into this process, which holds secrets, except a debugger where one is wanted."""
    if not env.get("TOOLCRIB_DEBUG"):
        forbid_inspection()


@asynccontextmanager
async def open_project(
    loaded: Loaded,
    emit: Emit,
    *,
    chosen: str | None = None,
    flags: Mapping[str, object] | None = None,
    prefix: bool = True,
    live: bool = False,
) -> AsyncIterator[Project]:
    """A project that follows the edits of its configuration files; ``chosen`` and ``flags`` count over them."""
    tasks = TaskScope(lambda name, error: emit(Event(f"{name}.failed", "error", {"error": repr(error)})))
    crib = await assemble_configured(loaded, emit, prefix=prefix, live=live)
    try:
        await crib.servers.find(0)
        project = Project(crib, loaded, chosen, flags=flags or {}, prefix=prefix)
        tasks.spawn(FileWatch(project, emit, tasks).run(), "watch")
        tasks.spawn(remember(project, known_projects(project), emit), "projects.remember")
        yield project
    finally:
        await tasks.close()
        await crib.close()


def known_projects(project: Project) -> ProjectFile:
    """Where the projects of this user are remembered."""
    return ProjectFile(state_directory(project.around.env))


def projects_beside(project: Project) -> Projects:
    """The served project and those known from before."""
    return Projects(project, known_projects(project), [native_tool(entry) for entry in BUILTIN])
