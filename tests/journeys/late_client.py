"""The official SDK 1.x as a client that lists too early. Run inside the ``sdk1`` environment with the file that lets
the late server start, and where toolcrib is; prints what it was shown before and after it was told of a change."""

import asyncio
import json
import os
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import mcp
import mcp.types as types
from mcp.client.streamable_http import streamable_http_client


def transport(where: list[str]) -> AbstractAsyncContextManager[Any]:
    if where[0].startswith("http"):
        return streamable_http_client(where[0])
    return mcp.stdio_client(mcp.StdioServerParameters(command=where[0], args=where[1:], env=dict(os.environ)))


async def main(file: Path, where: list[str]) -> dict[str, Any]:
    changed = asyncio.Event()

    async def hear(message: Any) -> None:
        if isinstance(getattr(message, "root", None), types.ToolListChangedNotification):
            changed.set()

    async with transport(where) as (read, write, *_), mcp.ClientSession(read, write, message_handler=hear) as session:
        await session.initialize()
        before = await session.list_tools()
        file.touch()
        async with asyncio.timeout(150):
            await changed.wait()
        after = await session.list_tools()
        called = await session.call_tool("late__work", {})
        return {
            "before": [tool.name for tool in before.tools],
            "missing": (before.meta or {}).get("toolcrib/missing"),
            "after": [tool.name for tool in after.tools],
            "left": (after.meta or {}).get("toolcrib/missing"),
            "called": called.content[0].text,
        }


print(json.dumps(asyncio.run(main(Path(sys.argv[1]), sys.argv[2:]))))
