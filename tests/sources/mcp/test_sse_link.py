"""The HTTP+SSE link: one stream that everything comes on, POSTs that say nothing themselves, and servers that cheat."""

import asyncio
import contextlib
import json
from collections.abc import Callable

import pytest

from toolcrib.config.model import ServerConfig
from toolcrib.core.access import Caller
from toolcrib.core.errors import (
    ConnectionLost,
    ProtocolError,
    RemoteError,
    SourceUnavailable,
    ToolcribError,
    ToolFailed,
)
from toolcrib.core.tasks import TaskScope
from toolcrib.sources.mcp import sse_link
from toolcrib.sources.mcp.comeback import SupervisorSettings
from toolcrib.sources.mcp.http_link import HttpLink
from toolcrib.sources.mcp.link import LinkEvents, ServerRequest
from toolcrib.sources.mcp.negotiate import ClientIdentity
from toolcrib.sources.mcp.redactor import Redactor
from toolcrib.sources.mcp.sse_link import SseLink
from toolcrib.sources.mcp.supervise import Supervisor
from toolcrib.testing import RecordingChannel
from toolcrib.transports.http.server import Exchange, HttpRequest, HttpServer
from toolcrib.wire.http import EVENT_LIMIT

OFFER = ClientIdentity({"name": "toolcrib", "version": "1"}, {})
Answer = Callable[["SseServer", dict], None]


class SseServer:
    """A server of 2024-11-05: a stream at ``/sse``, messages to ``/messages``; what it says to each is a function."""

    def __init__(self, answer: Answer, endpoint: str = "/messages?s=1", *, status: int = 202) -> None:
        self.answer, self.endpoint, self.status = answer, endpoint, status
        self.posted: list[dict] = []
        self.heads: list[HttpRequest] = []
        self.streams: list[Exchange] = []
        self.arrived = asyncio.Event()
        self.http = HttpServer({"/sse": self._stream, "/messages": self._post})

    @property
    def url(self) -> str:
        return f"http://{self.http.address}/sse"

    def _stream(self, request: HttpRequest, exchange: Exchange) -> None:
        if request.method != b"GET":
            exchange.answer(405, b"")
            return
        self.heads.append(request)
        exchange.start_stream(200)
        self.streams.append(exchange)
        endpoint = self.endpoint.replace("{address}", self.http.address)
        exchange.write(f"event: endpoint\ndata: {endpoint}\n\n".encode())

    def _post(self, request: HttpRequest, exchange: Exchange) -> None:
        message = json.loads(request.body)
        self.heads.append(request)
        self.posted.append(message)
        self.arrived.set()
        exchange.answer(self.status, b"Accepted")
        self.answer(self, message)

    def say(self, message: object) -> None:
        self.streams[-1].write(f"event: message\ndata: {json.dumps(message)}\n\n".encode())


def echo(server: SseServer, message: dict) -> None:
    """Answer every request with its own method, and a handshake as it wants to be answered."""
    if "id" in message and "method" in message:
        shaken = {"protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": {"name": "old", "version": "0"}}
        result = shaken if message["method"] == "initialize" else {"said": message["method"]}
        server.say({"jsonrpc": "2.0", "id": message["id"], "result": result})


def silent(server: SseServer, message: dict) -> None:
    """Take everything, answer nothing."""


class Opened:
    """A link, and what it told its owner."""

    def __init__(self, link: SseLink, heard: list[str], lost: asyncio.Event) -> None:
        self.link, self.heard, self.lost = link, heard, lost

    async def ask(self, method: str = "tools/call", **fields: object) -> object:
        question = ServerRequest(self.link.new_id(), method, b"{}", **fields)
        return json.loads(bytes(await asyncio.wait_for(self.link.ask(question), 150)))


@contextlib.asynccontextmanager
async def opened(server: SseServer, redactor: Redactor | None = None, **config: object):
    """An open link to ``server``."""
    heard: list[str] = []
    lost = asyncio.Event()
    tasks = TaskScope(lambda name, error: heard.append(repr(error)))
    events = LinkEvents(
        lambda: heard.append("changed"), lost.set, redactor=redactor or Redactor(), updated=heard.append
    )
    await server.http.start("127.0.0.1", 0)
    link = None
    try:
        link = await SseLink.open(ServerConfig("srv", url=server.url, **config), events, tasks)
        yield Opened(link, heard, lost)
    finally:
        if link is not None:
            await link.close()
        await tasks.close()
        await server.http.close(0)


async def refused(server: SseServer) -> ToolcribError:
    """Why a link to ``server`` cannot be opened."""
    with pytest.raises(ToolcribError) as caught:
        async with opened(server):
            pass
    return caught.value


async def test_answers_come_on_the_stream_in_whatever_order():
    """Two questions are under way; the second is answered first."""
    waiting: list[dict] = []

    def hold(server: SseServer, message: dict) -> None:
        waiting.append(message)
        if len(waiting) == 2:
            for each in reversed(waiting):
                echo(server, each)

    async with opened(SseServer(hold)) as linked:
        answers = await asyncio.gather(linked.ask("tools/list"), linked.ask("tools/call"))

    assert answers == [{"said": "tools/list"}, {"said": "tools/call"}]


async def test_headers_of_the_user_and_the_agreed_revision_go_with_every_message():
    """The stream and the messages are for the same server, which wants the same credential for both."""
    server = SseServer(echo)
    async with opened(server, headers={"Authorization": "Bearer x"}) as linked:
        linked.link.agree("2024-11-05")
        await linked.ask()

    assert [head.header(b"authorization") for head in server.heads] == [b"Bearer x", b"Bearer x"]
    assert server.heads[1].header(b"mcp-protocol-version") == b"2024-11-05"


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://127.0.0.1:9/messages",
        "https://{address}/messages",
        "//other.example/messages",
        "http://user@{address}/m",
    ],
)
async def test_messages_are_sent_to_no_other_origin(endpoint):
    """Our credentials would go wherever a server points; nothing is posted."""
    server = SseServer(echo, endpoint)
    error = await refused(server)

    assert isinstance(error, ProtocolError)
    assert server.posted == []


async def test_an_absolute_address_of_the_same_origin_is_taken():
    """Servers behind a proxy write it out."""
    server = SseServer(echo, "http://{address}/messages?s=2")
    async with opened(server) as linked:
        assert await linked.ask() == {"said": "tools/call"}


@pytest.mark.parametrize(
    ("handle", "kind", "words"),
    [
        (lambda _, exchange: exchange.answer(401, b""), SourceUnavailable, "wants a credential"),
        (lambda _, exchange: exchange.answer(404, b""), RemoteError, "HTTP 404"),
        (lambda _, exchange: exchange.answer(200, b"{}"), ProtocolError, "no event stream"),
        (lambda _, exchange: exchange.answer(302, b"", headers=[(b"location", b"http://evil/")]), SourceUnavailable,
         "redirects are not followed"),
    ],
)  # fmt: skip
async def test_what_is_no_stream_is_said(handle, kind, words):
    """In the words that every HTTP server is spoken of."""
    server = SseServer(echo)
    server.http = HttpServer({"/sse": handle})

    error = await refused(server)

    assert isinstance(error, kind)
    assert words in error.message


async def test_a_stream_that_ends_before_its_first_event_is_a_lost_connection():
    """Nobody waits for an address that will not come."""
    server = SseServer(echo)

    def hang_up(request: HttpRequest, exchange: Exchange) -> None:
        exchange.start_stream(200)
        exchange.end()

    server.http = HttpServer({"/sse": hang_up})

    assert isinstance(await refused(server), ConnectionLost)


async def test_a_stream_that_says_nothing_is_not_waited_for_long(monkeypatch):
    """A GET opens many a stream that is none of this transport."""
    monkeypatch.setattr(sse_link, "PATIENCES", 0.01)
    server = SseServer(echo)
    server.http = HttpServer({"/sse": lambda request, exchange: exchange.start_stream(200)})
    with pytest.raises(ProtocolError, match="where to send messages"):
        async with opened(server):
            pass


async def test_a_broken_stream_ends_what_waits_and_is_told():
    """Whether the call ran is not known, and says so by ``sent``."""
    server = SseServer(lambda server, message: server.streams[-1].end())
    async with opened(server) as linked:
        question = ServerRequest(linked.link.new_id(), "tools/call", b"{}")
        with pytest.raises(ConnectionLost):
            await linked.link.ask(question)
        await linked.lost.wait()

        assert question.sent
        assert not linked.link.is_open


async def test_an_endless_event_ends_the_link():
    """A server cannot have more kept than one message may be large."""

    def flood(server: SseServer, message: dict) -> None:
        piece = b"data: " + b"x" * 1_000_000
        for _ in range(EVENT_LIMIT // 1_000_000 + 2):
            server.streams[-1].write(piece)

    async with opened(SseServer(flood)) as linked:
        with pytest.raises(ConnectionLost, match="more than"):
            await linked.ask()

        assert not linked.link.is_open


async def test_a_forgotten_session_is_a_lost_link_and_the_question_was_not_heard():
    """So it can be asked again over a new one."""
    server = SseServer(silent, status=404)
    async with opened(server) as linked:
        question = ServerRequest(linked.link.new_id(), "tools/call", b"{}")
        with pytest.raises(ConnectionLost, match="forgotten our session"):
            await linked.link.ask(question)

        assert not question.sent
        assert linked.lost.is_set()


async def test_a_message_that_is_refused_fails_its_question_alone():
    """The stream stays, and with it the other calls."""
    server = SseServer(silent, status=500)
    async with opened(server) as linked:
        with pytest.raises(ToolFailed, match="HTTP 500"):
            await linked.ask()

        assert linked.link.is_open


async def test_progress_logs_questions_and_news_pass():
    """All of them on the stream, to whom they belong."""
    channel = RecordingChannel({"roots/list": {"roots": []}}, capabilities={"roots": {}}, wants_progress=True)

    def chatty(server: SseServer, message: dict) -> None:
        if message.get("method") == "tools/call":
            server.say({"jsonrpc": "2.0", "method": "notifications/progress",
                        "params": {"progressToken": message["id"], "progress": 1}})  # fmt: skip
            server.say({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}})
            server.say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
            server.say({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "a://b"}})
            server.say({"jsonrpc": "2.0", "id": "q", "method": "roots/list"})
        elif message.get("id") == "q":
            server.say({"jsonrpc": "2.0", "id": 1, "result": {"roots": message["result"]}})

    async with opened(SseServer(chatty)) as linked:
        answer = await linked.ask(channel=channel, caller=Caller("me"))

        assert answer == {"roots": {"roots": []}}
        assert [method for method, _ in channel.told] == ["notifications/progress", "notifications/message"]
        assert linked.heard == ["changed", "a://b"]


async def test_only_the_stream_says_that_a_server_is_there():
    """A POST may be taken by something that lives on while the stream is dead."""
    server = SseServer(silent)
    async with opened(server) as linked:
        heard_at = linked.link.remains().heard_at
        call = asyncio.ensure_future(linked.ask())
        await server.arrived.wait()
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await call

        assert linked.link.remains().heard_at == heard_at


async def test_giving_up_tells_the_server():
    """As in every revision of the handshake era."""
    server = SseServer(silent)
    async with opened(server) as linked:
        call = asyncio.ensure_future(linked.ask())
        await server.arrived.wait()
        server.arrived.clear()
        call.cancel()
        await server.arrived.wait()

    assert server.posted[1]["method"] == "notifications/cancelled"
    assert server.posted[1]["params"]["requestId"] == server.posted[0]["id"]


async def test_secrets_are_taken_out_of_what_comes_on_the_stream():
    """As on every other link."""
    redactor = Redactor()
    redactor.add(frozenset({"hunter2-hunter2"}))

    def leak(server: SseServer, message: dict) -> None:
        server.say({"jsonrpc": "2.0", "id": message["id"], "result": {"text": "it is hunter2-hunter2"}})

    async with opened(SseServer(leak), redactor) as linked:
        answer = await linked.ask()

    assert "hunter2" not in str(answer)


@contextlib.asynccontextmanager
async def supervised(server: SseServer):
    """A supervisor of ``server``, which tries Streamable HTTP first."""
    await server.http.start("127.0.0.1", 0)
    tasks = TaskScope(lambda *_: None)
    config = ServerConfig("srv", url=server.url)
    settings = SupervisorSettings(delays_s=(0.0,), fallback=lambda events: SseLink.open(config, events, tasks))
    supervisor = Supervisor(
        "srv", lambda events: HttpLink.open(config, events, tasks), OFFER, settings, lambda event: None
    )
    try:
        yield supervisor
    finally:
        await supervisor.close()
        await tasks.close()
        await server.http.close(0)


async def test_a_server_that_refuses_streamable_http_is_tried_as_the_first_revision_has_it():
    """POST answered 4xx, then GET with an ``endpoint`` event: what clients of 2025-03-26 are told to do."""
    server = SseServer(echo)
    async with supervised(server) as supervisor:
        link = await supervisor.link()

        assert isinstance(link, SseLink)
        assert supervisor.remembered == "2024-11-05"
        while len(server.posted) < 2:
            await asyncio.sleep(0)
        assert [message["method"] for message in server.posted] == ["initialize", "notifications/initialized"]


async def test_a_stream_that_broke_is_opened_again_at_the_next_need():
    """Over the transport that was found, without asking for another one first."""
    server = SseServer(echo)
    async with supervised(server) as supervisor:
        first = await supervisor.link()
        server.streams[-1].end()
        while first.is_open:
            await asyncio.sleep(0)
        second = await supervisor.link()

        assert second is not first
        assert isinstance(second, SseLink)
        assert supervisor.status().restarts == 1


async def test_an_address_that_is_neither_is_told_of_as_the_first_attempt_found_it():
    """Nobody has to know of a transport they did not ask for."""
    server = SseServer(echo)
    server.http = HttpServer({})
    async with supervised(server) as supervisor:
        with pytest.raises(SourceUnavailable, match="There is nothing at '/sse'"):
            await supervisor.link()
