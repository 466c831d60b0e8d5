"""Stdout as a stdio door uses it: never waits while serving, and does not close before all is out."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import cast

STALLED_S = 10.0
"""How long a client may read nothing of what is left for it when the door closes."""


class Outlet(asyncio.BaseProtocol):
    """The writing end; ``on_relief`` is called when a client that was behind has caught up."""

    def __init__(self, on_relief: Callable[[], None]) -> None:
        self._on_relief = on_relief
        self._transport: asyncio.WriteTransport | None = None
        self._gone = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the pipe."""
        self._transport = cast("asyncio.WriteTransport", transport)

    def resume_writing(self) -> None:
        """The client reads again."""
        self._on_relief()

    def connection_lost(self, exc: Exception | None) -> None:
        """All is out, or nobody is left to read it."""
        del exc
        self._gone.set()

    @property
    def backlog(self) -> int:
        """How many bytes wait for the client to read on."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def send(self, message: bytes) -> None:
        """Write one message as a line."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(message + b"\n")

    async def close(self) -> None:
        """Close once all is out; a client that has stopped reading is not waited for."""
        if self._transport is None:
            return
        self._transport.close()
        left = -1
        while not self._gone.is_set() and self.backlog != left:
            left = self.backlog
            with suppress(TimeoutError):
                await asyncio.wait_for(self._gone.wait(), STALLED_S)
        if not self._gone.is_set():
            self._transport.abort()
