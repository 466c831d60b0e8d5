"""The source of native tools: runs functions here, in threads, or isolated in workers."""

import asyncio
import functools
import importlib
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from toolcrib.core.errors import (
    CallCancelled,
    DefinitionError,
    InvalidArguments,
    SourceError,
    SourceUnavailable,
    ToolcribError,
    ToolFailed,
    UnknownTool,
)
from toolcrib.core.events import Emit, Event, drop
from toolcrib.core.offers import Tool
from toolcrib.core.requests import Request, Result
from toolcrib.core.source import Listing
from toolcrib.isolate.worker import Task, Workers, module_places
from toolcrib.sources.native.functions import Function, NativeTool, native_tool, to_result
from toolcrib.sources.native.running import ToolThreads, has_listener, reporting

CAPACITY = 10_000
RunIsolated = Callable[[NativeTool, Request], Awaitable[Result]]

_TARGET = f"{__name__}:perform"

_ERRORS: Mapping[str, type[ToolcribError]] = {
    "TOOL_INVALID_INPUT": InvalidArguments,
    "TOOL_UNAVAILABLE": SourceUnavailable,
}


async def refuse_isolated(entry: NativeTool, call: Request) -> Result:  # noqa: ARG001
    """What a source does that was given no workers: rather nothing than run it here."""
    raise SourceUnavailable(f"{call.name} must run isolated, but there is nobody to do that.", hint="Use open_crib.")


class NativeSource:
    """The functions registered in this process, each version of each tool under its name."""

    name = ""

    def __init__(
        self,
        functions: Sequence[Function | NativeTool] = (),
        *,
        emit: Emit = drop,
        capacity: int = CAPACITY,
        run_isolated: RunIsolated = refuse_isolated,
    ) -> None:
        self._tools: dict[str, NativeTool] = {}
        self._capacity = capacity
        self._run_isolated = run_isolated
        self._emit = emit
        self._listeners: list[Callable[[], None]] = []
        self._threads = ToolThreads(self._abandoned)
        for function in functions:
            self.register(function)

    def register(self, function: Function | NativeTool) -> Tool:
        """Add a tool; a taken name is replaced with a warning, another version of it stands beside."""
        entry = native_tool(function)
        previous = self._tools.get(entry.tool.name)
        self._check_room(entry.tool, previous)
        if previous is not None and previous.tool.version != entry.tool.version:
            self._keep_version(previous)
        elif previous is not None and previous.function is not entry.function:
            self._emit(Event("tools.registry.replaced", "warning", {"tool": entry.tool.name}))
        self._tools[entry.tool.name] = entry
        self._changed()
        return entry.tool

    def _check_room(self, tool: Tool, previous: NativeTool | None) -> None:
        is_new = previous is None or previous.tool.version != tool.version
        if is_new and len(self._tools) >= self._capacity:
            reason = f"there are {len(self._tools)} tools already, and no more than {self._capacity} may be registered."
            raise DefinitionError(tool.name, "capacity", reason, hint="Unregister some, or raise [catalog] capacity.")

    def _keep_version(self, entry: NativeTool) -> None:
        """Keep an older version callable as ``name@version``."""
        pinned = f"{entry.tool.name}@{entry.tool.version}"
        self._tools[pinned] = replace(entry, tool=replace(entry.tool, name=pinned))

    def unregister(self, name: str) -> bool:
        """Remove a tool; whether there was one."""
        removed = self._tools.pop(name, None) is not None
        if removed:
            self._changed()
        return removed

    def _changed(self) -> None:
        for listener in self._listeners:
            listener()

    def on_change(self, listener: Callable[[], None]) -> None:
        """Have ``listener`` called whenever a tool comes or goes."""
        self._listeners.append(listener)

    @property
    def listing(self) -> Listing:
        """The tools right now; nothing has to be asked."""
        return Listing(tuple(_shown(entry.tool) for entry in self._tools.values()))

    async def list_offers(self) -> Listing:
        """The tools right now."""
        return self.listing

    async def answer(self, call: Request) -> Result:
        """Run the function; whatever it raises is a failed result, worded for a model."""
        entry = self._tools.get(call.target)
        if entry is None:
            raise UnknownTool(call.target, known=list(self._tools))
        call.context.sent = True
        try:
            run = self._run_reporting if has_listener(call.channel) else self._run
            return to_result(await run(entry, call), structured=entry.tool.output_schema is not None)
        except ToolcribError:
            raise
        except asyncio.CancelledError:
            if _is_being_cancelled():
                raise
            raise CallCancelled(f"{call.name} cancelled itself.") from None
        except (Exception, SystemExit, BaseExceptionGroup) as error:
            self._emit(Event("call.raised", "error", {"tool": call.name, "id": call.id, "error": repr(error)}))
            raise to_failure(call.name, error) from error

    async def _run_reporting(self, entry: NativeTool, call: Request) -> Any:
        with reporting(call.channel, call.context):
            return await self._run(entry, call)

    async def _run(self, entry: NativeTool, call: Request) -> Any:
        if entry.isolation is not None:
            return await self._run_isolated(entry, call)
        function = _bound(entry, call)
        if entry.is_async:
            return await function()
        value = await self._threads.run(functools.partial(_finish, function), call)
        if inspect.isasyncgen(value):
            return [item async for item in value]
        return await value if inspect.isawaitable(value) else value

    def _abandoned(self, call: Request) -> None:
        fields = {"tool": call.name, "id": call.id}
        self._emit(Event("tool.thread.abandoned", "warning", fields))

    async def close(self) -> None:
        """Nothing to let go of: threads end with what they run, or with the program."""


def _finish(function: Callable[[], Any]) -> Any:
    """Run the function to its end, in the thread it was given; a future cannot carry a ``StopIteration``."""
    try:
        value = function()
        return list(value) if inspect.isgenerator(value) else value
    except StopIteration as error:
        raise RuntimeError("StopIteration") from error


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _bound(entry: NativeTool, call: Request) -> Callable[[], Any]:
    if entry.signature is None:
        return functools.partial(entry.function, call.arguments)
    arguments = entry.signature.bind(call.arguments)
    if entry.signature.call_parameter:
        arguments[entry.signature.call_parameter] = call
    return functools.partial(entry.function, **arguments)


def to_failure(name: str, error: BaseException) -> SourceError:
    """What a tool raised, as an error with a code, worded for a model."""
    cause = str(error) or type(error).__name__
    if isinstance(error, ConnectionError | TimeoutError):
        return SourceUnavailable(f"{name}: the service behind this tool is unavailable ({cause}). Try again later.")
    return ToolFailed(f"{name} failed: {type(error).__name__}: {error}".removesuffix(": "))


def _shown(definition: Tool) -> Tool:
    """The definition with its deprecation said where a model reads it."""
    if definition.deprecation is None:
        return definition
    instead = f" Use {definition.deprecation.use_instead} instead." if definition.deprecation.use_instead else ""
    note = f"Deprecated: {definition.deprecation.reason}{instead}"
    return replace(definition, description=f"{definition.description}\n\n{note}".strip())


def in_workers(workers: Workers) -> RunIsolated:
    """What a source of native tools does with an isolated one."""

    async def run(entry: NativeTool, call: Request) -> Result:
        assert entry.isolation is not None
        module, function = entry.function.__module__, entry.function.__qualname__
        given = {"module": module, "function": function, "name": call.name, "arguments": call.arguments}
        places = (*module_places(module), *module_places(__name__))
        answer = await workers.run(Task(call.name, _TARGET, given, places), entry.isolation)
        return _read_answer(call.name, answer)

    return run


def _read_answer(name: str, answer: bytes) -> Result:
    try:
        outcome = msgspec.json.decode(answer, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ToolFailed(f"{name} failed: its worker's answer cannot be read: {error}.") from None
    if "error" not in outcome:
        return Result(outcome["result"], value=outcome["data"])
    told = outcome["error"]
    raise _ERRORS.get(told["code"], ToolFailed)(told["message"], hint=told["hint"])


def perform(given: Mapping[str, Any]) -> bytes:
    """In the worker: run the tool as the source would have done, and encode what came of it."""
    try:
        function = getattr(importlib.import_module(given["module"]), given["function"])
        source = NativeSource([replace(native_tool(function), isolation=None)])
        (name,) = (shown.name for shown in source.listing.tools)
        result = asyncio.run(source.answer(Request(given["name"], name, dict(given["arguments"]))))
        return msgspec.json.encode({"result": result.mcp, "data": result.json_data})
    except ToolcribError as error:
        told = {"code": error.code, "message": error.message, "hint": error.hint}
        return msgspec.json.encode({"error": told})
    except (ImportError, AttributeError) as error:
        message = f"{given['name']} failed: its worker cannot import it: {error}."
        hint = "Grant what it imports with read=[…], and keep it at the top of its module."
        return msgspec.json.encode({"error": {"code": ToolFailed.code, "message": message, "hint": hint}})
