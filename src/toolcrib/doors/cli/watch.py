"""Configuration files that change while toolcrib serves: a good edit is applied, a broken one keeps what runs."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from toolcrib.config.exposing import ExposeConfig
from toolcrib.config.model import Config
from toolcrib.config.security import SecurityConfig
from toolcrib.core.errors import StoreUnavailable, ToolcribError
from toolcrib.core.events import Emit, Event
from toolcrib.project import Project

POLL_S = 2.0
SETTLE_S = 0.2

Stamp = tuple[tuple[str, int, int, int], ...]


class Watch:
    """Looks at the files a project is read from."""

    def __init__(self, project: Project, emit: Emit) -> None:
        self._project, self._emit = project, emit
        self._seen: Stamp | None = None
        self._kept: object = None

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await asyncio.sleep(POLL_S)
            await self._take_over_pins()
            if self._stamp() != self._seen:
                await asyncio.sleep(SETTLE_S)  # an editor may be in the middle of replacing the file
                await self._reload()

    async def _take_over_pins(self) -> None:
        """What ``toolcrib approve`` accepted in another process stands in the lock."""
        ledger = self._project.crib.ledger
        with suppress(StoreUnavailable):  # looked at again when it is back
            if ledger is not None and (stamp := await ledger.stamp()) != self._kept:
                await self._project.crib.servers.fresh.reload_pins()
                self._kept = stamp

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
    return replace(config, servers={}, security=SecurityConfig(), expose=ExposeConfig(), profiles={})
