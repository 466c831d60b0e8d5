"""A server whose tools ask, on SDK 1.x or 2.x: ``python asking_server.py [PORT]``; stdio without a port.

On 2.x it speaks both eras: ``form``, ``link``, ``sample`` and ``roots`` ask in the way of the handshake era, in the
middle of the call; ``modern_form`` in the way of either.
"""

import sys
from typing import Annotated, Any

from pydantic import BaseModel

PORT = int(sys.argv[1]) if len(sys.argv) > 1 else 0
try:
    from mcp.server.mcpserver import Context, MCPServer
    from mcp.server.mcpserver.resolve import Elicit, Resolve
    from mcp_types import SamplingMessage, TextContent

    server: Any = MCPServer("asking")
    OPTIONS: dict[str, Any] = {"port": PORT} if PORT else {}
    HAS_ROUNDS = True
except ImportError:
    from mcp.server.fastmcp import Context, FastMCP
    from mcp.types import SamplingMessage, TextContent

    server = FastMCP("asking", host="127.0.0.1", port=PORT or 8000)
    OPTIONS, HAS_ROUNDS = {}, False


class Name(BaseModel):
    name: str


@server.tool()
async def form(ctx: Context) -> str:
    """Ask twice, one after the other."""
    first, second = await ctx.elicit("Who?", Name), await ctx.elicit("And?", Name)
    return f"{first.action} {first.data.name}, {second.action}"


@server.tool()
async def link(ctx: Context) -> str:
    """Send somebody to an address."""
    answer = await ctx.elicit_url("Sign in", "https://x.example/sign-in", "e-1")
    return str(answer.action)


@server.tool()
async def sample(ctx: Context) -> str:
    """Have the client's model say something."""
    said = SamplingMessage(role="user", content=TextContent(type="text", text="hi"))
    answer = await ctx.session.create_message([said], max_tokens=10)
    return str(answer.content.text)


@server.tool()
async def roots(ctx: Context) -> str:
    """Ask where to work."""
    found = await ctx.session.list_roots()
    return str([str(root.uri) for root in found.roots])


if HAS_ROUNDS:

    def who() -> Elicit[Name]:
        return Elicit("Who?", Name)

    @server.tool()
    async def modern_form(name: Annotated[Name, Resolve(who)]) -> str:
        """Ask by a result where that can be done."""
        return f"accept {name.name}"


server.run(transport="streamable-http" if PORT else "stdio", **OPTIONS)
