"""The official SDK 2.x as a client, in any era it speaks. Run inside the ``sdk2`` environment."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import mcp
from conversation import Call, Json, OnProgress, RefusedError, Target, main

MODES = {"legacy": "legacy", "auto": "auto", "modern": "2026-07-28"}


class Sdk2Session:
    """SDK 2.x behind the words of `conversation`."""

    def __init__(self, client: mcp.Client, heard: "Heard") -> None:
        self._client = client
        self._heard = heard

    def about(self) -> Json:
        server = self._client.server_info
        return {"protocolVersion": self._client.protocol_version, "server": server.name if server else None}

    async def list_page(self, cursor: str | None) -> tuple[list[Json], str | None]:
        page = await self._client.list_tools(cursor=cursor)
        return [_wire(tool) for tool in page.tools], page.next_cursor

    async def call(self, call: Call, on_progress: OnProgress) -> Json:
        limits = {"read_timeout_seconds": call.timeout_s, "progress_callback": on_progress}
        return await _told(self._client.call_tool(call.tool, call.arguments, **limits))

    async def offers_page(self, kind: str, cursor: str | None) -> tuple[list[Json], str | None]:
        if kind == "resources":
            page: Any = await self._client.list_resources(cursor=cursor)
            return [_wire(offer) for offer in page.resources], page.next_cursor
        if kind == "templates":
            page = await self._client.list_resource_templates(cursor=cursor)
            return [_wire(offer) for offer in page.resource_templates], page.next_cursor
        page = await self._client.list_prompts(cursor=cursor)
        return [_wire(offer) for offer in page.prompts], page.next_cursor

    async def read(self, uri: str) -> Json:
        return await _told(self._client.read_resource(uri))

    async def get(self, prompt: str, arguments: dict[str, str]) -> Json:
        return await _told(self._client.get_prompt(prompt, arguments))

    async def complete(self, ref: Json, argument: dict[str, str]) -> Json:
        is_prompt = ref["type"] == "ref/prompt"
        kind = mcp.types.PromptReference if is_prompt else mcp.types.ResourceTemplateReference
        return await _told(self._client.complete(kind(**ref), argument))

    @asynccontextmanager
    async def watching(self, uri: str) -> "AsyncIterator[asyncio.Queue[str]]":
        if self._client.protocol_version == MODES["modern"]:
            async with self._client.listen(resource_subscriptions=[uri]) as changes:
                following = asyncio.ensure_future(self._heard.follow(changes))
                yield self._heard.changed
                following.cancel()
            return
        await self._client.subscribe_resource(uri)
        yield self._heard.changed
        await self._client.unsubscribe_resource(uri)

    @asynccontextmanager
    async def logging(self, level: str) -> "AsyncIterator[asyncio.Queue[Json]]":
        if self._client.protocol_version != MODES["modern"]:  # there, each request says what it wants
            await self._client.set_logging_level(level)
        yield self._heard.logged


class Heard:
    """What the server says unasked, and what it is answered."""

    def __init__(self) -> None:
        self.changed: asyncio.Queue[str] = asyncio.Queue()
        self.logged: asyncio.Queue[Json] = asyncio.Queue()

    async def log(self, params: Any) -> None:
        self.logged.put_nowait(_wire(params))

    async def elicit(self, _context: Any, _params: Any) -> mcp.types.ElicitResult:
        return mcp.types.ElicitResult(action="accept", content={"name": "Ann"})

    async def sample(self, _context: Any, _params: Any) -> mcp.types.CreateMessageResult:
        said = mcp.types.TextContent(type="text", text="a sample")
        return mcp.types.CreateMessageResult(role="assistant", content=said, model="journey")

    async def list_roots(self, _context: Any) -> mcp.types.ListRootsResult:
        return mcp.types.ListRootsResult(roots=[mcp.types.Root(uri="file:///journey", name="journey")])

    async def hear(self, message: Any) -> None:
        if isinstance(message, mcp.types.ResourceUpdatedNotification):
            self.changed.put_nowait(str(message.params.uri))

    async def follow(self, changes: Any) -> None:
        async for change in changes:
            self.changed.put_nowait(str(change.uri))


@asynccontextmanager
async def open_session(target: Target) -> AsyncIterator[Sdk2Session]:
    heard = Heard()
    answers = {
        "elicitation_callback": heard.elicit,
        "sampling_callback": heard.sample,
        "list_roots_callback": heard.list_roots,
    }
    hearing = {"logging_callback": heard.log, "message_handler": heard.hear, "log_level": "debug"}
    hearing |= answers if target.answers else {}
    async with mcp.Client(_server(target), mode=MODES[target.mode], read_timeout_seconds=60, **hearing) as client:
        yield Sdk2Session(client, heard)


def _server(target: Target) -> "str | mcp.StdioServerParameters":
    if target.url:
        return target.url
    command, *args = target.argv
    return mcp.StdioServerParameters(command=command, args=args, env=dict(os.environ))


async def _told(asking: "Awaitable[Any]") -> Json:
    try:
        return _wire(await asking)
    except mcp.MCPError as error:
        raise RefusedError(error.error.code, error.error.message) from error


def _wire(value: Any) -> Json:
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


if __name__ == "__main__":
    main(open_session)
