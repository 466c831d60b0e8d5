"""The official SDK 1.x as a client, handshake era only. Run inside the ``sdk1`` environment."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import anyio
import mcp
from conversation import Call, Json, OnProgress, RefusedError, Target, main
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import McpError
from pydantic import AnyUrl


class Sdk1Session:
    """SDK 1.x behind the words of `conversation`."""

    def __init__(self, session: mcp.ClientSession, greeting: mcp.types.InitializeResult, heard: "Heard") -> None:
        self._session = session
        self._greeting = greeting
        self._heard = heard

    def about(self) -> Json:
        return {"protocolVersion": self._greeting.protocolVersion, "server": self._greeting.serverInfo.name}

    async def list_page(self, cursor: str | None) -> tuple[list[Json], str | None]:
        page = await self._session.list_tools(params=mcp.types.PaginatedRequestParams(cursor=cursor))
        return [_wire(tool) for tool in page.tools], page.nextCursor

    async def call(self, call: Call, on_progress: OnProgress) -> Json:
        limit = timedelta(seconds=call.timeout_s)
        return await _told(self._session.call_tool(call.tool, call.arguments, limit, progress_callback=on_progress))

    async def offers_page(self, kind: str, cursor: str | None) -> tuple[list[Json], str | None]:
        params = mcp.types.PaginatedRequestParams(cursor=cursor)
        if kind == "resources":
            page: Any = await self._session.list_resources(params=params)
            return [_wire(offer) for offer in page.resources], page.nextCursor
        if kind == "templates":
            page = await self._session.list_resource_templates(params=params)
            return [_wire(offer) for offer in page.resourceTemplates], page.nextCursor
        page = await self._session.list_prompts(params=params)
        return [_wire(offer) for offer in page.prompts], page.nextCursor

    async def read(self, uri: str) -> Json:
        return await _told(self._session.read_resource(AnyUrl(uri)))

    async def get(self, prompt: str, arguments: dict[str, str]) -> Json:
        return await _told(self._session.get_prompt(prompt, arguments))

    async def complete(self, ref: Json, argument: dict[str, str]) -> Json:
        is_prompt = ref["type"] == "ref/prompt"
        kind = mcp.types.PromptReference if is_prompt else mcp.types.ResourceTemplateReference
        return await _told(self._session.complete(kind(**ref), argument))

    @asynccontextmanager
    async def watching(self, uri: str) -> "AsyncIterator[asyncio.Queue[str]]":
        await self._session.subscribe_resource(AnyUrl(uri))
        yield self._heard.changed
        await self._session.unsubscribe_resource(AnyUrl(uri))

    @asynccontextmanager
    async def logging(self, level: str) -> "AsyncIterator[asyncio.Queue[Json]]":
        await self._session.set_logging_level(level)
        yield self._heard.logged


class Heard:
    """What the server says unasked, and what it is answered."""

    def __init__(self) -> None:
        self.changed: asyncio.Queue[str] = asyncio.Queue()
        self.logged: asyncio.Queue[Json] = asyncio.Queue()

    async def log(self, params: mcp.types.LoggingMessageNotificationParams) -> None:
        self.logged.put_nowait(_wire(params))

    async def elicit(self, _context: Any, _params: Any) -> mcp.types.ElicitResult:
        return mcp.types.ElicitResult(action="accept", content={"name": "Ann"})

    async def sample(self, _context: Any, _params: Any) -> mcp.types.CreateMessageResult:
        said = mcp.types.TextContent(type="text", text="a sample")
        return mcp.types.CreateMessageResult(role="assistant", content=said, model="journey")

    async def list_roots(self, _context: Any) -> mcp.types.ListRootsResult:
        return mcp.types.ListRootsResult(roots=[mcp.types.Root(uri="file:///journey", name="journey")])

    async def hear(self, message: Any) -> None:
        said = getattr(message, "root", None)
        if isinstance(said, mcp.types.ResourceUpdatedNotification):
            self.changed.put_nowait(str(said.params.uri))


@asynccontextmanager
async def open_session(target: Target) -> AsyncIterator[Sdk1Session]:
    heard = Heard()
    answers = {
        "elicitation_callback": heard.elicit,
        "sampling_callback": heard.sample,
        "list_roots_callback": heard.list_roots,
    }
    callbacks = {"logging_callback": heard.log, "message_handler": heard.hear, **(answers if target.answers else {})}
    try:
        async with _transport(target) as (read, write, *_), mcp.ClientSession(read, write, **callbacks) as session:
            yield Sdk1Session(session, await session.initialize(), heard)
    except* anyio.BrokenResourceError:
        pass  # SDK 1.x does not cancel on the server, and trips over progress that still arrives while it closes.


def _transport(target: Target) -> Any:
    if target.url.endswith("/sse"):
        return sse_client(target.url)
    if target.url:
        return streamable_http_client(target.url)
    command, *args = target.argv
    return mcp.stdio_client(mcp.StdioServerParameters(command=command, args=args, env=dict(os.environ)))


async def _told(asking: "Awaitable[Any]") -> Json:
    try:
        return _wire(await asking)
    except McpError as error:
        raise RefusedError(error.error.code, error.error.message) from error


def _wire(value: Any) -> Json:
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


if __name__ == "__main__":
    main(open_session)
