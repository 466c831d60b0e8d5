"""A project: a directory with its configuration, and the Crib that serves it. Edits go into its files, then count."""

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolcrib.config.edit import add_server, change_server, remove_server, set_enabled, set_policy
from toolcrib.config.lock import Record, kept_answers
from toolcrib.config.model import Config, ServerConfig, config_hash
from toolcrib.config.parse import parse
from toolcrib.core.errors import ConfigError, UnknownServer
from toolcrib.core.places import CONFIG_NAME
from toolcrib.core.view import KeptAnswer
from toolcrib.crib.crib import Crib
from toolcrib.crib.layers import audit_place
from toolcrib.crib.loading import Loaded, config_files, load
from toolcrib.crib.window import Profiles
from toolcrib.stores.audit.note import NotedPlace
from toolcrib.stores.files import locked, read_text
from toolcrib.stores.lockfile import write_config
from toolcrib.stores.paths import NEW_FILE, Environment, user_config_path

Edit = Callable[[str], str]


def project_id(directory: Path) -> str:
    """A short name for a directory that stays the same and says nothing of where it is."""
    return hashlib.sha256(str(directory.absolute()).encode()).hexdigest()[:12]


def edit_file(path: Path, change: Edit) -> None:
    """Change a file in one step; nobody else can change it meanwhile."""
    with locked(path):
        text = read_text(path)
        if text is None:
            text = NEW_FILE if path.suffix == ".toml" else ""
        write_config(path, text, change(text))


def project_file(chosen: str | None, around: Environment) -> Path:
    """The file a project is read from, or will be once there is something to write."""
    return config_files(chosen, around).project or around.cwd / CONFIG_NAME


def policy_file(loaded: Loaded, around: Environment) -> Path:
    """Where a policy is written: the project's own toolcrib.toml, otherwise the user's, which always counts."""
    project = loaded.project
    return project if project is not None and project.suffix == ".toml" else user_config_path(around.env)


def file_of(name: str, loaded: Loaded) -> Path:
    """The strongest file that says something of a server."""
    for path in reversed(loaded.server_files):
        if name in parse(read_text(path) or "", str(path)).servers:
            return path
    server = loaded.config.servers.get(name)
    if server is None:
        raise UnknownServer(name, known=list(loaded.config.servers))
    raise ConfigError(
        f"Server {name!r} is not written in a file: it comes from the {server.origin}.", hint="Change that variable."
    )


def project_of(crib: "Crib") -> "Project":
    """The project an open Crib belongs to: that of the files it was made from, or one of its own without any."""
    loaded = crib.loaded
    chosen = str(loaded.project) if loaded.is_chosen and loaded.project is not None else None
    return Project(crib, loaded, chosen, crib.around, prefix=crib.has_prefixes, is_fixed=loaded.user is None)


@dataclass(slots=True)
class Project:
    """The project this process serves."""

    crib: Crib
    loaded: Loaded
    chosen: str | None = None
    """The file that was named on the command line."""
    around: Environment = field(default_factory=Environment)
    flags: Mapping[str, object] = field(default_factory=dict)
    """What the command line says over the files."""
    prefix: bool = True
    """Whether tools are named with their server."""
    is_fixed: bool = False
    """Whether a program made it, so that there is no file to change."""
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)
    _windows: Profiles | None = field(default=None, repr=False)

    @property
    def windows(self) -> Profiles:
        """What its clients are shown; follows the configuration."""
        if self._windows is None:
            self._windows = Profiles(self.crib, self.config)
        return self._windows

    @property
    def file(self) -> Path:
        """Where new servers are written."""
        return project_file(self.chosen, self.around)

    @property
    def directory(self) -> Path:
        """Where it is; a project without a file of its own is the working directory."""
        return self.loaded.project.parent if self.loaded.project else self.around.cwd

    @property
    def policy_file(self) -> Path:
        """Where policies are written: the project's own toolcrib.toml, otherwise the user's."""
        return policy_file(self.loaded, self.around)

    @property
    def id(self) -> str:
        """Its name in addresses."""
        return project_id(self.directory)

    @property
    def config(self) -> Config:
        """What counts right now."""
        return self.loaded.config

    @property
    def audit_log(self) -> NotedPlace:
        """Where the audit log is, whether it is switched on or not."""
        return audit_place(self.config, self.around)

    async def answers(self) -> list[KeptAnswer]:
        """What people answered once and for all."""
        ledger = self.crib.ledger
        return [] if ledger is None else kept_answers(await ledger.lock())

    async def forget_answer(self, tool: str, caller: str) -> bool:
        """Have a person asked again; whether there was an answer."""
        ledger = self.crib.ledger
        return ledger is not None and bool(await ledger.forget(tool, [caller]))

    def paths(self) -> list[Path]:
        """The files whose edits concern it, weakest first; not all of them need exist."""
        return [*dict.fromkeys((user_config_path(self.around.env), self.file))]

    async def reload(self) -> list[str]:
        """Make what the files say now count; the names of the servers that changed."""
        async with self._turn:
            loaded = load(self.chosen, self.around, self.flags)
            changed = await self.crib.servers.apply(loaded.config.servers, loaded.config.security)
            if loaded.config.native != self.config.native:
                await self.crib.modules.follow(loaded.config.native)
            self.loaded = loaded
            self.windows.apply(loaded.config)
        return changed

    async def add(self, server: ServerConfig, *, user: bool = False) -> Record | None:
        """Write a server down and, unless it is off, ask it for its tools; it stays whether that works or not."""
        if server.name in self.config.servers:
            raise ConfigError(f"There is already a server {server.name!r}.", hint="Change it, or choose another name.")
        path = user_config_path(self.around.env) if user else self.file
        await self.edit(path, lambda text: add_server(text, server, str(path)))
        return await self.discover(server.name) if server.enabled else None

    async def discover(self, name: str) -> Record:
        """Ask a server for its tools now; a failure is in the record."""
        return (await self.crib.refresh(name))[name]

    def home_of(self, name: str) -> Path:
        """The file a server is written in; one that was found elsewhere has none."""
        if name in self.crib.shelves and name not in self.config.servers:
            hint = "Write a server of that name to replace it, or leave it out with `servers` in [platform]."
            raise ConfigError(f"Server {name!r} is not written in a file: it comes from the platform.", hint=hint)
        return file_of(name, self.loaded)

    async def change(self, name: str, changes: Mapping[str, Any]) -> Record | None:
        """Change keys of a server in its file; if that makes it another one, ask it anew: what came of that."""
        before, path = self.config.servers.get(name), self.home_of(name)
        await self.edit(path, lambda text: change_server(text, name, changes, str(path)))
        after = self.config.servers.get(name)
        if before is None or after is None or not after.enabled or config_hash(before) == config_hash(after):
            return None
        return await self.discover(name)

    async def remove(self, name: str) -> None:
        """Take a server out of its file."""
        path = self.home_of(name)
        await self.edit(path, lambda text: remove_server(text, name, str(path)))

    async def set_enabled(self, name: str, enabled: bool) -> None:
        """Switch a server on or off."""
        path = self.home_of(name)
        await self.edit(path, lambda text: set_enabled(text, name, enabled, str(path)))

    async def set_policy(self, policy: str, *patterns: str) -> None:
        """Say what may be called; for several tools the file is written once."""
        path = self.policy_file

        def change(text: str) -> str:
            for pattern in patterns:
                text = set_policy(text, self._as_written(pattern, path), policy, str(path))
            return text

        await self.edit(path, change)

    def _as_written(self, pattern: str, path: Path) -> str:
        server = self.config.servers.get(pattern)
        return pattern if server is None or server.origin == str(path) else f"{pattern}__*"

    async def edit(self, path: Path, change: Edit) -> None:
        """Change a file and make the change count."""
        if self.is_fixed:
            raise ConfigError("What is served here was set up by a program, not by files.", hint="Change the program.")
        await asyncio.to_thread(edit_file, path, change)
        await self.reload()
        if self.crib.fleet is not None:
            self.crib.fleet.tell_config()
