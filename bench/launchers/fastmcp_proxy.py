"""FastMCP as an aggregating proxy, in the two ways its documentation offers.

``mount``   a proxy per server, mounted under its name: a fresh server session for each request
``shared``  a connected client per server handed to its proxy: one server session for all requests
"""

import argparse
import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from fastmcp import Client, FastMCP
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from fastmcp.server import create_proxy


def transport_for(server: dict[str, Any]) -> StdioTransport | StreamableHttpTransport:
    if "url" in server:
        return StreamableHttpTransport(server["url"])
    return StdioTransport(command=server["command"], args=server["args"])


async def serve(gateway: FastMCP, port: int | None) -> None:
    if port is None:
        await gateway.run_stdio_async(show_banner=False)
    else:
        await gateway.run_http_async(
            host="127.0.0.1", port=port, show_banner=False, log_level="error", uvicorn_config={"access_log": False}
        )


async def connect(stack: AsyncExitStack, server: dict[str, Any]) -> Client[Any] | None:
    """None for a server that cannot be connected: the others are served all the same."""
    try:
        return await stack.enter_async_context(Client(transport_for(server)))
    except Exception:  # whatever it was, the others are wanted
        return None


async def mount_shared(gateway: FastMCP, servers: dict[str, Any], stack: AsyncExitStack) -> None:
    clients = await asyncio.gather(*(connect(stack, server) for server in servers.values()))
    for name, client in zip(servers, clients, strict=True):
        if client is not None:
            gateway.mount(create_proxy(client), namespace=name)


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("style", choices=("mount", "shared"))
    parser.add_argument("config", type=Path)
    parser.add_argument("--port", type=int)
    options = parser.parse_args()
    servers = json.loads(options.config.read_text())["mcpServers"]
    gateway = FastMCP("gateway")
    async with AsyncExitStack() as stack:
        if options.style == "shared":
            await mount_shared(gateway, servers, stack)
        else:
            for name, server in servers.items():
                gateway.mount(create_proxy(transport_for(server)), namespace=name)
        await serve(gateway, options.port)


asyncio.run(main())
