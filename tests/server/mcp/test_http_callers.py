"""Several callers at one HTTP door: each has its own sessions, calls and listings, and loses them with its token."""

import asyncio
import contextlib

import pytest
from tests.server.mcp.test_http import HELLO, Client, held

from toolcrib.core.access import EVERYTHING, LOCAL_USER, Caller, Grants
from toolcrib.core.offers import SecurityLevel, Tool
from toolcrib.core.requests import Request
from toolcrib.crib.builder import open_crib
from toolcrib.crib.window import ProfileView
from toolcrib.server.mcp import http
from toolcrib.server.mcp.http import HttpDoor
from toolcrib.server.mcp.service import McpService, ServerIdentity
from toolcrib.testing import FakeSource, memory_crib
from toolcrib.transports.http.server import GuardPolicy, HttpServer
from toolcrib.wire.jsonrpc import REQUEST_CANCELLED

ANN = Caller("token:a", "token", EVERYTHING)
BOB = Caller("token:b", "agent", Grants(SecurityLevel.READ_ONLY))
NOBODY = Caller("nobody")
HOLDERS = {b"ann": ANN, b"bob": BOB}


class Known(Client):
    """A client with a token."""

    def __init__(self, other: Client, token: str) -> None:
        super().__init__(other.made, other.door, other._server)
        self._token = token

    async def request(self, method: str, body: bytes = b"", **headers: str | None):
        return await super().request(method, body, authorization=f"Bearer {self._token}", **headers)


@contextlib.asynccontextmanager
async def clients(*sources: FakeSource, holders=HOLDERS):
    """Ann and Bob at one door."""
    async with memory_crib(*sources) as made:
        await made.crib.current()
        mcp = McpService(ProfileView(made.crib), ServerIdentity("toolcrib", "1"))
        door = HttpDoor(mcp, NOBODY, lambda caller: any(caller.id == known.id for known in holders.values()))
        server = HttpServer({"/mcp": door.handle}, policy=GuardPolicy(identify=holders.get))
        await server.start("127.0.0.1", 0)
        both = [Known(Client(made, door, server), token) for token in ("ann", "bob")]
        try:
            yield both
        finally:
            for client in both:
                await client.close()
            await door.close()
            await server.close(0)


def told(source: FakeSource, tool: str = "work") -> list[Caller]:
    """Who called, as the source saw it."""
    callers: list[Caller] = []

    def work(call: Request) -> str:
        callers.append(call.caller)
        return "done"

    source.answers[tool] = work
    return callers


async def test_calls_of_a_session_carry_its_caller_and_its_id():
    """A stateless call carries the caller alone."""
    source = FakeSource("srv", ["work"])
    callers = told(source)
    async with clients(source) as (ann, _):
        await ann.hello()
        await (await ann.ask(1, "tools/call", {"name": "srv__work"})).body()
        await (await ann.ask_modern(2, "tools/call", {"name": "srv__work"})).body()

        session = ann.session["mcp_session_id"]
        assert callers == [Caller("token:a", "token", EVERYTHING, session), ANN]


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
async def test_nobody_can_use_the_session_of_another(method):
    """The answer is that of a session nobody opened; its owner notices nothing."""
    async with clients(FakeSource("srv", ["work"])) as (ann, bob):
        await ann.hello()
        body = b'{"jsonrpc":"2.0","id":1,"method":"ping"}' if method == "POST" else b""
        foreign = await bob.request(method, body, **ann.session)
        unknown = await bob.request(method, body, mcp_session_id="made-up")

        assert (foreign.status, await foreign.body()) == (404, await unknown.body())
        assert (await ann.ask(1, "ping")).status == 200


async def test_nobody_can_call_off_the_call_of_another():
    """Neither within that session nor from one's own, with the same request id."""
    slow = held()
    async with clients(slow) as (ann, bob):
        await ann.hello()
        await bob.hello()
        running = asyncio.create_task(ann.ask(1, "tools/call", {"name": "slow__work"}))
        await slow.calling.reached.wait()
        cancel = {"method": "notifications/cancelled", "params": {"requestId": 1}}
        statuses = [(await bob.post(cancel, **session)).status for session in (ann.session, bob.session)]
        slow.calling.release()
        answer = await (await running).json()

    assert statuses == [404, 202]
    assert answer["result"]["content"]


async def test_each_caller_is_shown_its_own_tools():
    """In both eras, over one door."""
    source = FakeSource("srv", [Tool("look", security_level=SecurityLevel.READ_ONLY), Tool("change")])
    async with clients(source) as both:
        shown = []
        for client in both:
            await client.hello()
            answers = [await client.ask(1, "tools/list"), await client.ask_modern(2, "tools/list")]
            results = [(await answer.json())["result"] for answer in answers]
            shown += [[tool["name"] for tool in result["tools"]] for result in results]

    assert shown == [["srv__change", "srv__look"]] * 2 + [["srv__look"]] * 2


async def test_other_grants_count_from_the_next_request_on():
    """A session outlives the token it was opened with, its rights do not."""
    source = FakeSource("srv", ["work"])
    callers, holders = told(source), dict(HOLDERS)
    async with clients(source, holders=holders) as (ann, _):
        await ann.hello()
        await (await ann.ask(1, "tools/call", {"name": "srv__work"})).body()
        holders[b"ann"] = Caller("token:a", "token", Grants(SecurityLevel.WRITE, ("srv",)))
        await (await ann.ask(2, "tools/call", {"name": "srv__work"})).body()

    assert [caller.grants for caller in callers] == [EVERYTHING, Grants(SecurityLevel.WRITE, ("srv",))]
    assert callers[0].session == callers[1].session != ""


async def test_a_token_that_ends_takes_its_session_along(monkeypatch):
    """Its next request is refused; its streams and calls end within a moment, those of others go on."""
    monkeypatch.setattr(http, "PING_EVERY_S", 0.05)
    slow, holders = held(), dict(HOLDERS)
    async with clients(slow, holders=holders) as (ann, bob):
        for client in (ann, bob):
            await client.hello()
        streams = [await client.request("GET", **client.session) for client in (ann, bob)]
        params = {"notifications": {"toolsListChanged": True}}
        listening = await ann.ask_modern(7, "subscriptions/listen", params)
        running = asyncio.gather(
            ann.ask(1, "tools/call", {"name": "slow__work"}), ann.ask_modern(2, "tools/call", {"name": "slow__work"})
        )
        while len(slow.calls) < 2:
            await asyncio.sleep(0.005)
        del holders[b"ann"]
        refused = await ann.ask(2, "ping")
        await asyncio.gather(streams[0].body(), listening.body())
        ended = [await call.event() for call in await running]
        holders[b"ann"] = ANN

        assert refused.status == 401
        assert [event["error"]["code"] for event in ended] == [REQUEST_CANCELLED] * 2
        assert (await ann.ask(3, "ping")).status == 404
        assert (await bob.ask(3, "ping")).status == 200
        assert await streams[1].chunk()


async def test_without_tokens_the_caller_of_the_door_makes_all_requests():
    """Limited as the door was told."""
    source = FakeSource("srv", [Tool("look", security_level=SecurityLevel.READ_ONLY), Tool("work")])
    callers = told(source, "look")
    limited = Caller("local", "agent", Grants(SecurityLevel.READ_ONLY))
    async with memory_crib(source) as made:
        await made.crib.current()
        door = HttpDoor(McpService(ProfileView(made.crib), ServerIdentity()), limited)
        server = HttpServer({"/mcp": door.handle})
        await server.start("127.0.0.1", 0)
        client = Client(made, door, server)
        listed = await (await client.ask_modern(1, "tools/list")).json()
        await (await client.ask_modern(2, "tools/call", {"name": "srv__look"})).body()
        await client.close()
        await door.close()
        await server.close(0)

    assert [tool["name"] for tool in listed["result"]["tools"]] == ["srv__look"]
    assert callers == [limited]


async def test_the_token_of_a_client_never_travels_on_to_a_server(tmp_path):
    """What a client sends to toolcrib is for toolcrib."""
    seen: list[tuple[bytes, bytes]] = []
    async with memory_crib(FakeSource("inner", ["work"])) as made:
        await made.crib.current()
        inner = HttpDoor(McpService(ProfileView(made.crib), ServerIdentity()))

        def noting(request, exchange) -> None:
            seen.extend([*request.headers, (b"body", request.body)])
            inner.handle(request, exchange)

        backend = HttpServer({"/mcp": noting})
        await backend.start("127.0.0.1", 0)
        async with open_crib({"mcpServers": {"far": {"url": f"http://{backend.address}/mcp"}}}) as crib:
            door = HttpDoor(McpService(ProfileView(crib), ServerIdentity()), LOCAL_USER)
            server = HttpServer({"/mcp": door.handle}, policy=GuardPolicy(identify={b"ann-s3cret": ANN}.get))
            await server.start("127.0.0.1", 0)
            ann = Known(Client(made, door, server), "ann-s3cret")
            answer = await ann.post({"id": 0, "method": "initialize", "params": HELLO})
            ann.session = {"mcp_session_id": answer.headers["mcp-session-id"]}
            await (await ann.ask(1, "tools/list")).body()
            called = await (await ann.ask(2, "tools/call", {"name": "far__inner__work"})).json()
            modern = await (await ann.ask_modern(3, "tools/call", {"name": "far__inner__work"})).json()
            await ann.close()
            await door.close()
            await server.close(0)
        await inner.close()
        await backend.close(0)

    assert "result" in called
    assert "result" in modern
    assert seen
    assert b"authorization" not in {name for name, _ in seen}
    assert not any(b"s3cret" in value for _, value in seen)
