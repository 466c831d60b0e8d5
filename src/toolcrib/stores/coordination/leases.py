"""Leases that are kept while they are held."""

import asyncio

from toolcrib.core.errors import CoordinationUnavailable
from toolcrib.core.tasks import TaskScope
from toolcrib.stores.coordination.engine import Engine

RENEWALS = 3
"""How often a lease is renewed in the time it lasts."""


class KeptLease:
    """One lease; it is renewed until it is let go, or turns out to be somebody else's."""

    def __init__(self, engine: Engine, name: str, token: str, for_s: float) -> None:
        self.is_held = True
        self._engine, self._name, self._token, self._for_s = engine, name, token, for_s
        self._renewal: asyncio.Task[None] | None = None

    def keep(self, scope: TaskScope) -> None:
        """Renew it from now on."""
        self._renewal = scope.spawn(self._renew(), f"keeping {self._name}")

    async def _renew(self) -> None:
        while self.is_held:
            await asyncio.sleep(self._for_s / RENEWALS)
            try:
                self.is_held = await self._engine.lease(self._name, self._token, self._for_s)
            except CoordinationUnavailable:
                continue

    async def release(self) -> None:
        """Let another one do it; while the engine is away, it ends by itself."""
        if self._renewal is not None:
            self._renewal.cancel()
        self.is_held = False
        try:
            await self._engine.end_lease(self._name, self._token)
        except CoordinationUnavailable:
            return
