"""A server of SDK 1.x over HTTP+SSE, with what only a standing stream can carry: progress, logs, questions."""

import sys

from mcp.server.fastmcp import Context, FastMCP
from pydantic import BaseModel

server = FastMCP("old", host="127.0.0.1", port=int(sys.argv[1]))


class Name(BaseModel):
    name: str


@server.tool()
async def count(to: int, ctx: Context) -> int:
    """Count, and say so."""
    for number in range(to):
        await ctx.report_progress(number + 1, to)
    await ctx.info(f"counted to {to}")
    return to


@server.tool()
async def greet(ctx: Context) -> str:
    """Ask for a name."""
    answer = await ctx.elicit("Who?", Name)
    return f"Hello, {answer.data.name}" if answer.action == "accept" else "Nobody"


@server.resource("note://today")
def today() -> str:
    """What is up."""
    return "nothing"


server.run(transport="sse")
