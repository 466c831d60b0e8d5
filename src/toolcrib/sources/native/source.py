"""The source of native tools: runs functions here, in threads, or isolated in workers."""

import asyncio
import errno
import functools
import importlib
import inspect
import re
import resource
import sys
import time
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
from toolcrib.core.offers import Tool, to_mcp
from toolcrib.core.requests import Request, Result, told_of
from toolcrib.core.source import Listing
from toolcrib.isolate.worker import Task, Workers, module_places
from toolcrib.sources.native.functions import Function, NativeTool, native_tool, to_result
from toolcrib.sources.native.running import ToolThreads, has_listener, reporting

CAPACITY = 10_000
HEALTH_CHECK_S = 5.0
"""How long a tool's own health check may take."""
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
        memory: int = 0,
        run_isolated: RunIsolated = refuse_isolated,
    ) -> None:
        self._tools: dict[str, NativeTool] = {}
        self._versions: dict[str, dict[str, NativeTool]] = {}
        """By the plain name, each version of a tool; ``_tools`` has them under the names they are called by."""
        self._capacity, self._memory = capacity, memory
        self._run_isolated = run_isolated
        self._emit = emit
        self._listeners: list[Callable[[], None]] = []
        self._threads = ToolThreads(self._abandoned)
        for function in functions:
            self.register(function)

    def register(self, function: Function | NativeTool) -> Tool:
        """Add a tool; the same version is replaced with a warning, another one stands beside: the newest has the plain
        name, and each of the others is called ``name@version``."""
        entry = native_tool(function)
        name, version = entry.tool.name, entry.tool.version
        versions = self._versions.get(name, {})
        previous = versions.get(version)
        self._check_room(entry.tool, previous)
        if previous is not None and not _is_same_function(previous, entry):
            self._emit(Event("tools.registry.replaced", "warning", {"tool": name}))
        self._versions[name] = versions = {**versions, version: entry}
        if (newest := max(versions, key=version_key)) != version:
            fields = {"tool": name, "version": version, "default": newest}
            self._emit(Event("tools.registry.older", "warning", fields))
        self._arrange(name)
        return entry.tool

    def _check_room(self, tool: Tool, previous: NativeTool | None) -> None:
        if previous is None and len(self._tools) >= self._capacity:
            reason = f"there are {len(self._tools)} tools already, and no more than {self._capacity} may be registered."
            raise DefinitionError(tool.name, "capacity", reason, hint="Unregister some, or raise [catalog] capacity.")
        if self._memory:
            others = [entry.tool for entry in self._tools.values() if entry is not previous]
            taken = sum(len(msgspec.json.encode(to_mcp(each), enc_hook=str)) for each in (*others, tool))
            if taken > self._memory:
                reason = f"with it the definitions take {taken} bytes, and no more than {self._memory} may be taken."
                raise DefinitionError(tool.name, "memory", reason, hint="Shorten them, or raise [catalog] memory.")

    def _arrange(self, name: str) -> None:
        """Give the newest version the plain name, and each other one its own."""
        for taken in [each for each in self._tools if each.partition("@")[0] == name]:
            del self._tools[taken]
        versions = self._versions.get(name, {})
        for version in sorted(versions, key=version_key, reverse=True):
            entry, shown = versions[version], f"{name}@{version}" if name in self._tools else name
            self._tools[shown] = entry if shown == name else replace(entry, tool=replace(entry.tool, name=shown))
        self._changed()

    def unregister(self, name: str) -> bool:
        """Remove a tool with all its versions, or one version by ``name@version``; whether there was one."""
        plain, _, version = name.partition("@")
        versions = self._versions.pop(plain, {})
        left = {each: entry for each, entry in versions.items() if version and each != version}
        if left:
            self._versions[plain] = left
        if len(left) == len(versions):
            return False
        self._arrange(plain)
        return True

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
            self._emit(Event("call.raised", "error", {**told_of(call), "error": repr(error)}))
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
        self._emit(Event("tool.thread.abandoned", "warning", told_of(call)))

    async def ailing(self) -> dict[str, str]:
        """The tools whose own health check fails, and why; all are asked at once."""
        checks = {name: entry.health_check for name, entry in self._tools.items()}
        asked = {name: check_health(check) for name, check in checks.items() if check is not None}
        found = await asyncio.gather(*asked.values())
        return {name: why for name, why in zip(asked, found, strict=True) if why}

    async def close(self) -> None:
        """Nothing to let go of: threads end with what they run, or with the program."""


async def check_health(check: Callable[[], Any]) -> str:
    """Why a tool says that it cannot do its work; empty if it can."""
    try:
        async with asyncio.timeout(HEALTH_CHECK_S):
            found = await (check() if inspect.iscoroutinefunction(check) else asyncio.to_thread(check))
    except TimeoutError:
        return f"Its health check did not end within {HEALTH_CHECK_S:g} s."
    except Exception as error:  # the edge of a tool's own code
        return f"Its health check failed: {type(error).__name__}: {error}".removesuffix(": ") + "."
    if isinstance(found, str):
        return found
    return "Its health check says that it cannot work." if found is False else ""


def _is_same_function(one: NativeTool, other: NativeTool) -> bool:
    """Whether it is the same one, if only as it was before its module was imported anew."""
    places = [(each.function.__module__, getattr(each.function, "__qualname__", "")) for each in (one, other)]
    is_named = places[0][1].isidentifier() and places[0][0] != "__main__"
    return one.function is other.function or (is_named and places[0] == places[1])


def version_key(version: str) -> tuple[tuple[int, ...], bool, str]:
    """What versions are compared by: their numbers, then whether it is a release and no preview, then the rest."""
    numbers = re.match(r"\D{0,1}(\d+(?:\.\d+)*)", version)
    found = numbers[1] if numbers else ""
    rest = version[numbers.end() :] if numbers else version
    release = tuple(int(part[:18]) for part in found.split(".") if part)
    while release and release[-1] == 0:
        release = release[:-1]
    return release, not rest or rest.startswith("+"), rest


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
    if is_network_trouble(error):
        return SourceUnavailable(f"{name}: the service behind this tool is unavailable ({cause}). Try again later.")
    return ToolFailed(f"{name} failed: {type(error).__name__}: {error}".removesuffix(": "))


_NETWORK_ERRNOS = frozenset(
    getattr(errno, name)
    for name in ("ENETDOWN", "ENETUNREACH", "ENETRESET", "EHOSTDOWN", "EHOSTUNREACH", "ETIMEDOUT", "EADDRNOTAVAIL")
    if hasattr(errno, name)
)
_NETWORK_ERRORS = frozenset(
    {
        "socket.gaierror",
        "socket.herror",
        "ssl.SSLError",
        "http.client.IncompleteRead",
        "http.client.RemoteDisconnected",
        "requests.exceptions.ConnectionError",
        "requests.exceptions.Timeout",
        "requests.exceptions.ChunkedEncodingError",
        "urllib3.exceptions.TimeoutError",
        "urllib3.exceptions.MaxRetryError",
        "urllib3.exceptions.ProtocolError",
        "httpx.TransportError",
        "httpcore.NetworkError",
        "httpcore.TimeoutException",
        "httpcore.ProtocolError",
        "aiohttp.client_exceptions.ClientConnectionError",
        "aiohttp.client_exceptions.ServerTimeoutError",
        "aiohttp.client_exceptions.ClientPayloadError",
    }
)
"""Errors of the usual libraries, by name: none is imported to recognise what it raises."""
_PASSING_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})


def is_network_trouble(error: BaseException) -> bool:
    """Whether what a tool raised says that a service cannot be reached now, rather than that the tool is wrong."""
    if isinstance(error, ConnectionError | TimeoutError):
        return True
    kinds = {f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__}
    if not kinds.isdisjoint(_NETWORK_ERRORS) or (isinstance(error, OSError) and error.errno in _NETWORK_ERRNOS):
        return True
    response = getattr(error, "response", None)  # requests and httpx; urllib has it in the error itself
    status = getattr(error if response is None else response, "status_code", getattr(error, "code", None))
    if not kinds.isdisjoint(_STATUS_ERRORS):
        return status in _PASSING_STATUSES
    reason = getattr(error, "reason", None)
    return "urllib.error.URLError" in kinds and (not isinstance(reason, OSError) or is_network_trouble(reason))


_STATUS_ERRORS = frozenset({"urllib.error.HTTPError", "requests.exceptions.HTTPError", "httpx.HTTPStatusError"})


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
        return _read_answer(call, answer)

    return run


def _read_answer(call: Request, answer: bytes) -> Result:
    name = call.name
    try:
        outcome = msgspec.json.decode(answer, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ToolFailed(f"{name} failed: its worker's answer cannot be read: {error}.") from None
    call.context.cpu_s += outcome.get("cpu_s", 0.0)
    call.context.memory_bytes = outcome.get("memory", 0)
    if "error" not in outcome:
        return Result(outcome["result"], value=outcome["data"])
    told = outcome["error"]
    raise _ERRORS.get(told["code"], ToolFailed)(told["message"], hint=told["hint"])


def peak_memory() -> int:
    """The most memory this process had, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def perform(given: Mapping[str, Any]) -> bytes:
    """In the worker: run the tool as the source would have done, and encode what came of it."""
    began = time.process_time()
    try:
        function = getattr(importlib.import_module(given["module"]), given["function"])
        source = NativeSource([replace(native_tool(function), isolation=None)])
        (name,) = (shown.name for shown in source.listing.tools)
        result = asyncio.run(source.answer(Request(given["name"], name, dict(given["arguments"]))))
        used = {"cpu_s": time.process_time() - began, "memory": peak_memory()}
        return msgspec.json.encode({"result": result.mcp, "data": result.json_data, **used})
    except ToolcribError as error:
        told = {"code": error.code, "message": error.message, "hint": error.hint}
        return msgspec.json.encode({"error": told})
    except (ImportError, AttributeError) as error:
        message = f"{given['name']} failed: its worker cannot import it: {error}."
        hint = "Grant what it imports with read=[…], and keep it at the top of its module."
        return msgspec.json.encode({"error": {"code": ToolFailed.code, "message": message, "hint": hint}})
