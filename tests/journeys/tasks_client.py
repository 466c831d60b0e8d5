"""The official SDK 1.x as a client that knows tasks. Run inside the ``sdk1`` environment with where the server is and
what to call; prints what came of it as JSON."""

import asyncio
import json
import os
import sys
from contextlib import AbstractAsyncContextManager
from typing import Any

import mcp
import mcp.types as types
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import McpError


async def answer(_ctx: Any, params: Any) -> types.ElicitResult:
    asked.append(params.model_dump(mode="json", by_alias=True, exclude_none=True))
    return types.ElicitResult(action="accept", content={"ok": True, "interpretation": "snake"})


asked: list[Any] = []


def transport(where: list[str]) -> AbstractAsyncContextManager[Any]:
    if where[0].startswith("http"):
        return streamable_http_client(where[0])
    return mcp.stdio_client(mcp.StdioServerParameters(command=where[0], args=where[1:], env=dict(os.environ)))


async def run(session: mcp.ClientSession, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """One task from its beginning to its end, and one that is called off."""
    greeting = await session.initialize()
    listed = {each.name: each for each in (await session.list_tools()).tools}
    tasks = session.experimental
    created = await tasks.call_tool_as_task(tool, arguments, ttl=60_000)
    task_id = created.task.taskId
    first = await tasks.get_task(task_id)
    result = await tasks.get_task_result(task_id, types.CallToolResult)
    last = await tasks.get_task(task_id)
    known = [task.taskId for task in (await tasks.list_tasks()).tasks]
    try:
        await tasks.cancel_task(task_id)
        refused = 0
    except McpError as error:
        refused = error.error.code
    plain = await session.call_tool(tool, {})
    return {
        "capability": greeting.capabilities.tasks is not None,
        "support": listed[tool].execution and listed[tool].execution.taskSupport,
        "first": first.status,
        "last": last.status,
        "text": result.content[0].text,
        "related": result.meta,
        "task": task_id,
        "listed": known,
        "refused": refused,
        "asked": asked,
        "plain": plain.content[0].text,
    }


async def main() -> None:
    where, tool, arguments = (json.loads(part) for part in sys.argv[1:])
    async with (
        transport(where) as (read, write, *_),
        mcp.ClientSession(read, write, elicitation_callback=answer) as session,
    ):
        print(json.dumps(await run(session, tool, arguments)))


asyncio.run(main())
