"""The HTTP link: each question a request of its own, answered by JSON or a stream, whatever the server makes of it."""

import asyncio
import contextlib
import json
from collections.abc import Callable

import pytest
from tests.sources.thinking import Thinking

from toolcrib.config.model import ServerConfig
from toolcrib.core.access import LOCAL_USER, Caller
from toolcrib.core.errors import ConfigError, ConnectionLost, ProtocolError, RemoteError, SourceUnavailable, ToolFailed
from toolcrib.core.requests import Request
from toolcrib.core.tasks import TaskScope
from toolcrib.crib.window import ProfileView
from toolcrib.server.mcp.http import HttpDoor
from toolcrib.server.mcp.service import McpService, ServerIdentity
from toolcrib.sources.mcp import answer_stream as http_stream
from toolcrib.sources.mcp import http_link
from toolcrib.sources.mcp import link as relay
from toolcrib.sources.mcp.answer_stream import AnswerStream
from toolcrib.sources.mcp.comeback import SupervisorSettings
from toolcrib.sources.mcp.http_link import HttpLink
from toolcrib.sources.mcp.link import LinkEvents, ServerRequest
from toolcrib.sources.mcp.negotiate import ClientIdentity, negotiate
from toolcrib.sources.mcp.source import McpSource
from toolcrib.sources.mcp.supervise import Supervisor
from toolcrib.testing import FakeSource, ManualClock, MemoryCrib, RecordingChannel, memory_crib
from toolcrib.transports.http import dial as http_dial
from toolcrib.transports.http.dial import HttpFailure, HttpOrigin
from toolcrib.transports.http.server import Exchange, HttpRequest, HttpServer

OFFER = ClientIdentity({"name": "toolcrib", "version": "1"}, {})


class Linked:
    """A link, what it told its owner, and the requests that reached the other side."""

    def __init__(self, url: str, **config: object) -> None:
        self.heard: list[str] = []
        self.changed = asyncio.Event()
        self.tasks = TaskScope(lambda name, error: self.heard.append(repr(error)))
        self.completed: list[RecordingChannel | None] = []
        events = LinkEvents(
            self._changed,
            lambda: self.heard.append("lost"),
            completed=lambda _, sole: self.completed.append(sole),
        )
        self.link = HttpLink(ServerConfig("srv", url=url, **config), events, self.tasks)

    def _changed(self) -> None:
        self.heard.append("changed")
        self.changed.set()

    async def ask(self, method: str = "tools/call", params: object = None, **fields: object) -> object:
        question = ServerRequest(self.link.new_id(), method, json.dumps(params or {}).encode(), **fields)
        return json.loads(bytes(await asyncio.wait_for(self.link.ask(question), 150)))

    async def close(self) -> None:
        await self.link.close()
        await self.tasks.close()


@contextlib.asynccontextmanager
async def scripted(handle: Callable[[HttpRequest, Exchange], None], **config: object):
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

    def handle(request: HttpRequest, exchange: Exchange) -> None:
        request_id = json.loads(request.body).get("id") if request.body else None
        given = b'{"jsonrpc":"2.0","id":%d,"result":{"n":1}}' % (request_id or 0) if body is None else body
        exchange.answer(status, given, headers=[(name.encode(), value) for name, value in headers.items()])

    return handle


def streaming(*events: str, end: bool = True):
    """A handler that answers with an event stream; ``{id}`` stands for the request's id."""

    def handle(request: HttpRequest, exchange: Exchange) -> None:
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
        door = HttpDoor(McpService(ProfileView(made.crib), ServerIdentity("toolcrib", "1")))
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
        listing = await source.list_offers()
        result = await source.answer(Request("srv__add", "add", {"a": 1, "b": 2}))
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
    await asyncio.wait_for(heard.wait(), 150)


def _named(name: str):
    def function() -> None:
        pass

    function.__name__ = name
    return function


async def test_a_question_goes_through_both_ends_to_the_client():
    """Progress too; the handshake era asks in the middle of the call."""
    inner = FakeSource("inner", ["work"])

    async def work(call: Request) -> str:
        call.channel.notify("notifications/progress", b'{"progressToken":0,"progress":0.5}')
        return json.loads(await call.channel.ask("roots/list", b"{}"))["roots"]

    inner.answers["work"] = work
    channel = RecordingChannel({"roots/list": {"roots": "mine"}}, capabilities={"roots": {}}, wants_progress=True)
    async with back_to_back(inner) as (_, url):
        tasks = TaskScope(lambda name, error: None)
        link = await HttpLink.open(ServerConfig("srv", url=url), LinkEvents(lambda: None, lambda: None), tasks)
        await negotiate(link, ClientIdentity(OFFER.info, {"roots": {}}), "2025-06-18")
        params = json.dumps({"name": "inner__work", "_meta": {"progressToken": 9}}).encode()
        raw = await asyncio.wait_for(link.ask(ServerRequest(9, "tools/call", params, channel=channel)), 150)
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
        running = asyncio.create_task(source.answer(Request("srv__x", "inner__work", {})))
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


async def test_what_is_done_at_an_address_is_of_the_call_on_whose_stream_it_is_told():
    """Whoever else uses the link."""
    ann, ben = RecordingChannel(), RecordingChannel()
    done = 'data: {"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"e1"}}'
    async with scripted(streaming(done, RESULT)) as linked:
        await linked.ask(channel=ann, caller=Caller("ann"))
        await linked.ask(channel=ben, caller=Caller("ben"))

        assert linked.completed == [ann, ben]


async def test_a_stream_that_ends_early_is_gone_on_with(monkeypatch):
    """From the last event that was seen, when the server gave it a name."""
    monkeypatch.setattr(http_stream, "RESUME_DELAY_S", 0.0)
    seen = []

    def handle(request: HttpRequest, exchange: Exchange) -> None:
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
        question = ServerRequest(1, "tools/call", b"{}")
        with pytest.raises(ConnectionLost, match="before it was complete"):
            await linked.link.ask(question)

    assert question.sent


@pytest.mark.parametrize(
    ("handler", "error", "words"),
    [
        (answering(401, b"{}"), SourceUnavailable, "HTTP 401: it wants a credential"),
        (answering(403, b"no"), SourceUnavailable, "HTTP 403: it does not allow this"),
        (
            answering(401, b'{"id":1,"error":{"code":-5,"message":"own words"}}'),
            SourceUnavailable,
            "HTTP 401: .*own words",
        ),
        (answering(403, b'{"id":1,"result":{}}'), SourceUnavailable, "HTTP 403"),
        (answering(503, b"", **{"retry-after": b"7"}), SourceUnavailable, "HTTP 503; it asks to try again in 7 s"),
        (answering(429, b"", **{"retry-after": b"\xb2"}), SourceUnavailable, "HTTP 429"),
        (answering(429, b"", **{"retry-after": b"9" * 5000}), SourceUnavailable, "HTTP 429"),
        (answering(500, b"oops"), ToolFailed, "HTTP 500"),
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
    question = ServerRequest(1, "tools/call", b"{}")

    with pytest.raises(ConnectionLost):
        await linked.link.ask(question)
    with pytest.raises(ConnectionLost, match="has ended"):
        await linked.ask()
    await linked.close()

    assert (question.sent, linked.heard, linked.link.is_open) == (False, ["lost"], False)


async def test_the_session_is_kept_and_ended():
    """Each request carries it, and the version once it is agreed; the end is told."""
    seen = []

    def handle(request: HttpRequest, exchange: Exchange) -> None:
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

    def handle(request: HttpRequest, exchange: Exchange) -> None:
        answering(next(statuses, 200), None, **{"mcp-session-id": b"s1"})(request, exchange)

    async with scripted(handle) as linked:
        await linked.ask("initialize")
        question = ServerRequest(5, "tools/call", b"{}")
        with pytest.raises(ConnectionLost, match="forgotten our session"):
            await linked.link.ask(question)

        assert (question.sent, linked.link.is_open, linked.heard) == (False, False, ["lost"])


async def test_a_stateless_question_is_mirrored_into_its_headers():
    """Method, name, version, and what the tool declared; the user's own headers too."""
    seen = []

    def handle(request: HttpRequest, exchange: Exchange) -> None:
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

    def handle(request: HttpRequest, exchange: Exchange) -> None:
        seen.append(request.method)
        exchange.answer(405, b"")

    async with scripted(handle) as linked:
        linked.link.agree("2025-06-18")
        linked.link.listen(b"{}")
        await asyncio.wait_for(linked.link._listener, 150)

    assert seen == [b"GET"]


@pytest.mark.parametrize("value", ["Bearer s3cret\u2019token", "Bearer s3cret\r\nX-Forged: 1"])
async def test_a_header_that_cannot_be_sent_is_named_and_its_value_never_shown(value):
    """Neither in the words nor in what they came from."""
    with pytest.raises(ConfigError, match="The header 'Authorization' of server 'srv'") as refused:
        Linked("http://127.0.0.1:1/mcp", headers={"Authorization": value})

    assert "s3cret" not in f"{refused.value!r} {refused.value.details} {refused.value.__cause__!r}"
    assert refused.value.__suppress_context__


def silent_for(*methods: str):
    """A handler that never answers these methods."""

    def handle(request: HttpRequest, exchange: Exchange) -> None:
        method = json.loads(request.body).get("method") if request.body else ""
        if method not in methods:
            answering()(request, exchange)

    return handle


async def test_a_notification_that_is_never_answered_holds_nobody_up(monkeypatch):
    """Its time is limited: later questions go on, and its connection is given back."""
    monkeypatch.setattr(http_link, "NOTICE_TIMEOUT_S", 0.01)
    async with scripted(silent_for("notifications/initialized", "notifications/cancelled")) as linked:
        linked.link.tell("notifications/initialized", b"{}")
        for _ in range(3):
            linked.link.tell("notifications/cancelled", b"{}")

        assert await linked.ask() == {"n": 1}
        async with asyncio.timeout(150):
            while len(linked.link._pool._connections) > 1:
                await asyncio.sleep(0)


async def test_a_notification_answered_by_a_stream_that_stays_open_holds_nobody_up(monkeypatch):
    """That it was answered is enough."""
    monkeypatch.setattr(http_link, "NOTICE_TIMEOUT_S", 3600.0)

    def handle(request: HttpRequest, exchange: Exchange) -> None:
        is_notice = "id" not in json.loads(request.body)
        (streaming(": open", end=False) if is_notice else answering())(request, exchange)

    async with scripted(handle) as linked:
        linked.link.tell("notifications/initialized", b"{}")

        assert await asyncio.wait_for(linked.ask(), 150) == {"n": 1}


async def test_a_server_that_cannot_be_reached_is_dialled_once_per_attempt():
    """Only one that was there may have died of the first question."""
    server, dialled, tasks = HttpServer({}), [], TaskScope(lambda name, error: None)
    await server.start("127.0.0.1", 0)
    url = f"http://{server.address}/mcp"
    await server.close(0)
    source = over_http(url, tasks)
    dial = source.supervisor._connector.dial
    source.supervisor._connector.dial = lambda events: (dialled.append(1), dial(events))[1]

    with pytest.raises(SourceUnavailable, match="Connection refused"):
        await source.list_offers()
    await source.close()
    await tasks.close()

    assert len(dialled) == 1


async def test_finding_the_address_is_part_of_the_time_to_connect(monkeypatch):
    """A name server that takes its time leaves less for the rest; each address gets its share of that."""
    limits, timeout = [], asyncio.timeout

    async def resolve(origin: HttpOrigin, timeout_s: float) -> list[str]:
        due = asyncio.get_running_loop().time() + timeout_s / 2
        while asyncio.get_running_loop().time() < due:
            await asyncio.sleep(0)
        return ["127.0.0.1", "127.0.0.2"]

    def limited(limit_s: float):
        limits.append(limit_s)
        return timeout(limit_s)

    async def refuse(*_: object) -> asyncio.Protocol:
        raise ConnectionRefusedError

    monkeypatch.setattr(http_dial, "resolve", resolve)
    monkeypatch.setattr(http_dial, "connect", refuse)
    monkeypatch.setattr(http_dial.asyncio, "timeout", limited)
    with pytest.raises(HttpFailure):
        await http_dial.dial(HttpOrigin.parse("http://x/"), asyncio.Protocol, None, 0.2)

    assert len(limits) == 2
    assert limits[0] <= 0.05
    assert limits[1] <= 0.1


@pytest.mark.parametrize(
    "odd",
    [
        answering(500, b"oops"),
        answering(202, b""),
        answering(200, b"hello"),
        answering(200, b"[]"),
        answering(404, b""),
    ],
    ids=["500", "202", "text", "array", "404"],
)
async def test_whatever_is_no_answer_to_the_first_question_means_the_handshake(odd):
    """Old servers and the proxies before them say no in many ways."""
    agreed = b'{"jsonrpc":"2.0","id":%d,"result":{"protocolVersion":"2025-06-18"}}'

    def handle(request: HttpRequest, exchange: Exchange) -> None:
        message = json.loads(request.body or b"{}")
        if message.get("method") == "server/discover":
            odd(request, exchange)
        else:
            exchange.answer(200, agreed % message.get("id", 0))

    async with scripted(handle) as linked:
        agreement = await asyncio.wait_for(negotiate(linked.link, OFFER, ""), 150)

    assert agreement.version == "2025-06-18"


@pytest.mark.parametrize("status", [401, 403, 429, 503])
async def test_a_first_question_that_may_not_be_asked_now_says_nothing_of_the_era(status):
    """The credential or the load is the trouble, and it is told."""
    async with scripted(answering(status, b"")) as linked:
        with pytest.raises(SourceUnavailable, match=f"HTTP {status}"):
            await negotiate(linked.link, OFFER, "")


async def test_the_stream_of_changes_is_opened_again_for_ever(monkeypatch):
    """What changed while there was none is found out: each reopening counts as a change, the first opening does not."""
    monkeypatch.setattr(http_link, "REOPEN_DELAYS_S", (0.0, 0.0))
    opened, enough = [], asyncio.Event()

    def handle(request: HttpRequest, exchange: Exchange) -> None:
        opened.append(request.method)
        if len(opened) == 4:
            exchange.answer(502, b"")
            return
        exchange.start_stream(200)
        exchange.write(b": hello\n\n")
        if len(opened) < 9:
            exchange.end()
        else:
            enough.set()

    async with scripted(handle) as linked:
        linked.link.agree("2025-06-18")
        linked.link.listen(b"{}")
        await asyncio.wait_for(enough.wait(), 150)
        while linked.heard.count("changed") < 7:
            await asyncio.wait_for(linked.changed.wait(), 150)
            linked.changed.clear()

        assert linked.heard == ["changed"] * 7


@pytest.mark.parametrize(("lived_s", "pauses"), [(0.0, [1.0, 2.0, 5.0, 15.0, 30.0, 30.0]), (60.0, [1.0] * 6)])
async def test_the_pauses_between_streams_grow_to_a_limit(monkeypatch, lived_s, pauses):
    """And begin anew after one that lasted."""
    linked, clock, paused = Linked("http://127.0.0.1:1/mcp"), ManualClock(), []
    linked.link._loop = clock
    clock.time = clock

    async def follow(params: bytes, *, is_reopened: bool) -> None:
        clock.advance(lived_s)
        raise SourceUnavailable("cut")

    async def sleep(seconds: float) -> None:
        paused.append(seconds)
        linked.link.is_open = len(paused) < 6

    linked.link._follow_changes = follow
    with monkeypatch.context() as patched:
        patched.setattr(http_link.asyncio, "sleep", sleep)
        await linked.link._listen(b"{}")
    await linked.close()

    assert paused == pauses


QUESTION = 'data: {"jsonrpc":"2.0","id":"q%d","method":"roots/list"}'


@pytest.mark.parametrize(("others", "is_asked"), [((), True), ((Caller("ann", session="s2"),), False)])
async def test_a_question_on_the_standing_stream_is_only_for_a_caller_it_must_be_for(others, is_asked):
    """All calls under way are of one caller in one session; else nobody is asked, and the server is told why."""
    answered, calls, streams, both = asyncio.Event(), [], [], asyncio.Event()
    answers = []

    def handle(request: HttpRequest, exchange: Exchange) -> None:
        message = json.loads(request.body) if request.body else {}
        if message.get("method") == "tools/call":
            calls.append(exchange)
        elif message:
            answers.append(message)
            exchange.answer(202, b"")
            answered.set()
        else:
            exchange.start_stream(200)
            streams.append(exchange)
        if streams and len(calls) == 2 + len(others):
            both.set()

    async with scripted(handle) as linked:
        linked.link.agree("2025-06-18")
        linked.link.listen(b"{}")
        able = RecordingChannel({"roots/list": {"roots": []}}, capabilities={"roots": {}})
        callers = [Caller("ann", session="s1")] * 2 + list(others)
        asking = [asyncio.create_task(linked.ask(channel=able, caller=caller)) for caller in callers]
        await asyncio.wait_for(both.wait(), 150)
        streams[0].write((QUESTION % 1).encode() + b"\n\n")
        await asyncio.wait_for(answered.wait(), 150)
        for task in asking:
            task.cancel()

    assert (answers[0]["id"], "result" in answers[0], "error" in answers[0]) == ("q1", is_asked, not is_asked)


async def test_questions_of_a_server_end_with_the_call_they_were_asked_in(monkeypatch):
    """And there are only so many at once."""
    monkeypatch.setattr(relay, "QUESTIONS_MAX", 3)
    client, exchanges = Thinking(), []

    def handle(request: HttpRequest, exchange: Exchange) -> None:
        exchange.start_stream(200)
        for number in range(5):
            exchange.write((QUESTION % number).encode() + b"\n\n")
        exchanges.append(exchange)

    async with scripted(handle) as linked:
        asking = asyncio.create_task(linked.ask(channel=client))
        async with asyncio.timeout(150):
            while client.thinking < 3:
                await asyncio.sleep(0)
        exchanges[0].write(b'data: {"jsonrpc":"2.0","id":1,"result":{"n":1}}\n\n')
        exchanges[0].end()

        assert await asking == {"n": 1}
        async with asyncio.timeout(150):
            while client.gave_up < 3:
                await asyncio.sleep(0)
        assert client.thinking == 3


async def test_a_question_that_its_server_calls_off_ends_at_the_client():
    """On the stream of the call that it was asked in; the call goes on."""
    client, exchanges = Thinking(), []

    def handle(request: HttpRequest, exchange: Exchange) -> None:
        exchange.start_stream(200)
        exchange.write((QUESTION % 1).encode() + b"\n\n")
        exchanges.append(exchange)

    async with scripted(handle) as linked:
        asking = asyncio.create_task(linked.ask(channel=client))
        async with asyncio.timeout(150):
            while not client.thinking:
                await asyncio.sleep(0)
            called_off = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q1"}}'
            exchanges[0].write(b"data: " + called_off + b"\n\n")
            while not client.gave_up:
                await asyncio.sleep(0)
        exchanges[0].write(b'data: {"jsonrpc":"2.0","id":1,"result":{"n":1}}\n\n')
        exchanges[0].end()

        assert await asking == {"n": 1}


async def test_a_cancellation_from_before_does_not_hide_the_answer():
    """Only what was added meanwhile counts as somebody else's wish."""
    stream = AnswerStream(1, lambda _: None, lambda _: None)

    async def exchange() -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.get_running_loop().create_future()
        try:
            with stream.cut_when_answered():
                asyncio.get_running_loop().call_soon(stream._cut_off)
                await asyncio.get_running_loop().create_future()
        except http_stream.StreamCut:
            return "cut"
        return "ended"

    task = asyncio.create_task(exchange())
    await asyncio.sleep(0)
    task.cancel()

    assert await task == "cut"


async def test_a_call_that_ends_in_a_server_fault_is_no_invitation_to_repeat_it():
    """It may have had its effect; the status is there for a program."""
    async with scripted(answering(502, b"oops")) as linked:
        with pytest.raises(ToolFailed) as failed:
            await linked.ask()
        with pytest.raises(SourceUnavailable):
            await linked.ask("tools/list")

    assert (failed.value.retryable, failed.value.details) == (False, {"http_status": 502})


async def test_an_answer_on_a_stream_that_cannot_be_read_is_not_waited_for(monkeypatch):
    """It names the request, so nothing else will come for it, though the server keeps the stream open."""
    monkeypatch.setattr(http_stream, "CLOSE_PATIENCE_S", 0.001)
    broken = 'data: {"jsonrpc":"2.0","id":{id},"result":{"n":NaN}}'
    async with scripted(streaming(broken, end=False)) as linked:
        with pytest.raises(ProtocolError, match="The server's answer cannot be read"):
            await linked.ask()


@pytest.mark.parametrize("method", ["tools/call", "resources/read", "prompts/get", "completion/complete"])
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_a_request_of_a_caller_that_is_given_up_is_called_off(method, version):
    """Whatever was asked: by a notification in the handshake era, else by the end of its stream alone."""
    seen, asked, told = [], asyncio.Event(), asyncio.Event()

    def handle(request: HttpRequest, exchange: Exchange) -> None:
        message = json.loads(request.body)
        seen.append((message["method"], message.get("params", {}).get("requestId")))
        if message["method"] == method:
            exchange.on_disconnect(told.set)
            asked.set()
        else:
            exchange.answer(202, b"")
            told.set()

    async with scripted(handle) as linked:
        question = ServerRequest(7, method, b"{}", version=version, caller=LOCAL_USER)
        asking = asyncio.ensure_future(linked.link.ask(question))
        await asked.wait()
        asking.cancel()
        await asyncio.wait([asking])
        await told.wait()
        if version == "2025-11-25":
            while len(seen) < 2:  # the end of the stream may be noticed first
                await asyncio.sleep(0)

    expected = [(method, None), ("notifications/cancelled", 7)]
    assert seen == expected[: 1 if version == "2026-07-28" else 2]
