"""The bounds around servers that run here: what the configuration asks for, as far as it is proven, or no start."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from toolcrib.config.model import ServerConfig
from toolcrib.config.sections import IsolationConfig
from toolcrib.core.errors import SourceUnavailable
from toolcrib.core.kinds import IsolationLevel
from toolcrib.isolate.levels import IsolationWanted, ResourceLimits
from toolcrib.isolate.plan import Host, confine
from toolcrib.transports.process.spawn import Spawner
from toolcrib.transports.process.spec import ProcessSpec

if TYPE_CHECKING:
    from toolcrib.isolate.proof import Prover

UNTESTED = "limits, untested"
"""What servers get that ask for nothing: the limits are set, but no self-test was run for their sake."""


class Isolator:
    """Puts bounds around what is started; the self-test runs when the first server asks for more than the default."""

    def __init__(self, spawner: Spawner, env: Mapping[str, str], settings: IsolationConfig, version: str) -> None:
        self._spawner, self._env, self._settings, self._version = spawner, env, settings, version

    @cached_property
    def host(self) -> Host:
        """This machine."""
        return Host.here(self._env)

    @cached_property
    def prover(self) -> "Prover":
        """Who knows what is proven on it."""
        from toolcrib.isolate.proof import Prover, state_path  # its self-test brings ctypes: 8 ms of every start

        return Prover(self._spawner, self.host, state_path(self._env), self._version)

    async def around(self, spec: ProcessSpec, server: ServerConfig) -> ProcessSpec:
        """The server's process within its bounds; raises ``SourceUnavailable`` if they cannot be had here."""
        wish = self._wish(server)
        if not self._needs_proof(server):
            return replace(confine(spec, wish, self.host), isolation=UNTESTED)
        bounded = confine(spec, wish.at(await self.prover.settle(wish)), self.host)
        return replace(bounded, env={**bounded.env, **server.env})  # what was written for it counts most, HOME included

    async def level_of(self, server: ServerConfig) -> IsolationLevel:
        """What the server runs at if it runs at all."""
        if not self._needs_proof(server):
            return IsolationLevel.NONE
        try:
            return await self.prover.settle(self._wish(server))
        except SourceUnavailable:
            return IsolationLevel.NONE

    def _needs_proof(self, server: ServerConfig) -> bool:
        """The default costs no self-test, unless somebody relies on it."""
        is_default = not server.isolation and self._settings.level == IsolationLevel.LIMITS
        return not is_default or bool(self._settings.minimum)

    def _wish(self, server: ServerConfig) -> IsolationWanted:
        limits = ResourceLimits(processes=server.processes)
        if server.memory_bytes is not None:
            limits = replace(limits, memory_bytes=server.memory_bytes)
        return IsolationWanted(
            level=server.isolation or self._settings.level,
            read=tuple(from_file(path, server) for path in server.read),
            write=tuple(from_file(path, server) for path in server.write),
            network=server.network,
            loopback=server.loopback,
            limits=limits,
        )


def from_file(path: str, server: ServerConfig) -> str:
    """A path of the configuration; a relative one is seen from the file it stands in."""
    return path if Path(path).is_absolute() or not server.origin else str(Path(server.origin).parent / path)
