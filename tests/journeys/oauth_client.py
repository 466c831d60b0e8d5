"""The official SDK, 1.x or 2.x, with its own OAuth provider: ``python oauth_client.py URL TOOL``.

Prints the address its person has to open, listens for what comes back, and calls the tool three times: after signing
in, after its access token has ended, and as somebody who comes again with what was kept. Prints what came of it.
"""

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import mcp
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.auth import OAuthClientMetadata

IS_OLD = version("mcp").startswith("1.")


class Memory:
    """Where the SDK keeps what it has."""

    tokens: Any = None
    client: Any = None

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        return self.client

    async def set_client_info(self, client: Any) -> None:
        self.client = client


class Callback:
    """Where the person's browser comes back to."""

    def __init__(self) -> None:
        self.query: asyncio.Queue[dict[str, str]] = asyncio.Queue()

    async def open(self) -> str:
        self.server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}/callback"

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode()
        if query := urlsplit(target).query:  # a browser asks for an icon, too
            self.query.put_nowait(dict(parse_qsl(query)))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 7\r\n\r\nwelcome")
        await writer.drain()
        writer.close()

    async def __call__(self) -> Any:
        query = await self.query.get()
        if IS_OLD:
            return query["code"], query.get("state")
        return mcp.client.auth.AuthorizationCodeResult(**query)


async def show(url: str) -> None:
    print(url, flush=True)


@asynccontextmanager
async def session(url: str, provider: OAuthClientProvider) -> Any:
    async with create_mcp_http_client(auth=provider) as http:
        if IS_OLD:
            async with (
                streamable_http_client(url, http_client=http) as (read, write, *_),
                mcp.ClientSession(read, write) as opened,
            ):
                await opened.initialize()
                yield opened
        else:
            async with mcp.Client(streamable_http_client(url, http_client=http), mode="auto") as client:
                yield client


async def main(url: str, tool: str) -> dict[str, Any]:
    callback, memory = Callback(), Memory()
    metadata = OAuthClientMetadata(client_name="The official SDK", redirect_uris=[await callback.open()])

    def provider() -> OAuthClientProvider:
        return OAuthClientProvider(url, metadata, memory, redirect_handler=show, callback_handler=callback)

    async def call(opened: Any) -> str:
        return (await opened.call_tool(tool, {"name": "Ada"})).content[0].text

    texts, tokens, auth = [], [], provider()
    async with session(url, auth) as opened:
        texts.append(await call(opened))
        tokens.append(memory.tokens)
        auth.context.token_expiry_time = 1.0
        texts.append(await call(opened))
        tokens.append(memory.tokens)
    async with session(url, provider()) as opened:
        texts.append(await call(opened))
    return {
        "texts": texts,
        "renewed": tokens[0].access_token != tokens[1].access_token,
        "rotated": tokens[0].refresh_token != tokens[1].refresh_token,
        "scope": tokens[0].scope,
    }


print("RESULT " + json.dumps(asyncio.run(main(*sys.argv[1:]))), flush=True)
