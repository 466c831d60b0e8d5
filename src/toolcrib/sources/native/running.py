"""Where native tools run: threads for sync functions, workers for isolated ones."""

import asyncio
import contextvars
import importlib
import inspect
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from toolcrib.core.call import PROGRESS, BackChannel, CallProgress, ToolCall, ToolResult
from toolcrib.core.errors import DefinitionError, InvalidArguments, SourceUnavailable, ToolcribError, ToolFailed
from toolcrib.core.kinds import AUTO, IsolationChoice, IsolationLevel
from toolcrib.isolate.levels import WORKER_LIMITS, IsolationWanted

if TYPE_CHECKING:
    from toolcrib.isolate.worker import Workers
    from toolcrib.sources.native.functions import NativeTool, NativeToolOptions


RunIsolated = Callable[["NativeTool", ToolCall], Awaitable[ToolResult]]
_TARGET = f"{__name__}:perform"
_ERRORS: Mapping[str, type[ToolcribError]] = {
    "TOOL_INVALID_INPUT": InvalidArguments,
    "TOOL_UNAVAILABLE": SourceUnavailable,
}


def isolation_wish(function: Callable[..., Any], name: str, options: "NativeToolOptions") -> IsolationWanted | None:
    """What an author asks for with ``isolated``, ``isolation`` and the grants; ``None`` if nothing."""
    wanted = options.isolation or (IsolationLevel.CONFINED if options.isolated else IsolationLevel.NONE)
    known: tuple[IsolationChoice, ...] = (*IsolationLevel, AUTO)
    if wanted not in known:
        raise DefinitionError(name, "isolation", f"{wanted!r} is not one of {', '.join(known)}.")
    level = known[known.index(wanted)]
    if level is IsolationLevel.NONE:
        return None
    _check_importable(function, name)
    limits = replace(WORKER_LIMITS, memory_bytes=options.memory_bytes or WORKER_LIMITS.memory_bytes)
    read, write = _paths(options.read), _paths(options.write)
    return IsolationWanted(level, read, write, options.network, tuple(options.loopback), limits)


async def refuse_isolated(entry: "NativeTool", call: ToolCall) -> ToolResult:  # noqa: ARG001
    """What a source does that was given no workers: rather nothing than run it here."""
    raise SourceUnavailable(f"{call.name} must run isolated, but there is nobody to do that.", hint="Use open_crib.")


def _paths(paths: Sequence[Any]) -> tuple[str, ...]:
    return tuple(str(path) for path in paths)


def _check_importable(function: Callable[..., Any], name: str) -> None:
    """Its worker finds a function by its name in its module, as anybody else would."""
    module, qualname = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
    if module == "__main__":
        reason = "a worker cannot import what is defined in the program itself (__main__)."
    elif not qualname.isidentifier() or inspect.ismethod(function):
        reason = (
            f"a worker cannot import {qualname or type(function).__name__!r}, which is not at the top of its module."
        )
    elif _takes_call(function):
        reason = "a worker cannot be given the ToolCall, which belongs to this process."
    else:
        return
    raise DefinitionError(name, "isolation", reason, hint="Use a plain function of a module, or drop isolated.")


def _takes_call(function: Callable[..., Any]) -> bool:
    annotations = getattr(function, "__annotations__", {})
    return any(each is ToolCall or each == ToolCall.__name__ for each in annotations.values())


def in_workers(workers: "Workers") -> RunIsolated:
    """What a source of native tools does with an isolated one."""
    from toolcrib.isolate.worker import Task, module_places

    async def run(entry: "NativeTool", call: ToolCall) -> ToolResult:
        assert entry.isolation is not None
        module, function = entry.function.__module__, entry.function.__qualname__
        given = {"module": module, "function": function, "name": call.name, "arguments": call.arguments}
        places = (*module_places(module), *module_places(__name__))
        answer = await workers.run(Task(call.name, _TARGET, given, places), entry.isolation)
        return _read_answer(call.name, answer)

    return run


def _read_answer(name: str, answer: bytes) -> ToolResult:
    try:
        outcome = msgspec.json.decode(answer, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ToolFailed(f"{name} failed: its worker's answer cannot be read: {error}.") from None
    if "error" not in outcome:
        return ToolResult(outcome["result"], value=outcome["data"])
    told = outcome["error"]
    raise _ERRORS.get(told["code"], ToolFailed)(told["message"], hint=told["hint"])


def perform(given: Mapping[str, Any]) -> bytes:
    """In the worker: run the tool as the source would have done, and encode what came of it."""
    from toolcrib.sources.native.functions import NativeSource, native_tool

    try:
        function = getattr(importlib.import_module(given["module"]), given["function"])
        source = NativeSource([replace(native_tool(function), isolation=None)])
        (name,) = (shown.name for shown in source.listing.tools)
        result = asyncio.run(source.call_tool(ToolCall(given["name"], name, dict(given["arguments"]))))
        return msgspec.json.encode({"result": result.mcp, "data": result.json_data})
    except ToolcribError as error:
        told = {"code": error.code, "message": error.message, "hint": error.hint}
        return msgspec.json.encode({"error": told})
    except (ImportError, AttributeError) as error:
        message = f"{given['name']} failed: its worker cannot import it: {error}."
        hint = "Grant what it imports with read=[…], and keep it at the top of its module."
        return msgspec.json.encode({"error": {"code": ToolFailed.code, "message": message, "hint": hint}})


class _Reporter:
    """The way of one call's progress, from whatever thread its function runs in; nobody hears of it afterwards."""

    def __init__(self, channel: BackChannel) -> None:
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
            self._notify(PROGRESS, params)


_REPORTER: contextvars.ContextVar[_Reporter | None] = contextvars.ContextVar("toolcrib-progress", default=None)


def report_progress(progress: float, total: float | None = None, message: str = "") -> None:
    """Inside a native tool, tell the caller how far it is; without a caller who wants to know, nothing happens."""
    reporter = _REPORTER.get()
    if reporter is not None:
        reporter.tell(msgspec.json.encode(CallProgress(progress, total, message)))


@contextmanager
def reporting(channel: BackChannel) -> Iterator[None]:
    """Let ``report_progress`` tell this channel; within a silent call made by a tool, nobody."""
    reporter = _Reporter(channel) if channel.wants_progress else None
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
