"""Where native tools run: threads for sync functions, workers for isolated ones."""

import asyncio
import contextvars
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from toolcrib.core.requests import PROGRESS, BackChannel, CallProgress, Request, RequestContext


class _Reporter:
    """The way of one call's progress, from whatever thread its function runs in; nobody hears of it afterwards."""

    def __init__(self, channel: BackChannel, context: RequestContext | None) -> None:
        self._context = context
        self._notify, self._loop, self._thread = channel.notify, asyncio.get_running_loop(), threading.get_ident()
        self.is_over = False

    def tell(self, params: bytes) -> None:
        if threading.get_ident() == self._thread:
            self._pass_on(params)
        else:
            with suppress(RuntimeError):  # the loop is closed: nobody listens any more
                self._loop.call_soon_threadsafe(self._pass_on, params)

    def _pass_on(self, params: bytes) -> None:
        if not self.is_over:
            if self._context is not None:
                self._context.progressed_at = self._loop.time()
            self._notify(PROGRESS, params)


_REPORTER: contextvars.ContextVar[_Reporter | None] = contextvars.ContextVar("toolcrib-progress", default=None)


def report_progress(progress: float, total: float | None = None, message: str = "") -> None:
    """Inside a native tool, tell the caller how far it is; without a caller who wants to know, nothing happens."""
    reporter = _REPORTER.get()
    if reporter is not None:
        reporter.tell(msgspec.json.encode(CallProgress(progress, total, message)))


@contextmanager
def reporting(channel: BackChannel, context: RequestContext | None = None) -> Iterator[None]:
    """Let ``report_progress`` tell this channel, and note in ``context`` that it did; within a silent call made by a
    tool, nobody."""
    reporter = _Reporter(channel, context) if channel.wants_progress else None
    token = _REPORTER.set(reporter)
    try:
        yield
    finally:
        _REPORTER.reset(token)
        if reporter is not None:
            reporter.is_over = True


def has_listener(channel: BackChannel) -> bool:
    """Whether ``reporting`` would change anything; most calls have nobody who listens."""
    return channel.wants_progress or _REPORTER.get() is not None


THREADS_MAX = 64


class ToolThreads:
    """Runs functions beside the event loop. A thread whose caller gave up is abandoned: it no longer counts, and being
    a daemon it ends with the program at the latest."""

    def __init__(self, on_abandoned: Callable[[Request], None]) -> None:
        self._places = asyncio.Semaphore(THREADS_MAX)
        self._on_abandoned = on_abandoned

    async def run(self, function: Callable[[], Any], call: Request) -> Any:
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
                    call.context.runs_on = True
                    self._on_abandoned(call)
                raise
            finally:
                call.context.cpu_s += work.cpu_s


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
        self.is_done, self.cpu_s = False, 0.0

    def run(self) -> None:
        try:
            value, error = self._context.run(self._function), None
        except BaseException as raised:  # carried over to the caller, whatever it is
            value, error = None, raised
        self.is_done, self.cpu_s = True, time.thread_time()  # it is a thread of its own: all of it went into this
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._settle, value, error)

    def _settle(self, value: Any, error: BaseException | None) -> None:
        if self._future.done():
            return
        if error is not None:
            self._future.set_exception(error)
        else:
            self._future.set_result(value)
