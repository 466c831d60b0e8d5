"""A transparent server and its clients see each other as they are; rules hold between them all the same."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.server.mcp.test_http import HELLO, Client

from toolcrib import open_crib
from toolcrib.config.model import Config, ServerConfig
from toolcrib.config.sections import SecurityConfig
from toolcrib.core.access import Caller, Grants
from toolcrib.core.kinds import Policy
from toolcrib.core.offers import SecurityLevel
from toolcrib.crib.window import ProfileView
from toolcrib.server.mcp.http import HttpDoor
from toolcrib.server.mcp.service import McpService, ServerIdentity
from toolcrib.transports.http.server import Exchange, HttpRequest, HttpServer
from toolcrib.wire import eras
from toolcrib.wire.http import encode_event

MODERN, HANDSHAKE = "2026-07-28", "2025-11-25"
CACHED = {"resultType": "complete", "ttlMs": 60_000, "cacheScope": "private"}
INFO = {"name": "lib", "version": "7", "title": "The library", "websiteUrl": "https://lib.example"}
TOOL = {"name": "count", "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}}
STRICT_TOOL = {**TOOL, "outputSchema": {"type": "object", "required": ["n"]}}


class Upstream:
    """A server of one era that notes all it gets, and has a stream per session to say things on."""

    def __init__(self, version: str = HANDSHAKE) -> None:
        self.version, self.tools = version, [STRICT_TOOL]
        self.got: list[dict[str, Any]] = []
        self.noted = asyncio.Event()
        self.standing: dict[bytes, Exchange] = {}
        self.listening: Exchange | None = None
        self.opened = asyncio.Event()
        self._sessions = 0

    def handle(self, request: HttpRequest, exchange: Exchange) -> None:
        if request.method == b"GET":
            exchange.start_stream(200)
            self.standing[request.header(b"mcp-session-id") or b""] = exchange
            self.opened.set()
        elif request.method != b"POST":
            exchange.answer(204, b"")
        else:
            self._take(json.loads(request.body), exchange)

    def _take(self, message: dict[str, Any], exchange: Exchange) -> None:
        self.got.append(message)
        if "id" not in message:
            self.noted.set()
            exchange.answer(202, b"")
        elif message["method"] == "subscriptions/listen":
            exchange.start_stream(200)
            self.listening = exchange
            meta = {eras.META_SUBSCRIPTION: message["id"]}
            self.say(exchange, "notifications/subscriptions/acknowledged", {**message["params"], "_meta": meta})
        else:
            headers = ()
            if message["method"] == "initialize":
                self._sessions += 1
                headers = ((b"mcp-session-id", b"s%d" % self._sessions),)
            body = json.dumps({"jsonrpc": "2.0", "id": message["id"], **self._answer(message)}).encode()
            exchange.answer(200, body, headers=headers)

    def _answer(self, message: dict[str, Any]) -> dict[str, Any]:
        greeting = {"capabilities": {"tools": {}, "experimental": {"x": {}}}, "serverInfo": INFO}
        known: dict[str, Any] = {
            "tools/list": {"tools": self.tools, **(CACHED if self.version == MODERN else {})},
            "tools/call": {"content": [{"type": "text", "text": message.get("params", {}).get("name", "")}]},
        }
        if self.version == MODERN:
            stamp = {"_meta": {eras.META_SERVER_INFO: INFO}}
            known["server/discover"] = {"supportedVersions": [MODERN], **greeting, **CACHED, **stamp}
            known["tools/call"]["resultType"] = "complete"
        else:
            known["initialize"] = {"protocolVersion": HANDSHAKE, **greeting}
        result = known.get(message["method"])
        error = {"code": -32601, "message": "Unknown"}
        return {"error": error} if result is None else {"result": result}

    def say(self, exchange: Exchange, method: str, params: dict[str, Any]) -> None:
        exchange.write(encode_event(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode()))

    def calls(self) -> list[dict[str, Any]]:
        return [message for message in self.got if message["method"] == "tools/call"]


@contextlib.asynccontextmanager
async def mirrored(upstream: Upstream, caller: Caller | None = None, **keys: Any) -> AsyncIterator[Client]:
    """A client of toolcrib in front of a transparent server."""
    behind = HttpServer({"/mcp": upstream.handle})
    await behind.start("127.0.0.1", 0)
    security = keys.pop("security", SecurityConfig())
    server = ServerConfig("lib", url=f"http://{behind.address}/mcp", **{"transparent": True, **keys})
    async with open_crib(Config(servers={"lib": server}, security=security), prefix=False) as crib:
        await crib.refresh()
        service = McpService(ProfileView(crib), ServerIdentity("toolcrib", "1"))
        door = HttpDoor(service) if caller is None else HttpDoor(service, caller)
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


async def test_each_side_is_told_who_the_other_is():
    """The server's name and capabilities, as they are; and those of the client, in a session of its own."""
    async with mirrored(upstream := Upstream()) as client:
        hello = await (await client.post({"id": 0, "method": "initialize", "params": HELLO})).json()

    first, second = [message["params"] for message in upstream.got if message["method"] == "initialize"]
    assert (first["clientInfo"]["name"], second["clientInfo"]) == ("toolcrib", HELLO["clientInfo"])
    assert second["capabilities"] == HELLO["capabilities"]
    assert hello["result"]["serverInfo"] == INFO
    assert hello["result"]["capabilities"] == {"tools": {}, "experimental": {"x": {}}}


async def test_a_client_s_id_and_token_are_kept_on_the_way_to_the_server():
    """And so is that it said nothing more."""
    async with mirrored(upstream := Upstream()) as client:
        await client.hello()
        await client.ask("my-id", "tools/call", {"name": "count", "arguments": {}, "_meta": {"progressToken": "mine"}})
        await client.ask(5, "tools/call", {"name": "count", "arguments": {}, "_meta": {}})
        await client.ask(1 << 30, "tools/call", {"name": "count", "arguments": {}})

    shown = [(call["id"], call["params"].get("_meta")) for call in upstream.calls()]
    assert shown[:2] == [("my-id", {"progressToken": "mine"}), (5, {})]
    assert shown[2][0] != 1 << 30  # where toolcrib's own begin
    assert shown[2][1] is None


async def test_arguments_and_results_are_left_to_the_server():
    """Neither repaired nor refused; here not even the result fits."""
    async with mirrored(upstream := Upstream()) as client:
        await client.hello()
        answer = await (await client.ask(1, "tools/call", {"name": "count", "arguments": {"n": "no"}})).json()

    assert answer["result"] == {"content": [{"type": "text", "text": "count"}]}
    assert upstream.calls()[0]["params"]["arguments"] == {"n": "no"}


async def test_what_either_side_says_unasked_reaches_the_other():
    async with mirrored(upstream := Upstream()) as client:
        await client.hello()
        stream = await client.request("GET", **client.session)
        await stream.chunk()
        async with asyncio.timeout(150):
            await upstream.opened.wait()
        upstream.noted.clear()
        await client.post({"method": "notifications/own", "params": {"a": 1}}, **client.session)
        async with asyncio.timeout(150):
            await upstream.noted.wait()
        told = []
        for method in ("notifications/tools/list_changed", "notifications/resources/updated", "notifications/theirs"):
            upstream.say(upstream.standing[b"s2"], method, {"uri": "a://b"})
            told.append((await stream.event())["method"])

    assert upstream.got[-1] == {"jsonrpc": "2.0", "method": "notifications/own", "params": {"a": 1}}
    assert told == ["notifications/tools/list_changed", "notifications/resources/updated", "notifications/theirs"]


async def test_a_request_that_lacks_an_id_is_no_notification():
    """A server may do what it says, and no rule would have been asked."""
    async with mirrored(upstream := Upstream()) as client:
        await client.hello()
        await client.post({"method": "tools/call", "params": {"name": "count", "arguments": {}}}, **client.session)
        await client.ask(1, "tools/list")

    assert upstream.calls() == []


async def test_who_asks_for_a_list_again_is_shown_what_is_new():
    """The server need not say that it changed; the first time, what was found a moment ago is new enough."""
    async with mirrored(upstream := Upstream()) as client:
        await client.hello()
        first = await (await client.ask(1, "tools/list")).json()
        asked = sum(message["method"] == "tools/list" for message in upstream.got)
        upstream.tools = [STRICT_TOOL, {**TOOL, "name": "more"}]
        second = await (await client.ask(2, "tools/list")).json()

    names = [{tool["name"] for tool in answer["result"]["tools"]} for answer in (first, second)]
    assert (asked, [shown & {"count", "more"} for shown in names]) == (1, [{"count"}, {"count", "more"}])


async def test_a_subscription_is_the_server_s_own():
    """Under the client's id, for what the rules allow, to its end."""
    rules = SecurityConfig(policies={"memo://hidden": Policy.DISABLE})
    async with mirrored(upstream := Upstream(MODERN), security=rules) as client:
        uris = ["memo://hidden", "memo://open"]
        wanted = {"notifications": {"toolsListChanged": True, "resourceSubscriptions": uris}}
        stream = await client.ask_modern("listen-1", "subscriptions/listen", wanted)
        acknowledged = await stream.event()
        upstream.say(upstream.listening, "notifications/tools/list_changed", {})
        changed = await stream.event()
        end = {"jsonrpc": "2.0", "id": "listen-1", "error": {"code": -32603, "message": "torn down"}}
        upstream.listening.write(encode_event(json.dumps(end).encode()))
        last = await stream.event()

    asked = next(message for message in upstream.got if message["method"] == "subscriptions/listen")
    assert asked["id"] == "listen-1"
    assert asked["params"]["notifications"] == {"toolsListChanged": True, "resourceSubscriptions": ["memo://open"]}
    assert acknowledged["params"]["_meta"] == {eras.META_SUBSCRIPTION: "listen-1"}
    assert (changed["method"], last["error"]["message"]) == ("notifications/tools/list_changed", "torn down")


async def test_a_stateless_server_sees_the_client_behind_each_request():
    info = {"name": "acme", "version": "9"}
    async with mirrored(upstream := Upstream(MODERN)) as client:
        meta = {eras.META_CLIENT_INFO: info, eras.META_CLIENT_CAPABILITIES: {"roots": {}, "elicitation": {}}}
        params = {"name": "count", "arguments": {}, "_meta": meta}
        answer = await (await client.ask_modern(3, "tools/call", params)).json()

    got = upstream.calls()[0]["params"]["_meta"]
    assert got[eras.META_CLIENT_INFO] == info
    assert got[eras.META_CLIENT_CAPABILITIES] == {"roots": {}, "elicitation": {}}
    assert answer["result"]["_meta"][eras.META_SERVER_INFO] == INFO


async def test_what_a_server_may_not_ask_is_not_among_the_client_s_capabilities():
    """``relay`` holds for a transparent server, too."""
    async with mirrored(upstream := Upstream(), relay=("roots",)) as client:
        await client.hello()

    second = [message["params"] for message in upstream.got if message["method"] == "initialize"][1]
    assert second["capabilities"] == {}


READER = Caller("reader", grants=Grants(SecurityLevel.WRITE))


@pytest.mark.parametrize(
    ("keys", "caller", "reaches"),
    [
        ({}, None, False),
        ({"unlisted": True}, None, True),
        ({"unlisted": True}, READER, False),
        ({"unlisted": True, "security": SecurityConfig(policies={"hidden": Policy.DISABLE})}, None, False),
    ],
    ids=["not by default", "where it is wanted", "not with less than the level of an admin", "not against a rule"],
)
async def test_what_is_not_listed_is_asked_for_where_that_is_wanted_and_allowed(keys, caller, reaches):
    async with mirrored(upstream := Upstream(), caller, **keys) as client:
        await client.hello()
        answer = await (await client.ask(1, "tools/call", {"name": "hidden", "arguments": {}})).json()

    assert bool(upstream.calls()) is reaches
    assert ("hidden" in json.dumps(answer.get("result", {}).get("content", ""))) is reaches


async def test_where_all_share_one_session_nothing_of_a_client_is_shown():
    """Ids and tokens of several clients could be the same there."""
    async with mirrored(upstream := Upstream(), share="all") as client:
        await client.hello()
        await client.ask("my-id", "tools/call", {"name": "count", "arguments": {}, "_meta": {"progressToken": "mine"}})

    call = upstream.calls()[0]
    assert (type(call["id"]), call["params"]["_meta"]) == (int, {"progressToken": call["id"]})
