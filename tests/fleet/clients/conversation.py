"""What both SDK clients do the same way: take a list of operations, perform them in order, print JSON.

Standard library only: this module is imported inside the SDK environments, where the project is not installed.

    python sdk2_client.py --mode modern --url http://127.0.0.1:8000/mcp '[{"op": "list"}]'
    python sdk1_client.py --stdio '["toolcrib", "stdio"]' '[{"op": "call", "tool": "a__b", "arguments": {}}]'

Operations: ``list`` every page of tools · ``call`` a tool, with an optional ``timeout_s`` · ``cancel`` a call as soon
as it has reported progress · ``read_on``: call a tool, then read its kept result, each ``part`` where the answer before
says to go on · ``offers``: every page of ``kind`` (resources, templates, prompts) · ``read`` a ``uri`` · ``get`` a
``prompt`` · ``complete`` an ``argument`` of a ``ref`` · ``watch`` a ``uri``: call a tool until it is told of, then call
the tool again · ``log``: the messages of ``level`` and above that a call to a tool makes; then call it again. What the
server refuses is an outcome with ``error``, not a failure of the script.
"""

import argparse
import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

OnProgress = Callable[[float, "float | None", "str | None"], Awaitable[None]]
Json = dict[str, Any]


@dataclass(frozen=True)
class Target:
    """Where the server is: a command to start or a URL, and the protocol era to ask for."""

    argv: tuple[str, ...]
    url: str
    mode: str
    answers: bool = False
    """Whether the client answers what a server asks: with Ann's name, a sample and a root."""


@dataclass(frozen=True)
class Call:
    """One ``tools/call``."""

    tool: str
    arguments: Json
    timeout_s: float


class RefusedError(Exception):
    """The server answered with a JSON-RPC error, or the SDK's own timeout struck."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Session(Protocol):
    """The things asked of an SDK."""

    def about(self) -> Json:
        """Negotiated protocol version and the server's name."""

    async def list_page(self, cursor: str | None) -> tuple[list[Json], str | None]:
        """One page of tools and the cursor of the next."""

    async def call(self, call: Call, on_progress: OnProgress) -> Json:
        """The result as it is on the wire; raises `RefusedError`."""

    async def offers_page(self, kind: str, cursor: str | None) -> tuple[list[Json], str | None]:
        """One page of resources, templates or prompts and the cursor of the next."""

    async def read(self, uri: str) -> Json:
        """What was read; raises `RefusedError`."""

    async def get(self, prompt: str, arguments: dict[str, str]) -> Json:
        """The prompt; raises `RefusedError`."""

    async def complete(self, ref: Json, argument: dict[str, str]) -> Json:
        """The values that would fit; raises `RefusedError`."""

    def watching(self, uri: str) -> "AbstractAsyncContextManager[asyncio.Queue[str]]":
        """The URIs of resources that changed, of those that are watched: this one."""

    def logging(self, level: str) -> "AbstractAsyncContextManager[asyncio.Queue[Json]]":
        """The log messages of this level and above."""


async def list_offers(session: Session, operation: Json) -> Json:
    offers, cursor = await session.offers_page(operation["kind"], None)
    while cursor is not None:
        page, cursor = await session.offers_page(operation["kind"], cursor)
        offers = offers + page
    return {"offers": offers}


async def outcome_of(asking: Awaitable[Json]) -> Json:
    try:
        return {"result": await asking}
    except RefusedError as refused:
        return {"error": {"code": refused.code, "message": str(refused)}}


async def read_resource(session: Session, operation: Json) -> Json:
    return await outcome_of(session.read(operation["uri"]))


async def get_prompt(session: Session, operation: Json) -> Json:
    return await outcome_of(session.get(operation["prompt"], operation.get("arguments", {})))


async def complete(session: Session, operation: Json) -> Json:
    return await outcome_of(session.complete(operation["ref"], operation["argument"]))


async def watch(session: Session, operation: Json) -> Json:
    async with session.watching(operation["uri"]) as changed:
        await call_tool(session, operation)
        told = await asyncio.wait_for(changed.get(), 150)
        await call_tool(session, operation)
    return {"told": told}


async def log(session: Session, operation: Json) -> Json:
    async with session.logging(operation["level"]) as messages:
        await call_tool(session, operation)
        first = await asyncio.wait_for(messages.get(), 150)
        await call_tool(session, operation)
    return {"message": first}


async def list_tools(session: Session, _operation: Json) -> Json:
    tools, cursor = await session.list_page(None)
    while cursor is not None:
        page, cursor = await session.list_page(cursor)
        tools = tools + page
    return {"tools": tools}


async def call_tool(session: Session, operation: Json) -> Json:
    progress: list[float] = []

    async def on_progress(amount: float, _total: float | None, _message: str | None) -> None:
        progress.append(amount)

    try:
        result = await session.call(_call(operation), on_progress)
    except RefusedError as refused:
        return {"error": {"code": refused.code, "message": str(refused)}, "progress": progress}
    return {"result": result, "progress": progress}


async def cancel_call(session: Session, operation: Json) -> Json:
    started = asyncio.Event()

    async def on_progress(_amount: float, _total: float | None, _message: str | None) -> None:
        started.set()

    task = asyncio.ensure_future(session.call(_call(operation), on_progress))
    await asyncio.wait_for(started.wait(), 150)
    task.cancel()
    await asyncio.wait({task})
    return {"cancelled": task.cancelled()}


async def read_on(session: Session, operation: Json) -> Json:
    preview = (await call_tool(session, operation))["result"]
    following = {"handle": preview["_meta"]["toolcrib/kept"]["handle"], **operation["part"]}
    parts: list[str] = []
    while following:
        asked = {"tool": "result_read", "arguments": following}
        about, *rest = (await call_tool(session, asked))["result"]["content"]
        parts += [block["text"] for block in rest]
        following = json.loads(about["text"].partition("Next: ")[2] or "null")
    return {"preview": preview, "parts": parts}


OPERATIONS: dict[str, Callable[[Session, Json], Awaitable[Json]]] = {
    "list": list_tools,
    "call": call_tool,
    "cancel": cancel_call,
    "read_on": read_on,
    "offers": list_offers,
    "read": read_resource,
    "get": get_prompt,
    "complete": complete,
    "watch": watch,
    "log": log,
}


def main(open_session: Callable[[Target], AbstractAsyncContextManager[Session]]) -> None:
    """Run the operations named on the command line and print what came of them."""
    parser = argparse.ArgumentParser()
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument("--stdio", type=json.loads, default=[])
    place.add_argument("--url", default="")
    parser.add_argument("--mode", choices=["legacy", "auto", "modern"], default="legacy")
    parser.add_argument("--answers", action="store_true")
    parser.add_argument("operations", type=json.loads)
    options = parser.parse_args()
    target = Target(tuple(options.stdio), options.url, options.mode, options.answers)
    print(json.dumps(asyncio.run(_converse(open_session, target, options.operations))))


async def _converse(open_session: Any, target: Target, operations: list[Json]) -> Json:
    async with open_session(target) as session:
        outcomes = [await OPERATIONS[operation["op"]](session, operation) for operation in operations]
        return {**session.about(), "outcomes": outcomes}


def _call(operation: Json) -> Call:
    return Call(operation["tool"], operation.get("arguments", {}), operation.get("timeout_s", 150))
