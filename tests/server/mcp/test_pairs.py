"""Progress and cancellation in every pair of eras, for all that can be asked of a server."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.server.mcp.test_http import Answer, Client

from toolcrib import open_crib
from toolcrib.config.model import Config, ServerConfig
from toolcrib.crib.window import ProfileView
from toolcrib.server.mcp.http import HttpDoor
from toolcrib.server.mcp.service import McpService, ServerIdentity
from toolcrib.transports.http.server import Exchange, HttpRequest, HttpServer
from toolcrib.wire.http import encode_event

MODERN, HANDSHAKE = "2026-07-28", "2025-11-25"
CACHED = {"resultType": "complete", "ttlMs": 60_000, "cacheScope": "private"}
DONE = {"type": "text", "text": "done"}
ASKED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "tools/call": ({"name": "lib__work", "arguments": {}}, {"content": [DONE]}),
    "resources/read": ({"uri": "memo://lib/about"}, {"contents": [{"uri": "memo://about", "text": "done"}]}),
    "prompts/get": (
        {"name": "lib__greet"},
        {"messages": [{"role": "user", "content": DONE}]},
    ),
}
"""What a client asks, and what the server answers."""
LISTS = {
    "tools/list": {"tools": [{"name": "work", "inputSchema": {"type": "object"}}]},
    "resources/list": {"resources": [{"uri": "memo://about", "name": "about"}]},
    "resources/templates/list": {"resourceTemplates": []},
    "prompts/list": {"prompts": [{"name": "greet"}]},
}
CAPABILITIES = {"tools": {}, "resources": {}, "prompts": {}}


class Upstream:
    """A server of one era that reports progress on whatever it is asked, and answers when it is told to."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.asked, self.called_off = asyncio.Event(), asyncio.Event()
        self.request_id, self.how = 0, ""
        self._exchange: Exchange | None = None
        self._result = b""

    def handle(self, request: HttpRequest, exchange: Exchange) -> None:
        if request.method != b"POST":
            exchange.answer(405, b"")
            return
        message = json.loads(request.body)
        method = message["method"]
        if method in ASKED:
            self._begin(message, exchange)
        elif method == "notifications/cancelled":
            self._note(f"notification for {message['params']['requestId']}")
            exchange.answer(202, b"")
        elif "id" not in message:
            exchange.answer(202, b"")
        else:
            self._answer(message, exchange)

    def _answer(self, message: dict[str, Any], exchange: Exchange) -> None:
        greeting = {"capabilities": CAPABILITIES, "serverInfo": {"name": "lib", "version": "1"}}
        known: dict[str, Any] = {**LISTS}
        if self.version == MODERN:
            known = {name: {**result, **CACHED} for name, result in known.items()}
            known["server/discover"] = {"supportedVersions": [MODERN], **greeting, **CACHED}
        else:
            known["initialize"] = {"protocolVersion": HANDSHAKE, **greeting}
        result = known.get(message["method"])
        said = {"result": result} if result is not None else {"error": {"code": -32601, "message": "Unknown"}}
        exchange.answer(200, json.dumps({"jsonrpc": "2.0", "id": message["id"], **said}).encode())

    def _begin(self, message: dict[str, Any], exchange: Exchange) -> None:
        meta = message["params"].get("_meta", {})
        exchange.start_stream(200)
        exchange.on_disconnect(lambda: self._note("end of the stream"))
        if "progressToken" in meta:
            told = {"progressToken": meta["progressToken"], "progress": 1, "total": 2}
            note = {"jsonrpc": "2.0", "method": "notifications/progress", "params": told}
            exchange.write(encode_event(json.dumps(note).encode()))
        result = ASKED[message["method"]][1] | ({"resultType": "complete"} if self.version == MODERN else {})
        self._result = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
        self._exchange, self.request_id = exchange, message["id"]
        self.asked.set()

    def _note(self, how: str) -> None:
        """In the handshake era the end of a stream means nothing."""
        if self.version == MODERN or how.startswith("notification"):
            self.how = how
            self.called_off.set()

    def finish(self) -> None:
        """Answer what was asked."""
        assert self._exchange is not None
        self._exchange.write(encode_event(self._result))
        self._exchange.end()


@contextlib.asynccontextmanager
async def pair(upstream: Upstream) -> AsyncIterator[Client]:
    """A client of toolcrib, which has one server."""
    behind = HttpServer({"/mcp": upstream.handle})
    await behind.start("127.0.0.1", 0)
    server = ServerConfig("lib", url=f"http://{behind.address}/mcp")
    async with open_crib(Config(servers={"lib": server})) as crib:
        await crib.refresh()
        door = HttpDoor(McpService(ProfileView(crib), ServerIdentity("toolcrib", "1")))
        front = HttpServer({"/mcp": door.handle})
        await front.start("127.0.0.1", 0)
        client = Client(None, door, front)
        try:
            yield client
        finally:
            await client.close()
            await door.close()
            await front.close(0)
    await behind.close(0)


async def ask(client: Client, version: str, method: str) -> Answer:
    """Ask, and want to hear how far it is."""
    params = ASKED[method][0] | {"_meta": {"progressToken": "mine"}}
    if version == MODERN:
        return await client.ask_modern(5, method, params, mcp_name=str(params.get("name") or params["uri"]))
    await client.hello()
    return await client.ask(5, method, params)


PAIRS = [(front, behind) for front in (HANDSHAKE, MODERN) for behind in (HANDSHAKE, MODERN)]


@pytest.mark.parametrize(("front", "behind"), PAIRS)
@pytest.mark.parametrize("method", ASKED)
async def test_progress_reaches_the_client_under_its_own_token_before_the_answer(front, behind, method):
    upstream = Upstream(behind)
    async with pair(upstream) as client:
        answer = await ask(client, front, method)
        progress = await answer.event()
        upstream.finish()
        result = await answer.event()

    assert progress["params"] == {"progressToken": "mine", "progress": 1, "total": 2}
    assert (result["id"], "done" in json.dumps(result["result"])) == (5, True)
    assert ("resultType" in result["result"]) == (front == MODERN)


@pytest.mark.parametrize(("front", "behind"), PAIRS)
@pytest.mark.parametrize("method", ASKED)
async def test_what_the_client_calls_off_is_called_off_at_the_server(front, behind, method):
    """Each side in its own way: a notification, or the end of a stream."""
    upstream = Upstream(behind)
    async with pair(upstream) as client:
        answer = await ask(client, front, method)
        await answer.event()
        if front == MODERN:
            await answer.close()
        else:
            await client.post({"method": "notifications/cancelled", "params": {"requestId": 5}}, **client.session)
        async with asyncio.timeout(150):
            await upstream.called_off.wait()

    told = f"notification for {upstream.request_id}"
    assert upstream.how == (told if behind == HANDSHAKE else "end of the stream")
