"""MCP over HTTP+SSE, met by raw requests: one stream for everything that is said, and messages that are just taken."""

import asyncio
import contextlib
import json

import pytest
from tests.doubles.replicas import Common, replica, so
from tests.server.mcp.test_http import HELLO, Answer, add, held

from toolcrib.core.access import LOCAL_USER, Caller, Grants
from toolcrib.core.offers import SecurityLevel
from toolcrib.core.requests import Request
from toolcrib.crib.window import ProfileView
from toolcrib.server.mcp import sse
from toolcrib.server.mcp.roaming import Roaming
from toolcrib.server.mcp.service import McpService, ServerIdentity
from toolcrib.server.mcp.sse import SseDoor, endpoint
from toolcrib.testing import FakeSource, memory_crib
from toolcrib.transports.http.server import HttpServer
from toolcrib.wire.http import SseParser


class SseClient:
    """One client with its stream; messages may go to another replica."""

    def __init__(self, door: SseDoor, server: HttpServer) -> None:
        self.door, self.server = door, server
        self.stream: Answer | None = None
        self.target = ""
        self._parser = SseParser()
        self._messages: list[dict] = []
        self._writers: list[asyncio.StreamWriter] = []

    async def request(self, method: str, target: str, body: bytes = b"", **headers: str) -> Answer:
        sent = {
            "host": self.server.address,
            "accept": "text/event-stream",
            "content-type": "application/json",
        } | headers
        lines = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        self._writers.append(writer)
        writer.write(f"{method} {target} HTTP/1.1\r\n{lines}content-length: {len(body)}\r\n\r\n".encode() + body)
        status = int((await asyncio.wait_for(reader.readline(), 150)).split()[1])
        received = {}
        while (line := await reader.readline()) != b"\r\n":
            name, _, value = line.decode().partition(":")
            received[name.lower()] = value.strip()
        return Answer(status, received, reader, writer)

    async def open(self) -> None:
        self.stream = await self.request("GET", "/sse")
        while not self._parser.endpoint:
            self._parser.feed(await self.stream.chunk())
        self.target = "/" + self._parser.endpoint.decode()

    async def hello(self) -> dict:
        await self.open()
        await self.post({"id": 0, "method": "initialize", "params": HELLO})
        said = await self.message()
        await self.post({"method": "notifications/initialized"})
        return said

    async def post(self, message: dict | bytes) -> int:
        body = message if isinstance(message, bytes) else json.dumps({"jsonrpc": "2.0", **message}).encode()
        return (await self.request("POST", self.target, body)).status

    async def message(self) -> dict | None:
        """The next message of the stream; ``None`` at its end."""
        while not self._messages:
            chunk = await self.stream.chunk()
            if not chunk:
                return None
            self._messages += [json.loads(data) for data in self._parser.feed(chunk)]
        return self._messages.pop(0)

    async def ask(self, request_id: int, method: str, params: dict | None = None) -> dict | None:
        await self.post({"id": request_id, "method": method, "params": params or {}})
        return await self.message()

    async def close(self) -> None:
        for writer in self._writers:
            writer.close()


@contextlib.asynccontextmanager
async def served(crib, caller: Caller = LOCAL_USER, home=None):
    """A door before a crib, and a client that has not come in yet."""
    await crib.current()
    door = SseDoor(McpService(ProfileView(crib), ServerIdentity("toolcrib", "1")), caller, home=home)
    server = HttpServer({"/sse": door.handle, "/messages": door.handle})
    await server.start("127.0.0.1", 0)
    client = SseClient(door, server)
    try:
        yield client
    finally:
        await client.close()
        await door.close()
        await server.close(0)


@contextlib.asynccontextmanager
async def client_of(*sources: FakeSource, tools=()):
    async with memory_crib(*sources, tools=tools) as made, served(made.crib) as client:
        yield client


async def test_everything_is_answered_on_the_stream():
    """Hello, list, call; a POST says only that it was taken."""
    async with client_of(tools=[add]) as client:
        hello = await client.hello()
        listed = await client.ask(1, "tools/list")
        taken = await client.post(
            {"id": 2, "method": "tools/call", "params": {"name": "add", "arguments": {"a": 1, "b": 2}}}
        )
        called = await client.message()
        unknown = await client.ask(3, "no/such")

        assert hello["result"]["protocolVersion"] == "2025-06-18"
        assert [tool["name"] for tool in listed["result"]["tools"]] == ["add"]
        assert taken == 202
        assert called == {"jsonrpc": "2.0", "id": 2, "result": {"content": [{"type": "text", "text": "3"}]}}
        assert unknown["error"]["code"] == -32601


@pytest.mark.parametrize(
    ("path", "expected"),
    [(b"/sse", "messages?session=x"), (b"/sse/support", "../messages/support?session=x")],
)
def test_the_address_for_messages_is_seen_from_that_of_the_stream(path, expected):
    """So that it is right wherever toolcrib is mounted."""
    assert endpoint(path, "x") == expected


async def test_a_server_can_ask_the_client_and_tell_of_progress():
    """Both on the stream; the answer is a message like any other."""
    source = FakeSource("srv", ["work"])

    async def work(call: Request) -> str:
        call.channel.notify("notifications/progress", b'{"progressToken":1,"progress":1}')
        return (await call.channel.ask("elicitation/create", b'{"message":"?"}')).decode()

    source.answers["work"] = work
    async with client_of(source) as client:
        await client.hello()
        await client.post(
            {"id": 1, "method": "tools/call", "params": {"name": "srv__work", "_meta": {"progressToken": "p"}}}
        )
        progress, question = await client.message(), await client.message()
        await client.post({"id": question["id"], "result": {"action": "decline"}})
        result = await client.message()

        assert progress["params"] == {"progressToken": "p", "progress": 1}
        assert question["method"] == "elicitation/create"
        assert result["result"]["content"][0]["text"] == '{"action": "decline"}'


async def test_a_call_is_cancelled_by_its_notification_and_the_stream_goes_on():
    """Nothing is answered for it."""
    slow = held()
    async with client_of(slow, tools=[add]) as client:
        await client.hello()
        await client.post({"id": 1, "method": "tools/call", "params": {"name": "slow__work"}})
        await slow.calling.reached.wait()
        await client.post({"method": "notifications/cancelled", "params": {"requestId": 1}})

        assert await client.ask(2, "ping") == {"jsonrpc": "2.0", "id": 2, "result": {}}


async def test_the_session_ends_with_its_stream():
    """What still runs is called off, and messages find nobody."""
    slow = held()
    async with client_of(slow) as client:
        await client.hello()
        await client.post({"id": 1, "method": "tools/call", "params": {"name": "slow__work"}})
        await slow.calling.reached.wait()
        await client.stream.close()
        await so(lambda: not client.door.stays())

        assert await client.post({"id": 2, "method": "ping"}) == 404


async def test_changes_are_told_on_the_stream():
    """As to every client of the handshake era."""
    source = FakeSource("srv", ["one"])
    async with client_of(source) as client:
        await client.hello()
        source.change("one", "two")

        assert (await client.message())["method"] == "notifications/tools/list_changed"


async def test_nothing_is_told_before_the_handshake():
    """How the lists came to be is no news to a client that has not read them."""
    async with memory_crib(tools=[add]) as made, served(made.crib) as client:
        await client.open()
        made.native.unregister("add")
        await client.post({"id": 0, "method": "initialize", "params": HELLO})
        first = await client.message()

    assert first["id"] == 0


async def test_nobody_uses_the_session_of_another_caller():
    """The id alone is not enough."""
    async with client_of(tools=[add]) as client:
        await client.hello()
        client.door._caller = Caller("mallory")

        assert await client.post({"id": 1, "method": "ping"}) == 404


@pytest.mark.parametrize(
    ("message", "status"),
    [(b"{", 400), (b'{"jsonrpc":"2.0","id":null,"method":"x"}', 400), (b"[]", 400)],
)
async def test_what_is_no_message_is_refused(message, status):
    """At once, and the stream lives on."""
    async with client_of() as client:
        await client.hello()

        assert await client.post(message) == status
        assert await client.ask(1, "ping") == {"jsonrpc": "2.0", "id": 1, "result": {}}


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("POST", "/sse", 405),
        ("GET", "/messages", 405),
        ("POST", "/messages", 404),
        ("POST", "/messages?session=x", 404),
    ],
)
async def test_each_address_is_for_one_thing(method, target, status):
    """Clients of Streamable HTTP learn by the 405 that this is the other transport."""
    async with client_of() as client:
        assert (await client.request(method, target, b'{"jsonrpc":"2.0","id":1,"method":"ping"}')).status == status


async def test_before_the_handshake_only_a_ping_is_answered():
    """And the answer says what to do."""
    async with client_of(tools=[add]) as client:
        await client.open()
        early = await client.ask(1, "tools/list")
        pinged = await client.ask(2, "ping")

        assert "initialize" in early["error"]["message"]
        assert pinged["result"] == {}


async def test_requests_at_once_are_limited_and_an_id_is_used_once(monkeypatch):
    """They hold no connection, so nothing else limits them."""
    monkeypatch.setattr(sse, "RUNNING_MAX", 1)
    slow = held()
    async with client_of(slow) as client:
        await client.hello()
        await client.post({"id": 1, "method": "tools/call", "params": {"name": "slow__work"}})
        await slow.calling.reached.wait()
        again, more = await client.ask(1, "ping"), await client.ask(2, "ping")

        assert "already in use" in again["error"]["message"]
        assert "At most 1" in more["error"]["message"]


async def test_a_client_that_reads_nothing_loses_its_stream(monkeypatch):
    """Results cannot be left out, so they would be kept for ever."""
    monkeypatch.setattr(sse, "BEHIND_MAX", -1)
    async with client_of() as client:
        await client.open()

        assert await client.ask(1, "ping") is None


@contextlib.asynccontextmanager
async def place(common: Common, name: str, caller: Caller = LOCAL_USER):
    """One replica of several."""
    async with replica(common, name, tools=[add]) as one:
        roaming = Roaming(common.book, one.coordination, one.fleet.failed)
        await roaming.open()
        try:
            async with served(one.made.crib, caller, home=roaming.at("sse/")) as client:
                yield client
        finally:
            await roaming.close()


async def test_messages_find_the_replica_that_has_the_stream():
    """A balancer may send each of them elsewhere; the answers come on the stream all the same."""
    async with place(common := Common(), "a") as here, place(common, "b") as there:
        await here.open()
        stream_server, here.server = here.server, there.server
        await here.post({"id": 0, "method": "initialize", "params": HELLO})
        hello = await here.message()
        called = await here.ask(1, "tools/call", {"name": "add", "arguments": {"a": 2, "b": 3}})
        here.target = "/messages?session=made-up"
        unknown = await here.post({"id": 2, "method": "ping"})
        here.server = stream_server

        assert hello["result"]["serverInfo"]["name"] == "toolcrib"
        assert called["result"]["content"][0]["text"] == "5"
        assert unknown == 404


async def test_a_message_that_comes_to_another_replica_reaches_what_its_own_request_may():
    """The token that opened the stream may have been given less since."""
    fewer = Caller("local", grants=Grants(SecurityLevel.READ_ONLY))
    async with place(common := Common(), "a") as here, place(common, "b", caller=fewer) as there:
        await here.hello()
        stream_server, here.server = here.server, there.server
        refused = await here.ask(1, "tools/call", {"name": "add", "arguments": {"a": 2, "b": 3}})
        here.server = stream_server
        called = await here.ask(2, "tools/call", {"name": "add", "arguments": {"a": 2, "b": 3}})

        assert "error" in refused or refused["result"]["isError"]
        assert called["result"]["content"][0]["text"] == "5"
