"""The official SDK 2.x as a client, in any era it speaks. Run inside the ``sdk2`` environment."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import mcp
from conversation import Call, Json, OnProgress, RefusedError, Target, main

MODES = {"legacy": "legacy", "auto": "auto", "modern": "2026-07-28"}


class Sdk2Session:
    """SDK 2.x behind the words of `conversation`."""

    def __init__(self, client: mcp.Client) -> None:
        self._client = client

    def about(self) -> Json:
        server = self._client.server_info
        return {"protocolVersion": self._client.protocol_version, "server": server.name if server else None}

    async def list_page(self, cursor: str | None) -> tuple[list[Json], str | None]:
        page = await self._client.list_tools(cursor=cursor)
        return [_wire(tool) for tool in page.tools], page.next_cursor

    async def call(self, call: Call, on_progress: OnProgress) -> Json:
        try:
            result = await self._client.call_tool(
                call.tool, call.arguments, read_timeout_seconds=call.timeout_s, progress_callback=on_progress
            )
        except mcp.MCPError as error:
            raise RefusedError(error.error.code, error.error.message) from error
        return _wire(result)


@asynccontextmanager
async def open_session(target: Target) -> AsyncIterator[Sdk2Session]:
    async with mcp.Client(_server(target), mode=MODES[target.mode], read_timeout_seconds=60) as client:
        yield Sdk2Session(client)


def _server(target: Target) -> "str | mcp.StdioServerParameters":
    if target.url:
        return target.url
    command, *args = target.argv
    return mcp.StdioServerParameters(command=command, args=args, env=dict(os.environ))


def _wire(value: "mcp.types.Tool | mcp.types.CallToolResult") -> Json:
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


if __name__ == "__main__":
    main(open_session)
