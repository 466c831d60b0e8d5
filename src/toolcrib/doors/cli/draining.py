"""The end of a replica that nobody is to notice: it says so first, and goes on until everybody has heard."""

import asyncio
import signal

from toolcrib.config.model import Config
from toolcrib.core.events import Emit, Event
from toolcrib.transports.http_server import HttpServer

AMONG_OTHERS_S = 10.0
"""How long requests are still answered where there are other replicas: balancers look every few seconds."""


def drain_s(config: Config, sign: int, *, has_fleet: bool) -> float:
    """How long to go on after a signal; whoever presses Ctrl-C does not want to wait."""
    if sign != signal.SIGTERM:
        return 0.0
    if config.drain_s is not None:
        return config.drain_s
    return AMONG_OTHERS_S if has_fleet else 0.0


class Draining:
    """Whether this replica is about to stop."""

    server: HttpServer

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self.is_on = False

    async def run(self, seconds: float) -> None:
        """Say that it is not ready any more, and answer for a while whoever has not heard yet."""
        self.is_on = True
        if seconds <= 0:
            return
        self.server.wind_down()
        self._emit(Event("serve.draining", "info", {"seconds": seconds}))
        await asyncio.sleep(seconds)
