"""Real MCP servers over HTTP, which keep the headers they were sent."""

from contextlib import asynccontextmanager

from toolcrib.config.model import Config
from toolcrib.crib.builder import open_crib
from toolcrib.crib.window import ProfileView
from toolcrib.server.mcp.http import HttpDoor
from toolcrib.server.mcp.service import McpService, ServerIdentity
from toolcrib.sources.native.functions import tool
from toolcrib.transports.http.server import HttpServer


@tool
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}!"


class Served:
    def __init__(self, door):
        self._door = door
        self.seen = []
        self.url = ""

    def handle(self, request, exchange):
        self.seen.append({name.decode(): value.decode() for name, value in request.headers})
        self._door.handle(request, exchange)


@asynccontextmanager
async def mcp_server(*tools):
    """One with ``greet``, unless told otherwise."""
    async with open_crib(Config(), tools=tools or (greet,), keep_results=False) as crib:
        door = HttpDoor(McpService(ProfileView(crib), ServerIdentity(version="1")))
        served = Served(door)
        server = HttpServer({"/mcp": served.handle})
        await server.start("127.0.0.1", 0)
        served.url = f"http://{server.address}/mcp"
        try:
            yield served
        finally:
            door.end_streams()
            await server.close(0.1)
            await door.close()
