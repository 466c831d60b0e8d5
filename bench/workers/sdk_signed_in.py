"""The official SDK's OAuth provider: how long some calls at once take through one account whose token is good."""

import asyncio
import json
import sys
import time
from typing import Any

import httpx2
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

BACK = "http://127.0.0.1:9/oauth/callback"
CALLS, CALL_S = 4, 0.5


class Kept:
    """A storage that holds one token."""

    def __init__(self, token: str, client: str) -> None:
        self.tokens = OAuthToken(access_token=token, expires_in=3600)
        self.client = OAuthClientInformationFull(client_id=client, redirect_uris=[BACK])

    async def get_tokens(self) -> OAuthToken:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


async def parallel(url: str, token: str, client: str) -> float:
    about = OAuthClientMetadata(client_name="bench", redirect_uris=[BACK])
    provider = OAuthClientProvider(url, about, Kept(token, client))
    async with (
        httpx2.AsyncClient(auth=provider, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http), mode="legacy") as session,
    ):
        began = time.perf_counter()
        calls = [session.call_tool("wait", {"seconds": CALL_S}) for _ in range(CALLS)]
        results: list[Any] = await asyncio.gather(*calls)
        took_s = time.perf_counter() - began
    if any(result.is_error for result in results):
        raise RuntimeError(f"a call failed: {results}")
    return took_s


print(json.dumps({"s": asyncio.run(parallel(*sys.argv[1:4]))}))
