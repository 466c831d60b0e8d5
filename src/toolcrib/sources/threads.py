"""Threads for sync tools: as many as are being waited for, and none that keeps the program from ending."""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from toolcrib.core.call import ToolCall

THREADS_MAX = 64


class ToolThreads:
    """Runs functions beside the event loop. A thread whose caller gave up is abandoned: it no longer counts, and being
    a daemon it ends with the program at the latest."""

    def __init__(self, on_abandoned: Callable[[ToolCall], None]) -> None:
        self._places = asyncio.Semaphore(THREADS_MAX)
        self._on_abandoned = on_abandoned

    async def run(self, function: Callable[[], Any], call: ToolCall) -> Any:
        """What ``function`` returns or raises, in the context of the caller."""
        async with self._places:
            loop = asyncio.get_running_loop()
            future: asyncio.Future[Any] = loop.create_future()
            work = _Work(function, contextvars.copy_context(), loop, future)
            threading.Thread(target=work.run, name="toolcrib-tool", daemon=True).start()
            try:
                return await future
            except asyncio.CancelledError:
                if not work.is_done:
                    self._on_abandoned(call)
                raise


class _Work:
    """One function on its way through a thread."""

    def __init__(
        self,
        function: Callable[[], Any],
        context: contextvars.Context,
        loop: asyncio.AbstractEventLoop,
        future: "asyncio.Future[Any]",
    ) -> None:
        self._function, self._context, self._loop, self._future = function, context, loop, future
        self.is_done = False

    def run(self) -> None:
        try:
            value, error = self._context.run(self._function), None
        except BaseException as raised:  # carried over to the caller, whatever it is
            value, error = None, raised
        self.is_done = True
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._settle, value, error)

    def _settle(self, value: Any, error: BaseException | None) -> None:
        if self._future.done():
            return
        if error is not None:
            self._future.set_exception(error)
        else:
            self._future.set_result(value)
