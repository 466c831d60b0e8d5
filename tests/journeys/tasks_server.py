"""A server of the official SDK 1.x with a tool that can be run as a task. Run inside the ``sdk1`` environment."""

import asyncio
from typing import Any

import mcp.types as types
from mcp.server import Server
from mcp.server.experimental.task_context import ServerTaskContext
from mcp.server.stdio import stdio_server

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"deep": {"type": "boolean"}}}
server: Server[Any] = Server("digger")
server.experimental.enable_tasks()


@server.list_tools()
async def list_tools() -> list[types.Tool]:
    support = types.ToolExecution(taskSupport=types.TASK_OPTIONAL)
    return [types.Tool(name="dig", inputSchema=SCHEMA, execution=support)]


@server.call_tool()
async def call_tool(_name: str, arguments: dict[str, Any]) -> Any:
    ctx = server.request_context

    async def work(task: ServerTaskContext) -> types.CallToolResult:
        await task.update_status("Digging")
        if not arguments.get("deep"):
            return types.CallToolResult(content=[types.TextContent(type="text", text="dug")])
        ok = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
        answer = await task.elicit("Deeper?", ok)
        return types.CallToolResult(content=[types.TextContent(type="text", text=f"dug: {answer.action}")])

    if ctx.experimental.is_task:
        return await ctx.experimental.run_task(work)
    return [types.TextContent(type="text", text="dug at once")]


async def main() -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


asyncio.run(main())
