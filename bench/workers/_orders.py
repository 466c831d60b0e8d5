"""Takes the load generator's orders on stdin and times a client library inside its own process."""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol


class Library(Protocol):
    async def open(self) -> None: ...
    async def list_tools(self) -> list[str]: ...
    async def call(self, tool: str, message: str) -> str: ...


async def obey(library: Library) -> None:
    """Serve orders until stdin ends."""
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        order = json.loads(line)
        work = ORDERS[order.pop("do")]
        try:
            reply = await work(library, **order)
        except Exception as error:  # whatever the library raises is the answer to the order
            reply = {"error": repr(error)[:500]}
        print("@@" + json.dumps(reply), flush=True)


async def _open(library: Library) -> dict[str, Any]:
    await library.open()
    return {}


async def _list(library: Library) -> dict[str, Any]:
    return {"names": await library.list_tools()}


async def _call(library: Library, tool: str, message: str) -> dict[str, Any]:
    return {"text": await library.call(tool, message)}


async def _calls(library: Library, tool: str, count: int, callers: int, message: str) -> dict[str, Any]:
    """``count`` calls, ``callers`` at a time, each with a text of its own that must come back."""
    numbers = iter(range(count))
    latencies_ns: list[int] = []
    failures: list[str] = []

    async def caller() -> None:
        for number in numbers:
            text = f"{number} {message}"
            began = time.perf_counter_ns()
            answer = await library.call(tool, text)
            latencies_ns.append(time.perf_counter_ns() - began)
            if answer != text:
                failures.append(f"sent {text!r}, got {answer!r}")

    began = time.perf_counter_ns()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return {"latencies_ns": latencies_ns, "wall_ns": time.perf_counter_ns() - began, "failures": failures}


ORDERS: dict[str, Callable[..., Awaitable[dict[str, Any]]]] = {
    "open": _open,
    "list": _list,
    "call": _call,
    "calls": _calls,
}
