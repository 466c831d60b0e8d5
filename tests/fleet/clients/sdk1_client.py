"""The official SDK 1.x as a client, handshake era only. Run inside the ``sdk1`` environment."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import anyio
import mcp
from conversation import Call, Json, OnProgress, RefusedError, Target, main
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import McpError


class Sdk1Session:
    """SDK 1.x behind the words of `conversation`."""

    def __init__(self, session: mcp.ClientSession, greeting: mcp.types.InitializeResult) -> None:
        self._session = session
        self._greeting = greeting

    def about(self) -> Json:
        return {"protocolVersion": self._greeting.protocolVersion, "server": self._greeting.serverInfo.name}

    async def list_page(self, cursor: str | None) -> tuple[list[Json], str | None]:
        page = await self._session.list_tools(params=mcp.types.PaginatedRequestParams(cursor=cursor))
        return [_wire(tool) for tool in page.tools], page.nextCursor

    async def call(self, call: Call, on_progress: OnProgress) -> Json:
        try:
            result = await self._session.call_tool(
                call.tool, call.arguments, timedelta(seconds=call.timeout_s), progress_callback=on_progress
            )
        except McpError as error:
            raise RefusedError(error.error.code, error.error.message) from error
        return _wire(result)


@asynccontextmanager
async def open_session(target: Target) -> AsyncIterator[Sdk1Session]:
    try:
        async with _transport(target) as (read, write, *_), mcp.ClientSession(read, write) as session:
            yield Sdk1Session(session, await session.initialize())
    except* anyio.BrokenResourceError:
        pass  # SDK 1.x does not cancel on the server, and trips over progress that still arrives while it closes.


def _transport(target: Target) -> Any:
    if target.url.endswith("/sse"):
        return sse_client(target.url)
    if target.url:
        return streamable_http_client(target.url)
    command, *args = target.argv
    return mcp.stdio_client(mcp.StdioServerParameters(command=command, args=args, env=dict(os.environ)))


def _wire(value: "mcp.types.Tool | mcp.types.CallToolResult") -> Json:
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


if __name__ == "__main__":
    main(open_session)
