"""A Crib mounted in FastAPI behind uvicorn, met by the official SDK in both eras; prints what came of it."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import mcp
import uvicorn
from fastapi import FastAPI

import toolcrib

MODES = ("legacy", "2026-07-28")


class Bell:
    """Rings until somebody ends it."""

    def __init__(self) -> None:
        self.began, self.ended = asyncio.Event(), asyncio.Event()

    async def ring(self) -> str:
        """Ring until ended."""
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()
        return ""


def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello {name}"


def application(bell: Bell) -> FastAPI:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        opened = toolcrib.open_crib({"mcpServers": {}}, tools=[greet, bell.ring])
        async with opened as crib, toolcrib.asgi(crib, auth="none") as tools:
            app.mount("/behind/tools", tools)
            yield

    app = FastAPI(lifespan=lifespan)

    @app.get("/own")
    async def own() -> str:
        return "own"

    return app


@asynccontextmanager
async def served(app: FastAPI) -> AsyncIterator[str]:
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    running = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0)
        if running.done():
            running.result()
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await running


async def converse(url: str, mode: str, bell: Bell) -> dict[str, Any]:
    async with mcp.Client(f"{url}/behind/tools/mcp", mode=mode) as client:
        listed = await client.list_tools()
        greeted = await client.call_tool("greet", {"name": "Ada"})
        ringing = asyncio.create_task(client.call_tool("ring", {}))
        await bell.began.wait()
        ringing.cancel()
        await bell.ended.wait()
    bell.began.clear()
    bell.ended.clear()
    return {"tools": sorted(tool.name for tool in listed.tools), "greeted": greeted.content[0].text}


async def main() -> None:
    bell = Bell()
    async with served(application(bell)) as url, httpx.AsyncClient(base_url=url, timeout=None) as client:
        told = {mode: await converse(url, mode, bell) for mode in MODES}
        page = await client.get("/behind/tools/")
        own = await client.get("/own")
        strange = await client.get("/behind/tools/healthz", headers={"host": "evil.example"})
        print(json.dumps({**told, "page": page.headers["location"], "own": own.json(), "strange": strange.status_code}))


if __name__ == "__main__":
    asyncio.run(asyncio.wait_for(main(), 150))
