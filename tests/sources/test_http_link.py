"""The HTTP link: each question a request of its own, answered by JSON or a stream, whatever the server makes of it."""

import asyncio
import contextlib
import json
from collections.abc import Callable

import pytest

from toolcrib.config.model import ServerConfig
from toolcrib.core.call import ToolCall
from toolcrib.core.errors import ConnectionLost, ProtocolError, RemoteError, SourceUnavailable
from toolcrib.core.tasks import TaskScope
from toolcrib.doors.mcp.http import HttpDoor
from toolcrib.doors.mcp.service import McpService, ServerIdentity
from toolcrib.sources import http_stream
from toolcrib.sources.http_link import HttpLink
from toolcrib.sources.link import LinkEvents, Question
from toolcrib.sources.mcp import McpSource
from toolcrib.sources.negotiate import Offer, negotiate
from toolcrib.sources.supervise import Supervisor, SupervisorSettings
from toolcrib.testing import FakeSource, MemoryCrib, RecordingChannel, memory_crib
from toolcrib.transports.http_server import Exchange, HttpServer, Request

OFFER = Offer({"name": "toolcrib", "version": "1"}, {})


class Linked:
    """A link, what it told its owner, and the requests that reached the other side."""

    def __init__(self, url: str, **config: object) -> None:
        self.heard: list[str] = []
        self.changed = asyncio.Event()
        self.tasks = TaskScope(lambda name, error: self.heard.append(repr(error)))
        events = LinkEvents(self._changed, lambda: self.heard.append("lost"))
        self.link = HttpLink(ServerConfig("srv", url=url, **config), events, self.tasks)

    def _changed(self) -> None:
        self.heard.append("changed")
        self.changed.set()

    async def ask(self, method: str = "tools/call", params: object = None, **fields: object) -> object:
        question = Question(self.link.new_id(), method, json.dumps(params or {}).encode(), **fields)
        return json.loads(bytes(await asyncio.wait_for(self.link.ask(question), 5)))

    async def close(self) -> None:
        await self.link.close()
        await self.tasks.close()


@contextlib.asynccontextmanager
async def scripted(handle: Callable[[Request, Exchange], None], **config: object):
    """A link to a server that does what a function says."""
    server = HttpServer({"/mcp": handle})
    await server.start("127.0.0.1", 0)
    linked = Linked(f"http://{server.address}/mcp", **config)
    try:
        yield linked
    finally:
        await linked.close()
        await server.close(0)


def answering(status: int = 200, body: bytes | None = None, **headers: bytes):
    """A handler that gives each request the same answer; without a body, the result ``{"n": 1}``."""

    def handle(request: Request, exchange: Exchange) -> None:
        request_id = json.loads(request.body).get("id") if request.body else None
        given = b'{"jsonrpc":"2.0","id":%d,"result":{"n":1}}' % (request_id or 0) if body is None else body
        exchange.answer(status, given, headers=[(name.encode(), value) for name, value in headers.items()])

    return handle


def streaming(*events: str, end: bool = True):
    """A handler that answers with an event stream; ``{id}`` stands for the request's id."""

    def handle(request: Request, exchange: Exchange) -> None:
        request_id = json.loads(request.body).get("id") if request.body else 0
        exchange.start_stream(200)
        for event in events:
            exchange.write(event.replace("{id}", str(request_id)).encode() + b"\n\n")
        if end:
            exchange.end()

    return handle


RESULT = 'data: {"jsonrpc":"2.0","id":{id},"result":{"n":1}}'


@contextlib.asynccontextmanager
async def back_to_back(*sources: FakeSource, tools=()):
    """A source over HTTP, whose other end is toolcrib's own door."""
    async with memory_crib(*sources, tools=tools) as made:
        await made.crib.current()
        door = HttpDoor(McpService(made.crib, ServerIdentity("toolcrib", "1")))
        server = HttpServer({"/mcp": door.handle})
        await server.start("127.0.0.1", 0)
        try:
            yield made, f"http://{server.address}/mcp"
        finally:
            await door.close()
            await server.close(0)


def over_http(url: str, tasks: TaskScope) -> McpSource:
    async def dial(events: LinkEvents) -> HttpLink:
        return await HttpLink.open(ServerConfig("srv", url=url), events, tasks)

    supervisor = Supervisor("srv", dial, OFFER, SupervisorSettings(delays_s=(0.0,)), lambda event: None)
    return McpSource("srv", supervisor, OFFER, is_http=True)


@pytest.mark.parametrize("era", ["2025-06-18", "2026-07-28"])
async def test_both_ends_of_toolcrib_understand_each_other(era):
    """Listed, called, told of changes, in either era."""
    heard, tasks = asyncio.Event(), TaskScope(lambda name, error: None)

    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    async with back_to_back(tools=[add]) as (made, url):
        source = over_http(url, tasks)
        source.supervisor.remembered = era
        source.on_change(heard.set)
        listing = await source.list_tools()
        result = await source.call_tool(ToolCall("srv__add", "add", {"a": 1, "b": 2}))
        await _until_heard(made, heard)
        await source.close()
        await tasks.close()

    assert ([tool.name for tool in listing.tools], result.text) == (["add"], "3")
    assert listing.era == ("2026-07-28" if era == "2026-07-28" else "2025-11-25")


async def _until_heard(made: MemoryCrib, heard: asyncio.Event) -> None:
    """Change the tools until the change is heard: the listening stream opens in the background."""
    for number in range(1000):
        made.native.register(_named(f"t{number}"))
        await asyncio.sleep(0)
        if heard.is_set():
            return
    await asyncio.wait_for(heard.wait(), 5)


def _named(name: str):
    def function() -> None:
        pass

    function.__name__ = name
    return function


async def test_a_question_goes_through_both_ends_to_the_client():
    """Progress too; the handshake era asks in the middle of the call."""
    inner = FakeSource("inner", ["work"])

    async def work(call: ToolCall) -> str:
        call.channel.notify("notifications/progress", b'{"progressToken":0,"progress":0.5}')
        return json.loads(await call.channel.ask("roots/list", b"{}"))["roots"]

    inner.answers["work"] = work
    channel = RecordingChannel({"roots/list": {"roots": "mine"}}, capabilities={"roots": {}}, wants_progress=True)
    async with back_to_back(inner) as (_, url):
        tasks = TaskScope(lambda name, error: None)
        link = await HttpLink.open(ServerConfig("srv", url=url), LinkEvents(lambda: None, lambda: None), tasks)
        await negotiate(link, Offer(OFFER.info, {"roots": {}}), "2025-06-18")
        params = json.dumps({"name": "inner__work", "_meta": {"progressToken": 9}}).encode()
        raw = await asyncio.wait_for(link.ask(Question(9, "tools/call", params, channel=channel)), 5)
        await link.close()
        await tasks.close()

    assert json.loads(bytes(raw))["content"] == [{"type": "text", "text": "mine"}]
    assert channel.told == [("notifications/progress", {"progressToken": 9, "progress": 0.5})]
    assert channel.asked == [("roots/list", {})]


@pytest.mark.parametrize("era", ["2025-06-18", "2026-07-28"])
async def test_giving_up_reaches_the_tool(era):
    """Through a notification in the handshake era, through the closed connection afterwards."""
    inner = FakeSource("inner", ["work"])
    inner.calling.hold()
    async with back_to_back(inner) as (made, url):
        tasks = TaskScope(lambda name, error: None)
        source = over_http(url, tasks)
        source.supervisor.remembered = era
        running = asyncio.create_task(source.call_tool(ToolCall("srv__x", "inner__work", {})))
        await inner.calling.reached.wait()
        running.cancel()
        await asyncio.wait([running])
        while not made.told("call.finished"):
            await asyncio.sleep(0)
        await source.close()
        await tasks.close()

    assert [fields["code"] for fields in made.told("call.finished")] == ["TOOL_CANCELLED"]


@pytest.mark.parametrize(
    "handler",
    [
        answering(),
        streaming(RESULT),
        streaming(": ping", "data: nonsense", 'data: {"jsonrpc":"2.0","id":77,"result":{"n":7}}', RESULT),
        streaming('event: message\r\ndata: {\ndata: "id":{id},"result":{"n":1}}'),
    ],
    ids=["json", "stream", "noisy stream", "lines"],
)
async def test_an_answer_is_found_in_either_form(handler):
    """JSON or a stream with other things in it."""
    async with scripted(handler) as linked:
        assert await linked.ask() == {"n": 1}
        assert not linked.link.is_busy


async def test_an_answer_on_a_stream_that_stays_open_is_not_waited_for(monkeypatch):
    """A moment's patience, then the stream is left."""
    monkeypatch.setattr(http_stream, "CLOSE_PATIENCE_S", 0.001)
    async with scripted(streaming(RESULT, end=False)) as linked:
        assert await linked.ask() == {"n": 1}
        assert asyncio.current_task().cancelling() == 0


async def test_what_is_told_on_a_stream_goes_to_the_call_and_to_the_owner():
    """Progress and messages to the call, changed tools to the owner."""
    channel = RecordingChannel()
    progress = 'data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}'
    changed = 'data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'
    async with scripted(streaming(progress, changed, RESULT)) as linked:
        await linked.ask(channel=channel)

        assert (channel.told, linked.heard) == ([("notifications/progress", {"progress": 1})], ["changed"])


async def test_a_stream_that_ends_early_is_gone_on_with(monkeypatch):
    """From the last event that was seen, when the server gave it a name."""
    monkeypatch.setattr(http_stream, "RESUME_DELAY_S", 0.0)
    seen = []

    def handle(request: Request, exchange: Exchange) -> None:
        seen.append((request.method, request.header(b"last-event-id")))
        exchange.start_stream(200)
        if request.method == b"POST":
            exchange.write(b"id: e7\ndata:\n\n")
        else:
            exchange.write(b'data: {"jsonrpc":"2.0","id":1,"result":{"n":1}}\n\n')
        exchange.end()

    async with scripted(handle) as linked:
        assert await linked.ask() == {"n": 1}

    assert seen == [(b"POST", None), (b"GET", b"e7")]


async def test_a_stream_that_ends_without_the_answer_is_a_lost_connection():
    """It was sent: whether it had its effect is not known."""
    async with scripted(streaming(": nothing")) as linked:
        question = Question(1, "tools/call", b"{}")
        with pytest.raises(ConnectionLost, match="before it was complete"):
            await linked.link.ask(question)

    assert question.sent


@pytest.mark.parametrize(
    ("handler", "error", "words"),
    [
        (answering(401, b"{}"), SourceUnavailable, "HTTP 401: it wants a credential"),
        (answering(403, b"no"), SourceUnavailable, "HTTP 403: it wants a credential"),
        (answering(503, b"", **{"retry-after": b"7"}), SourceUnavailable, "HTTP 503; it asks to try again in 7 s"),
        (answering(429, b"", **{"retry-after": b"\xb2"}), SourceUnavailable, "HTTP 429"),
        (answering(429, b"", **{"retry-after": b"9" * 5000}), SourceUnavailable, "HTTP 429"),
        (answering(500, b"oops"), SourceUnavailable, "HTTP 500"),
        (answering(404, b"<html>"), RemoteError, "HTTP 404"),
        (answering(200, b"<html>"), ProtocolError, "no JSON-RPC message"),
        (answering(200, b'{"id":1,"result":"\xff"}'), ProtocolError, "no JSON-RPC message"),
        (answering(200, b'{"id":1,"error":{"code":-5,"message":"own words"}}'), RemoteError, "own words"),
        (answering(400, b'{"id":1,"error":{"code":-5,"message":"own words"}}'), RemoteError, "own words"),
        (streaming('data: {"id":{id},"error":{"code":-5,"message":"own words"}}'), RemoteError, "own words"),
    ],
)
async def test_what_is_no_answer_says_what_it_is(handler, error, words):
    """In words a person can act on; a JSON-RPC error goes first."""
    async with scripted(handler) as linked:
        with pytest.raises(error, match=words):
            await linked.ask()


async def test_a_server_that_is_not_there_is_lost_and_the_call_known_not_to_be_sent():
    """It may be made again without harm."""
    server = HttpServer({})
    await server.start("127.0.0.1", 0)
    url = f"http://{server.address}/mcp"
    await server.close(0)
    linked = Linked(url)
    question = Question(1, "tools/call", b"{}")

    with pytest.raises(ConnectionLost):
        await linked.link.ask(question)
    with pytest.raises(ConnectionLost, match="has ended"):
        await linked.ask()
    await linked.close()

    assert (question.sent, linked.heard, linked.link.is_open) == (False, ["lost"], False)


async def test_the_session_is_kept_and_ended():
    """Each request carries it, and the version once it is agreed; the end is told."""
    seen = []

    def handle(request: Request, exchange: Exchange) -> None:
        seen.append((request.method, request.header(b"mcp-session-id"), request.header(b"mcp-protocol-version")))
        answering(200, None, **{"mcp-session-id": b"s1"})(request, exchange)

    async with scripted(handle, headers={"Authorization": "Bearer x"}) as linked:
        await linked.ask("initialize")
        linked.link.agree("2025-06-18")
        linked.link.tell("notifications/initialized", b"{}")
        await linked.ask()

    assert seen == [
        (b"POST", None, None),
        (b"POST", b"s1", b"2025-06-18"),
        (b"POST", b"s1", b"2025-06-18"),
        (b"DELETE", b"s1", b"2025-06-18"),
    ]


async def test_a_forgotten_session_is_a_lost_connection_that_never_carried_the_call():
    """The next need shakes hands again."""
    statuses = iter([200, 404])

    def handle(request: Request, exchange: Exchange) -> None:
        answering(next(statuses, 200), None, **{"mcp-session-id": b"s1"})(request, exchange)

    async with scripted(handle) as linked:
        await linked.ask("initialize")
        question = Question(5, "tools/call", b"{}")
        with pytest.raises(ConnectionLost, match="forgotten our session"):
            await linked.link.ask(question)

        assert (question.sent, linked.link.is_open, linked.heard) == (False, False, ["lost"])


async def test_a_stateless_question_is_mirrored_into_its_headers():
    """Method, name, version, and what the tool declared; the user's own headers too."""
    seen = []

    def handle(request: Request, exchange: Exchange) -> None:
        seen.append({name: value for name, value in request.headers if name.startswith((b"mcp-", b"x-"))})
        answering()(request, exchange)

    async with scripted(handle, headers={"X-Own": "1"}) as linked:
        await linked.ask(name="größe", version="2026-07-28", headers=[(b"Mcp-Param-Region", b"eu")])
        linked.link.agree("2026-07-28")
        await linked.ask("tools/list", version="2026-07-28")

    common = {b"x-own": b"1", b"mcp-protocol-version": b"2026-07-28"}
    assert seen == [
        common | {b"mcp-method": b"tools/call", b"mcp-name": b"=?base64?Z3LDtsOfZQ==?=", b"mcp-param-region": b"eu"},
        common | {b"mcp-method": b"tools/list"},
    ]


async def test_a_server_without_a_stream_is_not_pestered():
    """It said once that it has none."""
    seen = []

    def handle(request: Request, exchange: Exchange) -> None:
        seen.append(request.method)
        exchange.answer(405, b"")

    async with scripted(handle) as linked:
        linked.link.agree("2025-06-18")
        linked.link.listen(b"{}")
        await asyncio.wait_for(linked.link._listener, 5)

    assert seen == [b"GET"]
