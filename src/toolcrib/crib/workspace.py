"""From configuration to the workspace: its tools for the catalogue. Nothing is opened before one of them is used."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from toolcrib.config.model import Config
from toolcrib.config.sections import IsolationConfig, WorkspaceConfig
from toolcrib.core.errors import ConfigError
from toolcrib.core.events import Emit, drop
from toolcrib.core.kinds import IsolationLevel
from toolcrib.core.network import Network
from toolcrib.core.offers import Tool
from toolcrib.core.requests import SubAgents, Tooling
from toolcrib.core.worklist import WorkList
from toolcrib.isolate.plan import is_too_wide
from toolcrib.isolate.worker import Workers
from toolcrib.sources.mcp.bounds import Isolator
from toolcrib.sources.native.functions import NativeTool, define
from toolcrib.sources.native.source import NativeSource
from toolcrib.stores.local import Backend
from toolcrib.stores.paths import Environment, state_directory
from toolcrib.transports.http.fetch import FetchLimits
from toolcrib.transports.process.spawn import Spawner
from toolcrib.version import VERSION
from toolcrib.workspace.definitions import DELEGATE, Toolset
from toolcrib.workspace.delegate import DelegateTool
from toolcrib.workspace.files import FileTools
from toolcrib.workspace.listing import ListTools
from toolcrib.workspace.pages import PageTools, markdown_in
from toolcrib.workspace.root import WorkspaceRoot
from toolcrib.workspace.search import SearchTools, scan_in
from toolcrib.workspace.shell import Programs, ShellSettings, ShellTools
from toolcrib.workspace.tasks import TaskTools

MARGIN_S = 15.0
"""How much longer than its command or page a call may take: to get a place, to be read, to be swept up behind."""


@dataclass(frozen=True, slots=True)
class WorkspacePlace:
    """Where a workspace is, and what starts its programs."""

    root: Path
    spawner: Spawner
    bounds: Isolator
    guarded: tuple[Path, ...] = ()
    """The files toolcrib was configured by."""


def find_root(config: WorkspaceConfig, project: Path | None, surroundings: Environment) -> Path:
    """The workspace's directory; raises ``ConfigError`` if it cannot be one."""
    base = project.parent if project is not None else surroundings.cwd
    root = (base / Path(config.root).expanduser()).resolve()
    if not root.is_dir():
        raise ConfigError(f"[workspace] root {config.root!r} is no directory.", hint=f"Create {root}, or correct it.")
    home = Path(surroundings.env.get("HOME") or Path.home()).resolve()
    if is_too_wide(root, home) or state_directory(surroundings.env).resolve().is_relative_to(root):
        raise ConfigError(
            f"[workspace] root {str(root)!r} holds your home directory, or where toolcrib keeps its tokens and logs.",
            hint="Choose a directory with nothing in it but what its tools shall work on.",
        )
    if "bash" in config.tools and not config.bash:
        raise ConfigError("[workspace] tools names bash, which is not switched on.", hint="Write bash = true, too.")
    return root


class WorkspaceSource(NativeSource):
    """The workspace as a source: the tools of it that are switched on."""

    def __init__(
        self,
        config: WorkspaceConfig,
        place: WorkspacePlace,
        backend: Backend,
        agents: SubAgents | None = None,
        emit: Emit = drop,
    ) -> None:
        self.tooling: Tooling | None = None
        """Whose tools sub-agents are given; set once there is a Crib."""
        self._work = backend.tasks(str(place.root))
        made = _make(config, place, backend.around, _Behind(self._work, lambda: self.tooling, agents))
        defined = (_define(function, options, config) for function, options in made.declarations())
        super().__init__([entry for entry in defined if entry.tool.name in config.offered], emit=emit)

    async def close(self) -> None:
        """Let go of the tasks' file."""
        await self._work.close()


@dataclass(frozen=True, slots=True)
class _Behind:
    work: WorkList
    tooling: Callable[[], Tooling | None]
    agents: SubAgents | None


def _make(config: WorkspaceConfig, place: WorkspacePlace, surroundings: Environment, behind: _Behind) -> Toolset:
    root = WorkspaceRoot(place.root, place.guarded)
    bounds = place.bounds
    programs = Programs(place.spawner, bounds.host, bounds.prover, surroundings.env)
    workers = Workers(place.spawner, bounds.host, bounds.prover, surroundings.env)
    shell = ShellSettings(
        IsolationLevel(config.isolation),
        config.network,
        config.loopback,
        tuple(str((place.root / Path(path).expanduser()).absolute()) for path in config.read),
        config.timeout_s,
        config.output,
    )
    fetching = FetchLimits(config.fetch_size, config.fetch_timeout_s, network=Network.of(surroundings.env))
    return Toolset(
        shell=ShellTools(root, programs, shell),
        files=FileTools(root),
        lists=ListTools(root),
        search=SearchTools(root, programs, scan_in(workers)),
        pages=PageTools(fetching, markdown_in(workers)),
        tasks=TaskTools(behind.work),
        delegate=DelegateTool(behind.tooling, behind.agents),
    )


def _define(function: Callable[..., object], options: dict[str, object], config: WorkspaceConfig) -> NativeTool:
    if options["name"] in (longest := {"bash": config.timeout_s, "url_fetch": config.fetch_timeout_s}):
        options = options | {"timeout_s": longest[str(options["name"])] + MARGIN_S}
    if options is not DELEGATE:
        return define(function, **options)
    named = {name: value for name, value in options.items() if name not in ("input_schema", "examples")}
    made = define(function, **named)  # by its signature, in which the call itself stands
    return replace(made, tool=replace(made.tool, input_schema=DELEGATE["input_schema"], output_schema=None))


def workspace_tools(config: WorkspaceConfig) -> list[Tool]:
    """The definitions of the tools that are switched on, for a catalogue that calls nothing."""
    around, spawner = Environment(), Spawner()
    place = WorkspacePlace(around.cwd, spawner, Isolator(spawner, around.env, IsolationConfig(), VERSION))
    return [*WorkspaceSource(config, place, Backend(Config(), around)).listing.tools]
