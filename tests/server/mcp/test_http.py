"""MCP over HTTP: raw requests over loopback, in both eras."""

import asyncio
import contextlib
import json
from dataclasses import dataclass

import pytest

from toolcrib.core.errors import NotImplementedHere
from toolcrib.core.offers import Tool
from toolcrib.core.requests import Request, Result
from toolcrib.crib.window import ProfileView
from toolcrib.server.mcp import http
from toolcrib.server.mcp.http import HttpDoor
from toolcrib.server.mcp.service import McpService, ServerIdentity
from toolcrib.testing import FakeSource, MemoryCrib, memory_crib
from toolcrib.transports.http.server import HttpServer
from toolcrib.wire import eras
from toolcrib.wire.http import SseParser
from toolcrib.wire.jsonrpc import REQUEST_CANCELLED

ACCEPT = "application/json, text/event-stream"
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {"elicitation": {}}, "clientInfo": {"name": "t"}}
META = {eras.META_VERSION: "2026-07-28", eras.META_CLIENT_CAPABILITIES: {}}
SIGNED = {eras.META_SERVER_INFO: {"name": "toolcrib", "version": "1"}}


@dataclass
class Answer:
    """A response: its head at once, its body when it is read."""

    status: int
    headers: dict[str, str]
    _reader: asyncio.StreamReader
    _writer: asyncio.StreamWriter

    async def body(self) -> bytes:
        return await asyncio.wait_for(self._read_body(), 150)

    async def _read_body(self) -> bytes:
        if "content-length" in self.headers:
            return await self._reader.readexactly(int(self.headers["content-length"]))
        chunks = []
        while chunk := await self.chunk():
            chunks.append(chunk)
        return b"".join(chunks)

    async def json(self) -> dict:
        return json.loads(await self.body())

    async def chunk(self) -> bytes:
        """The next piece of a stream; empty at its end."""
        if self.headers.get("transfer-encoding") != "chunked":
            return b""
        size = int(await asyncio.wait_for(self._reader.readline(), 150), 16)
        data = await self._reader.readexactly(size + 2)
        return data[:-2]

    async def event(self) -> dict | None:
        """The next message of an event stream, ``None`` at its end."""
        parser = SseParser()
        while chunk := await self.chunk():
            for data in parser.feed(chunk):
                return json.loads(data)
        return None

    async def close(self) -> None:
        self._writer.close()


class Client:
    """Sends raw requests, each over a connection of its own."""

    def __init__(self, made: MemoryCrib, door: HttpDoor, server: HttpServer) -> None:
        self.made, self.door, self._server = made, door, server
        self.session: dict[str, str] = {}
        self._writers: list[asyncio.StreamWriter] = []

    async def request(self, method: str, body: bytes = b"", **headers: str | None) -> Answer:
        """One request; a header given as ``None`` is left out, underscores are hyphens."""
        sent = {"host": self._server.address, "accept": ACCEPT, "content_type": "application/json", **headers}
        lines = [f"{name.replace('_', '-')}: {value}\r\n" for name, value in sent.items() if value is not None]
        head = f"{method} /mcp HTTP/1.1\r\n{''.join(lines)}content-length: {len(body)}\r\n\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", self._server.port)
        self._writers.append(writer)
        writer.write(head.encode("latin-1") + body)
        status = int((await asyncio.wait_for(reader.readline(), 150)).split()[1])
        received = {}
        while (line := await reader.readline()) != b"\r\n":
            name, _, value = line.decode("latin-1").partition(":")
            received[name.lower()] = value.strip()
        return Answer(status, received, reader, writer)

    async def post(self, message: dict, **headers: str | None) -> Answer:
        return await self.request("POST", json.dumps({"jsonrpc": "2.0", **message}).encode(), **headers)

    async def hello(self) -> None:
        answer = await self.post({"id": 0, "method": "initialize", "params": HELLO})
        self.session = {"mcp_session_id": answer.headers["mcp-session-id"], "mcp_protocol_version": "2025-06-18"}
        await self.post({"method": "notifications/initialized"}, **self.session)

    async def ask(self, request_id: int | str, method: str, params: dict | None = None) -> Answer:
        """A request within the session."""
        return await self.post({"id": request_id, "method": method, "params": params or {}}, **self.session)

    async def ask_modern(self, request_id: int | str, method: str, params: dict | None = None, **headers: str | None):
        """A stateless request with the headers it needs, unless they are given."""
        mirrored = {"mcp_protocol_version": "2026-07-28", "mcp_method": method}
        if params and "name" in params:
            mirrored["mcp_name"] = params["name"]
        message = {"id": request_id, "method": method, "params": {**(params or {}), "_meta": META}}
        if params and "_meta" in params:
            message["params"]["_meta"] = {**META, **params["_meta"]}
        return await self.post(message, **(mirrored | headers))

    async def close(self) -> None:
        for writer in self._writers:
            writer.close()


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@contextlib.asynccontextmanager
async def client_of(*sources: FakeSource, tools=()):
    """A client of a crib that knows its tools already."""
    async with memory_crib(*sources, tools=tools) as made:
        await made.crib.current()
        door = HttpDoor(McpService(ProfileView(made.crib), ServerIdentity("toolcrib", "1")))
        server = HttpServer({"/mcp": door.handle})
        await server.start("127.0.0.1", 0)
        client = Client(made, door, server)
        try:
            yield client
        finally:
            await client.close()
            await door.close()
            await server.close(0)


def held(name: str = "slow") -> FakeSource:
    """A server whose tool ``work`` waits to be released."""
    source = FakeSource(name, ["work"])
    source.calling.hold()
    return source


# The handshake era


async def test_a_handshake_client_is_served_within_its_session():
    """Hello, list, call, ping."""
    async with client_of(tools=[add]) as client:
        hello = await client.post({"id": 0, "method": "initialize", "params": HELLO})
        client.session = {"mcp_session_id": hello.headers["mcp-session-id"]}
        ready = await client.post({"method": "notifications/initialized"}, **client.session)
        listed = await (await client.ask(1, "tools/list")).json()
        called = await client.ask(2, "tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
        pinged = await (await client.ask(3, "ping")).json()
        unknown = await client.ask(4, "no/such")

        assert (hello.status, (await hello.json())["result"]["protocolVersion"]) == (200, "2025-06-18")
        assert (ready.status, await ready.body()) == (202, b"")
        assert [tool["name"] for tool in listed["result"]["tools"]] == ["add"]
        assert called.headers["content-type"] == "application/json"
        assert await called.json() == {
            "jsonrpc": "2.0",
            "id": 2,
            "result": {"content": [{"type": "text", "text": "3"}]},
        }
        assert pinged == {"jsonrpc": "2.0", "id": 3, "result": {}}
        assert (unknown.status, (await unknown.json())["error"]["code"]) == (200, -32601)


@pytest.mark.parametrize(
    ("session", "status", "code"),
    [
        ({}, 400, -32600),
        ({"mcp_session_id": "made-up"}, 404, -32600),
        ({"mcp_session_id": "made-up", "mcp_protocol_version": "1999-01-01"}, 400, -32600),
    ],
    ids=["none", "unknown", "odd version"],
)
@pytest.mark.parametrize("method", ["POST", "GET"])
async def test_a_request_without_a_usable_session_is_told_to_begin_anew(method, session, status, code):
    """Clients know a 404 as the end of their session."""
    async with client_of() as client:
        body = b'{"jsonrpc":"2.0","id":1,"method":"ping"}' if method == "POST" else b""
        answer = await client.request(method, body, **session)

        assert (answer.status, (await answer.json())["error"]["code"]) == (status, code)


async def test_a_session_ends_when_its_client_says_so():
    """Its stream and its requests with it."""
    slow = held()
    async with client_of(slow) as client:
        await client.hello()
        stream = await client.request("GET", **client.session)
        running = asyncio.create_task(client.ask(1, "tools/call", {"name": "slow__work"}))
        await slow.calling.reached.wait()

        ended = await client.request("DELETE", **client.session)
        after = await client.ask(2, "ping")
        again = await client.request("DELETE", **client.session)

        assert (ended.status, after.status, again.status, (await running).status) == (204, 404, 404, 200)
        assert (await stream.event()) is None
        assert slow.ended == [client.session["mcp_session_id"]]


async def test_what_a_server_says_after_its_call_reaches_the_client_on_its_standing_stream():
    """A line of its log, and a question, which is answered like any other."""
    chatty, calls = FakeSource("chatty", ["work"]), []
    chatty.answers["work"] = lambda call: calls.append(call) or "done"
    async with client_of(chatty) as client:
        await client.hello()
        await (await client.ask(1, "tools/call", {"name": "chatty__work"})).json()
        channel = calls[0].channel
        with pytest.raises(NotImplementedHere, match="without an event stream"):
            await channel.ask("elicitation/create", b"{}")
        stream = await client.request("GET", **client.session)
        channel.notify("notifications/message", b'{"level":"info","data":"late"}')
        channel.notify("notifications/progress", b'{"progressToken":1,"progress":1}')
        told = await stream.event()
        asking = asyncio.create_task(channel.ask("elicitation/create", b'{"message":"Sure?"}'))
        question = await stream.event()
        await client.post({"id": question["id"], "result": {"action": "accept"}}, **client.session)

        assert (told["method"], told["params"]["data"]) == ("notifications/message", "late")
        assert (question["method"], json.loads(await asking)) == ("elicitation/create", {"action": "accept"})


async def test_a_client_whose_roots_changed_has_servers_told():
    """Whichever session it is of."""
    source = FakeSource("files", ["read"])
    async with client_of(source) as client:
        await client.hello()
        await client.post({"method": "notifications/roots/list_changed"}, **client.session)

        assert [caller.session for caller in source.rooted] == [client.session["mcp_session_id"]]


async def test_sessions_are_kept_apart():
    """The same request id in two of them is two requests."""
    slow = held()
    async with client_of(slow) as client:
        tasks = []
        for _ in range(2):
            await client.hello()
            tasks.append(asyncio.create_task(client.ask(1, "tools/call", {"name": "slow__work"})))
            await slow.calling.reached.wait()
            slow.calling.reached.clear()
        await client.post({"method": "notifications/cancelled", "params": {"requestId": 1}}, **client.session)
        slow.calling.release()

        finished, cancelled = [await task for task in tasks]
        assert "result" in await finished.json()
        assert (await cancelled.event())["error"]["code"] == REQUEST_CANCELLED


async def test_the_standing_stream_tells_of_changed_tools():
    """It is an event stream."""
    async with client_of(tools=[add]) as client:
        await client.hello()
        stream = await client.request("GET", **client.session)
        client.made.native.unregister("add")

        assert (stream.status, stream.headers["content-type"]) == (200, "text/event-stream")
        assert await stream.event() == {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


async def test_a_client_without_a_stream_is_told_of_a_changed_list_with_its_next_answer():
    """Once, and only of lists it has read; not if it has read the list again since."""
    late = FakeSource("late", ["work"])
    late.listing.hold()
    async with client_of(late, tools=[add]) as client:
        await client.hello()
        first = (await (await client.ask(1, "tools/list")).json())["result"]
        late.listing.release()
        await client.made.crib.refresh()
        called = await client.ask(2, "tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
        events = [await called.event(), await called.event(), await called.event()]
        again = await client.ask(3, "tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
        client.made.native.unregister("add")
        listed = await client.ask(4, "tools/list")

        assert [one["server"] for one in first["_meta"]["toolcrib/missing"]] == ["late"]
        assert events[0] == {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        assert (events[1]["id"], events[2]) == (2, None)
        assert [answer.headers["content-type"] for answer in (again, listed)] == ["application/json"] * 2
        assert [tool["name"] for tool in (await listed.json())["result"]["tools"]] == ["late__work"]


async def test_a_second_standing_stream_takes_the_place_of_the_first():
    """A client that comes back need not wait until its lost connection is noticed."""
    async with client_of(tools=[add]) as client:
        await client.hello()
        first = await client.request("GET", **client.session)
        second = await client.request("GET", **client.session)
        client.made.native.unregister("add")

        assert (second.status, await first.event()) == (200, None)
        assert (await second.event())["method"] == "notifications/tools/list_changed"


async def test_a_standing_stream_is_kept_alive():
    """Proxies cut what is silent."""
    async with client_of() as client:
        await client.hello()
        stream = await client.request("GET", **client.session)
        opening = await stream.chunk()
        client.door._ping()

        assert [opening, await stream.chunk()] == [b": ping\n\n"] * 2


async def test_a_request_id_in_use_is_refused():
    """The first request can still be called off."""
    slow = held()
    async with client_of(slow) as client:
        await client.hello()
        running = asyncio.create_task(client.ask(1, "tools/call", {"name": "slow__work"}))
        await slow.calling.reached.wait()
        second = await client.ask(1, "ping")
        await client.post({"method": "notifications/cancelled", "params": {"requestId": 1}}, **client.session)

        assert (second.status, (await second.json())["error"]["code"]) == (400, -32600)
        assert (await (await running).event())["error"]["code"] == REQUEST_CANCELLED


async def test_a_client_that_stops_reading_does_not_fill_the_memory():
    """Of 32 MB of progress most is dropped; what was sent is whole, and the result comes last."""
    source = FakeSource("srv", ["work"])

    def work(call: Request) -> str:
        message = json.dumps({"progress": 1, "message": "x" * 16_000}).encode()
        for _ in range(2000):
            call.channel.notify("notifications/progress", message)
        return "done"

    source.answers["work"] = work
    async with client_of(source) as client:
        await client.hello()
        stream = await client.ask(1, "tools/call", {"name": "srv__work", "_meta": {"progressToken": 1}})
        events = [json.loads(data) for data in SseParser().feed(await stream.body())]

        assert len(events) < 1000
        assert events[-1]["result"]["content"] == [{"type": "text", "text": "done"}]


async def test_progress_turns_the_answer_into_a_stream():
    """With the client's own token; the result comes last."""
    source = FakeSource("srv", ["work"])

    def work(call: Request) -> str:
        call.channel.notify("notifications/progress", b'{"progressToken":77,"progress":0.5}')
        return "done"

    source.answers["work"] = work
    async with client_of(source) as client:
        await client.hello()
        answer = await client.ask(1, "tools/call", {"name": "srv__work", "_meta": {"progressToken": "mine"}})
        modern = await client.ask_modern(1, "tools/call", {"name": "srv__work", "_meta": {"progressToken": 5}})

        for stream, token in ((answer, "mine"), (modern, 5)):
            assert stream.headers["content-type"] == "text/event-stream"
            assert (await stream.event())["params"] == {"progressToken": token, "progress": 0.5}
            assert (await stream.event())["result"]["content"] == [{"type": "text", "text": "done"}]
            assert await stream.event() is None


async def test_a_client_is_asked_on_the_stream_of_its_call():
    """Its answer comes in a request of its own."""
    source = FakeSource("srv", ["work"])

    async def work(call: Request) -> str:
        return json.loads(await call.channel.ask("elicitation/create", b'{"message":"Sure?"}'))["action"]

    source.answers["work"] = work
    async with client_of(source) as client:
        await client.hello()
        stream = await client.ask(1, "tools/call", {"name": "srv__work"})
        question = await stream.event()
        taken = await client.post({"id": question["id"], "result": {"action": "accept"}}, **client.session)

        assert (question["method"], taken.status) == ("elicitation/create", 202)
        assert (await stream.event())["result"]["content"] == [{"type": "text", "text": "accept"}]


async def test_a_cancelled_request_ends_without_a_result():
    """The work stops; the exchange ends with the error that says so, because over HTTP a request has to end."""
    slow = held()
    async with client_of(slow) as client:
        await client.hello()
        running = asyncio.create_task(client.ask(1, "tools/call", {"name": "slow__work"}))
        await slow.calling.reached.wait()
        told = await client.post({"method": "notifications/cancelled", "params": {"requestId": 1}}, **client.session)
        answer = await running

        cancelled = {"jsonrpc": "2.0", "id": 1, "error": {"code": REQUEST_CANCELLED, "message": "Request cancelled"}}
        assert (told.status, answer.status, await answer.event()) == (202, 200, cancelled)
        assert [fields["code"] for fields in client.made.told("call.finished")] == ["TOOL_CANCELLED"]


@pytest.mark.parametrize("request_id", [[1], {"a": 1}, None, 99])
async def test_a_cancellation_of_nothing_is_ignored(request_id):
    """Whatever it names."""
    async with client_of() as client:
        await client.hello()
        params = {"requestId": request_id}

        assert (
            await client.post({"method": "notifications/cancelled", "params": params}, **client.session)
        ).status == 202


async def test_a_handshake_client_that_only_loses_its_connection_is_not_taken_to_cancel():
    """It may come back for the outcome; the work goes on."""
    slow = held()
    async with client_of(slow) as client:
        await client.hello()
        running = asyncio.create_task(client.ask(1, "tools/call", {"name": "slow__work"}))
        await slow.calling.reached.wait()
        running.cancel()
        await client.close()
        slow.calling.release()
        while not client.made.told("call.finished"):
            await asyncio.sleep(0)

        assert [fields["code"] for fields in client.made.told("call.finished")] == [""]


# The stateless era


async def test_a_stateless_client_is_served_without_a_session():
    """Each request says who asks, in its body and in its headers."""
    async with client_of(tools=[add]) as client:
        found = await client.ask_modern(1, "server/discover")
        called = await client.ask_modern(2, "tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
        unknown = await client.ask_modern(3, "no/such")
        noticed = await client.post({"method": "notifications/x"}, mcp_protocol_version="2026-07-28")

        assert "mcp-session-id" not in found.headers
        assert (await found.json())["result"]["supportedVersions"] == ["2026-07-28"]
        assert (await called.json())["result"] == {
            "resultType": "complete",
            "content": [{"type": "text", "text": "3"}],
            "_meta": SIGNED,
        }
        assert (unknown.status, (await unknown.json())["error"]["code"]) == (404, -32601)
        assert noticed.status == 202


@pytest.mark.parametrize(
    "headers",
    [
        {"mcp_protocol_version": None},
        {"mcp_protocol_version": "2025-06-18"},
        {"mcp_method": None},
        {"mcp_method": "tools/list"},
        {"mcp_name": None},
        {"mcp_name": "sub"},
        {"mcp_name": "=?base64?***?="},
    ],
    ids=str,
)
async def test_headers_that_differ_from_the_body_are_refused(headers):
    """What is in front of us routes by them."""
    async with client_of(tools=[add]) as client:
        arguments = {"name": "add", "arguments": {"a": 1, "b": 2}}
        answer = await client.ask_modern(1, "tools/call", arguments, **headers)
        refused = await answer.json()

        assert (answer.status, refused["id"], refused["error"]["code"]) == (400, 1, -32020)


async def test_a_header_that_is_sent_twice_is_refused():
    """Two readers might read two things."""
    async with client_of() as client:
        answer = await client.ask_modern(1, "tools/list", mcp_method="tools/list\r\nmcp-method: tools/list")

        assert (answer.status, (await answer.json())["error"]["code"]) == (400, -32020)


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        ({eras.META_VERSION: "2026-07-28"}, -32602),
        ({eras.META_VERSION: "2099-01-01", eras.META_CLIENT_CAPABILITIES: {}}, -32022),
    ],
)
async def test_a_stateless_request_that_cannot_be_served_is_told_why(meta, code):
    """What is missing, or what is spoken here."""
    async with client_of() as client:
        answer = await client.post(
            {"id": 1, "method": "tools/list", "params": {"_meta": meta}},
            mcp_protocol_version=meta[eras.META_VERSION],
            mcp_method="tools/list",
        )

        assert (answer.status, (await answer.json())["error"]["code"]) == (400, code)


MIRRORED = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"mcp_param_region": "eu"}, 200), ({"mcp_param_region": "us"}, 400), ({}, 400)],
    ids=["same", "different", "missing"],
)
async def test_mirrored_arguments_have_to_agree(headers, status):
    """As the tool declares them."""
    async with client_of(FakeSource("srv", [Tool("work", input_schema=MIRRORED)])) as client:
        params = {"name": "srv__work", "arguments": {"region": "eu"}}
        answer = await client.ask_modern(1, "tools/call", params, **headers)

        assert answer.status == status


async def test_closing_the_connection_cancels_a_stateless_call():
    """There is no other way to say it."""
    slow = held()
    async with client_of(slow) as client:
        running = asyncio.create_task(client.ask_modern(1, "tools/call", {"name": "slow__work"}))
        await slow.calling.reached.wait()
        running.cancel()
        await client.close()
        while not client.made.told("call.finished"):
            await asyncio.sleep(0)

        assert [fields["code"] for fields in client.made.told("call.finished")] == ["TOOL_CANCELLED"]


async def test_a_subscriber_is_acknowledged_told_and_seen_off():
    """The stream ends with a result when the door closes."""
    async with client_of(tools=[add]) as client:
        wanted = {"notifications": {"toolsListChanged": True}}
        stream = await client.ask_modern("sub", "subscriptions/listen", wanted)
        deaf = await client.ask_modern("deaf", "subscriptions/listen", {"notifications": {}})
        acknowledged, empty = await stream.event(), await deaf.event()
        client.made.native.unregister("add")
        changed = await stream.event()
        await client.door.close()
        ended, rest, deaf_end = await stream.event(), await stream.event(), await deaf.event()

    meta = {eras.META_SUBSCRIPTION: "sub"}
    assert acknowledged["params"] == {"notifications": {"toolsListChanged": True}, "_meta": meta}
    assert (changed["method"], changed["params"]) == ("notifications/tools/list_changed", {"_meta": meta})
    assert (ended["id"], ended["result"], rest) == ("sub", {"resultType": "complete", "_meta": meta}, None)
    assert empty["params"]["notifications"] == {}
    assert deaf_end["id"] == "deaf"


async def test_a_subscriber_is_seen_by_people_who_look_on_and_can_be_seen_off():
    """It has no session, but it is here."""
    async with client_of(tools=[add]) as client:
        stream = await client.ask_modern("sub", "subscriptions/listen", {"notifications": {}})
        await stream.event()
        (stay,) = client.door.stays()
        stay.end()
        ended = await stream.event()

        assert (stay.era, stay.idle_s) == ("2026-07-28", 0)
        assert ended["id"] == "sub"
        assert client.door.stays() == []


async def test_a_subscriber_that_leaves_is_forgotten():
    """Nobody is told in vain."""
    async with client_of(tools=[add]) as client:
        stream = await client.ask_modern(1, "subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        await stream.event()
        await stream.close()
        while client.door._subscriptions:
            await asyncio.sleep(0)
        client.made.native.unregister("add")

        assert (await client.ask_modern(2, "tools/list")).status == 200


# Both


async def test_the_list_is_the_same_bytes_every_time():
    """Between requests and between sessions."""
    async with client_of(FakeSource("srv", ["b", "a"]), tools=[add]) as client:
        bodies = set()
        for _ in range(3):
            await client.hello()
            bodies.add(await (await client.ask(1, "tools/list")).body())
        modern = {await (await client.ask_modern(1, "tools/list")).body() for _ in range(3)}

        assert (len(bodies), len(modern)) == (1, 1)


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("POST", {"content_type": "text/plain"}, 415),
        ("POST", {"content_type": None}, 415),
        ("POST", {"content_type": "application/json; charset=utf-8"}, 400),
        ("POST", {"accept": "text/html"}, 406),
        ("POST", {"accept": None}, 400),
        ("POST", {"accept": "*/*"}, 400),
        ("GET", {"accept": "application/json"}, 406),
        ("GET", {"mcp_protocol_version": "2026-07-28"}, 405),
        ("PUT", {}, 405),
        ("PATCH", {}, 405),
        ("DELETE", {}, 404),
    ],
)
async def test_what_http_cannot_do_here_is_said_in_its_own_words(method, headers, status):
    """An empty body is no message, so a request that is otherwise in order is a 400."""
    async with client_of() as client:
        answer = await client.request(method, **headers)

        assert answer.status == status
        assert (await answer.json())["error"]["message"]
        assert (status != 405) or answer.headers["allow"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', -32700),
        (b"[]", -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0"}', -32600),
    ],
)
async def test_a_body_that_is_no_message_is_refused(body, code):
    """With the code of the protocol and no id."""
    async with client_of() as client:
        answer = await client.request("POST", body)
        refused = await answer.json()

        assert (answer.status, refused["id"], refused["error"]["code"]) == (400, None, code)


async def test_a_result_that_cannot_be_written_is_still_answered():
    """A tool may return anything; the client never waits for nothing."""
    source = FakeSource("srv", ["work"])
    source.answers["work"] = Result({"content": [], "_meta": {"odd": object()}})
    async with client_of(source) as client:
        await client.hello()
        answer = await client.ask(1, "tools/call", {"name": "srv__work"})

        assert (answer.status, (await answer.json())["error"]["code"]) == (500, -32603)


async def test_a_call_that_is_silent_for_long_is_kept_alive():
    """It becomes a stream with pings in it; the result comes as an event."""
    slow = held()
    async with client_of(slow) as client:
        await client.hello()
        running = asyncio.create_task(client.ask(1, "tools/call", {"name": "slow__work"}))
        await slow.calling.reached.wait()
        client.door._ping()
        client.door._ping()
        answer = await running
        first = await answer.chunk()
        slow.calling.release()

        assert (answer.headers["content-type"], first) == ("text/event-stream", b": ping\n\n")
        assert (await answer.event())["result"]["content"] == [{"type": "text", "text": "work ran"}]


async def test_a_client_that_takes_json_only_gets_json_only():
    """However long it takes and whatever the server tells or asks before."""
    source, refusals = held(), []

    async def work(call: Request) -> str:
        call.channel.notify("notifications/message", b"{}")
        try:
            await call.channel.ask("elicitation/create", b"{}")
        except NotImplementedHere as error:
            refusals.append(error)
        return f"progress wanted: {call.channel.wants_progress}"

    source.answers["work"] = work
    async with client_of(source) as client:
        await client.hello()
        params = {"name": "slow__work", "_meta": {"progressToken": 1}}
        asked = client.post(
            {"id": 1, "method": "tools/call", "params": params}, accept="application/json", **client.session
        )
        running = asyncio.create_task(asked)
        await source.calling.reached.wait()
        client.door._ping()
        client.door._ping()
        source.calling.release()
        answer = await running

        assert (answer.headers["content-type"], len(refusals)) == ("application/json", 1)
        assert (await answer.json())["result"]["content"] == [{"type": "text", "text": "progress wanted: False"}]


async def test_a_client_that_takes_json_only_cannot_subscribe():
    """A subscription is a stream."""
    async with client_of() as client:
        answer = await client.ask_modern(1, "subscriptions/listen", {"notifications": {}}, accept="application/json")

        assert (answer.status, client.door._subscriptions) == (406, {})


async def test_a_stateless_initialize_is_no_method():
    """The era that carries its version in each request shakes no hands."""
    async with client_of() as client:
        answer = await client.ask_modern(1, "initialize", HELLO)

        assert (answer.status, (await answer.json())["error"]["code"]) == (404, -32601)


async def test_a_closed_door_is_told_of_no_changes():
    """The crib forgets it; closing twice does no harm."""
    async with client_of(tools=[add]) as client:
        listening = len(client.made.crib._current._listeners)
        await client.door.close()
        await client.door.close()

        assert len(client.made.crib._current._listeners) == listening - 1


async def test_closing_the_door_ends_what_still_runs():
    """Nobody is left waiting."""
    slow = held()
    async with client_of(slow) as client:
        await client.hello()
        stream = await client.request("GET", **client.session)
        running = asyncio.create_task(client.ask(1, "tools/call", {"name": "slow__work"}))
        await slow.calling.reached.wait()

        await client.door.close()

        assert (await (await running).event())["error"]["code"] == REQUEST_CANCELLED
        assert await stream.event() is None


async def test_too_many_subscriptions_are_refused(monkeypatch):
    """The limit protects everybody else."""
    monkeypatch.setattr(http, "SUBSCRIPTIONS_MAX", 1)
    async with client_of() as client:
        statuses = [
            (await client.ask_modern(number, "subscriptions/listen", {"notifications": {}})).status for number in (1, 2)
        ]

        assert statuses == [200, 400]
