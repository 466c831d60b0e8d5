"""The official SDK's client, one per configured server and no gateway. Tools are named ``server/tool``."""

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from _orders import obey
from mcp import Client
from mcp.client.stdio import StdioServerParameters


class SdkClients:
    def __init__(self, config: Path, stack: AsyncExitStack) -> None:
        self.servers = json.loads(config.read_text())["mcpServers"]
        self.stack = stack
        self.clients: dict[str, Client] = {}

    async def open(self) -> None:
        for name, server in self.servers.items():
            target = server.get("url") or StdioServerParameters(command=server["command"], args=server["args"])
            self.clients[name] = await self.stack.enter_async_context(Client(target))

    async def list_tools(self) -> list[str]:
        clients = self.clients.values()
        pages = await asyncio.gather(*(client.list_tools(cache_mode="refresh") for client in clients))
        return [f"{name}/{tool.name}" for name, page in zip(self.clients, pages, strict=True) for tool in page.tools]

    async def call(self, tool: str, message: str) -> str:
        server, _, name = tool.partition("/")
        result = await self.clients[server].call_tool(name, {"message": message})
        if result.is_error:
            raise RuntimeError(f"tool error: {result}")
        text: str = result.content[0].text
        return text


async def main() -> None:
    async with AsyncExitStack() as stack:
        await obey(SdkClients(Path(sys.argv[1]), stack))


asyncio.run(main())
