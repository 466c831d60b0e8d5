"""A Crib as an ASGI application, met at the wire: scope in, messages out, mounted anywhere."""

import asyncio
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

import toolcrib
from toolcrib.core.errors import ConfigError
from toolcrib.server.asgi import AsgiApp, split_path
from toolcrib.stores.paths import Environment
from toolcrib.transports.http.limits import HttpLimits

TOKEN = "a-token-of-my-own-choosing"
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
MODERN_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
MCP = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


@dataclass
class Answer:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class Connection:
    """One request on its way through an application; the client can read along, and go away."""

    def __init__(self, app: AsgiApp, scope: dict[str, Any], *parts: bytes) -> None:
        self.answer, self.is_complete = Answer(), False
        self._arrived = asyncio.Condition()
        self._inbox: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue()
        for number, part in enumerate(parts, 1):
            self._inbox.put_nowait({"type": "http.request", "body": part, "more_body": number < len(parts)})
        self.task = asyncio.create_task(app(scope, self._inbox.get, self._send))

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        async with self._arrived:
            if message["type"] == "http.response.start":
                self.answer.status = message["status"]
                self.answer.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            else:
                self.answer.body += message["body"]
                self.is_complete = not message.get("more_body", False)
            self._arrived.notify_all()

    async def until(self, text: bytes) -> None:
        async with self._arrived:
            await self._arrived.wait_for(lambda: text in self.answer.body)

    def leave(self) -> None:
        self._inbox.put_nowait({"type": "http.disconnect"})


@dataclass
class Client:
    app: AsgiApp
    root: str = ""
    scheme: str = "http"
    host: str = "localhost:8000"

    def connect(self, method: str, path: str, *parts: bytes, **headers: str) -> Connection:
        path, _, query = path.partition("?")
        named = {"host": self.host, **{name.replace("_", "-"): value for name, value in headers.items()}}
        scope = {
            "type": "http",
            "method": method,
            "scheme": self.scheme,
            "path": self.root + path,
            "raw_path": (self.root + path).encode(),
            "root_path": self.root,
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in named.items()],
            "client": ("127.0.0.1", 5),
        }
        return Connection(self.app, scope, *(parts or (b"",)))

    async def send(self, method: str, path: str, *parts: bytes, **headers: str) -> Answer:
        connection = self.connect(method, path, *parts, **headers)
        await connection.task
        assert connection.is_complete
        return connection.answer

    async def rpc(self, message: dict[str, Any], **headers: str) -> Answer:
        return await self.send("POST", "/mcp", msgspec.json.encode(message), **MCP, **headers)


class Bell:
    """A tool that rings until somebody ends it."""

    def __init__(self) -> None:
        self.rings, self.ended = asyncio.Event(), asyncio.Event()

    async def ring(self) -> str:
        """Ring until ended."""
        self.rings.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()
        return ""


def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello {name}"


@asynccontextmanager
async def mounted(
    home: Path,
    root: str = "",
    bell: Bell | None = None,
    host: str = "localhost:8000",
    scheme: str = "http",
    **wishes: Any,
) -> AsyncIterator[Client]:
    around = Environment(home, {"HOME": str(home)})
    tools = [greet, *([bell.ring] if bell is not None else [])]
    async with (
        toolcrib.open_crib({"mcpServers": {}}, tools=tools, surroundings=around) as crib,
        toolcrib.asgi(crib, **({"token": TOKEN} | wishes)) as app,
    ):
        yield Client(app, root, scheme, host)


BEARER = {"authorization": f"Bearer {TOKEN}"}


@pytest.mark.parametrize("root", ["", "/tools", "/a/b%C3%A9"])
async def test_mcp_rest_probes_and_page_are_there_wherever_it_is_mounted(tmp_path, root):
    """The four doors, under any path."""
    async with mounted(tmp_path, root) as client:
        welcome = await client.rpc(HELLO, **BEARER)
        session = {"mcp_session_id": welcome.headers["mcp-session-id"], **BEARER}
        called = await client.rpc(
            {
                "jsonrpc": "2.0",
                "id": 2,
                "method": "tools/call",
                "params": {"name": "greet", "arguments": {"name": "Ada"}},
            },
            **session,
        )
        tools = await client.send("GET", "/api/v1/tools", **BEARER)

        assert welcome.json["result"]["serverInfo"]["name"] == "toolcrib"
        assert called.json["result"]["content"] == [{"type": "text", "text": "Hello Ada"}]
        assert "greet" in {tool["name"] for tool in tools.json["tools"]}
        assert (await client.send("GET", "/healthz")).json["status"] == "healthy"
        assert (await client.send("GET", "/signin")).status == 200


async def test_links_redirects_and_cookies_count_from_where_it_is_mounted(tmp_path):
    """A browser never leaves the path; its cookie is for no other part of the host."""
    async with mounted(tmp_path, "/tools", scheme="https") as client:
        sent_on = await client.send("GET", "/servers?q=1")
        form = await client.send("GET", "/signin", accept_encoding="gzip")
        signed_in = await client.send(
            "POST",
            "/signin",
            f"token={TOKEN}&next=/servers".encode(),
            content_type="application/x-www-form-urlencoded",
            origin="http://localhost:8000",
        )
        cookie = signed_in.headers["set-cookie"]
        page = await client.send("GET", "/", cookie=cookie.partition(";")[0])

        assert sent_on.headers["location"] == "/tools/signin?next=%2Fservers%3Fq%3D1"
        assert b'action="/tools/signin"' in form.body
        assert b'="/static/' not in form.body
        assert (signed_in.status, signed_in.headers["location"]) == (303, "/tools/servers")
        assert cookie.startswith("__Secure-toolcrib=")
        assert "; Path=/tools;" in cookie
        assert page.status == 200
        assert b'href="/tools/servers"' in page.body
        assert b'="/servers' not in page.body


async def test_what_it_says_of_its_own_address_has_the_whole_path(tmp_path):
    """The one that was given, or the one the first request came to."""
    async with mounted(tmp_path, "/tools", public_url="https://tools.example", host="tools.example") as client:
        link = (await client.send("POST", "/api/v1/signin-links", **BEARER)).json
        assert link["url"].startswith("https://tools.example/tools/signin?link=")
    async with mounted(tmp_path, "/tools") as client:
        link = (await client.send("POST", "/api/v1/signin-links", **BEARER)).json
        followed = await client.send("GET", link["url"].removeprefix("http://localhost:8000/tools"))

        assert (followed.status, followed.headers["location"]) == (303, "/tools/")


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"host": "evil.example"}, 421), ({"origin": "https://evil.example"}, 403), ({}, 401), (BEARER, 200)],
)
async def test_hosts_origins_and_tokens_are_looked_at_as_on_our_own_server(tmp_path, headers, status):
    """Nobody knows who reaches the application around it, so a token is needed unless the program says otherwise."""
    async with mounted(tmp_path) as client:
        assert (await client.rpc(HELLO, **headers)).status == status


async def test_a_program_may_see_to_callers_itself(tmp_path):
    """With ``auth="none"``, and hosts of its own; a file that says so is not enough."""
    async with mounted(tmp_path, token=None, auth="none", allow_hosts=["app.example"], host="app.example") as client:
        assert (await client.rpc(HELLO)).status == 200
        assert (await client.rpc(HELLO, origin="https://app.example")).status == 200
    (tmp_path / "open.toml").write_text('[serve]\nauth = "none"\n')
    around = Environment(tmp_path, {"HOME": str(tmp_path)})
    async with toolcrib.open_crib(tmp_path / "open.toml", surroundings=around) as crib:
        with pytest.raises(ConfigError, match="everybody who reaches the application around it"):
            async with toolcrib.asgi(crib):
                pass


@pytest.mark.parametrize("parts", [(b"x" * 200,), (b"x" * 60, b"x" * 60)])
async def test_a_body_that_is_too_large_is_refused(tmp_path, parts):
    """Whether it is stated or comes in parts."""
    async with mounted(tmp_path, limits=HttpLimits(body_bytes=100)) as client:
        answer = await client.send("POST", "/mcp", *parts, content_length=str(sum(map(len, parts))), **MCP, **BEARER)
        unstated = await client.send("POST", "/mcp", *parts, **MCP, **BEARER)

        assert (answer.status, answer.json["code"]) == (413, "HTTP_BODY_TOO_LARGE")
        assert unstated.status == 413


async def test_a_client_that_leaves_cancels_its_call(tmp_path):
    """Nobody waits for the answer any more."""
    bell = Bell()
    async with mounted(tmp_path, bell=bell) as client:
        params = {"name": "ring", "arguments": {}, "_meta": MODERN_META}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "ring"}
        call = client.connect("POST", "/mcp", msgspec.json.encode(message), **MCP, **BEARER, **headers)
        await bell.rings.wait()
        call.leave()

        await bell.ended.wait()
        await call.task
        assert not call.is_complete


async def test_a_standing_stream_tells_as_it_happens_and_ends_with_the_application(tmp_path):
    """Each event is sent at once; closing ends the stream in good order."""
    around = Environment(tmp_path, {"HOME": str(tmp_path)})
    async with toolcrib.open_crib({"mcpServers": {}}, tools=[greet], surroundings=around) as crib:
        async with toolcrib.asgi(crib, token=TOKEN) as app:
            client = Client(app)
            session = (await client.rpc(HELLO, **BEARER)).headers["mcp-session-id"]
            stream = client.connect("GET", "/mcp", accept="text/event-stream", mcp_session_id=session, **BEARER)
            await stream.until(b":")
            assert not stream.is_complete
        await stream.task

        assert stream.answer.headers["content-type"] == "text/event-stream"
        assert stream.is_complete


async def test_alone_it_opens_and_closes_with_the_server(tmp_path):
    """Given what ``open_crib`` returns, the lifespan opens the Crib and closes it."""
    around = Environment(tmp_path, {"HOME": str(tmp_path)})
    app = toolcrib.asgi(toolcrib.open_crib({"mcpServers": {}}, tools=[greet], surroundings=around), token=TOKEN)
    inbox: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue()
    told: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue()
    life = asyncio.create_task(app({"type": "lifespan"}, inbox.get, told.put))
    inbox.put_nowait({"type": "lifespan.startup"})
    started = await told.get()
    answer = await Client(app).rpc(HELLO, **BEARER)
    inbox.put_nowait({"type": "lifespan.shutdown"})
    ended = await told.get()
    await life

    assert (started["type"], ended["type"]) == ("lifespan.startup.complete", "lifespan.shutdown.complete")
    assert answer.status == 200


async def test_what_cannot_be_served_is_told_at_startup(tmp_path):
    """The server around it does not start with something half open."""
    around = Environment(tmp_path, {"HOME": str(tmp_path)})
    app = toolcrib.asgi(toolcrib.open_crib({"mcpServers": {}}, surroundings=around), token="weak")
    inbox: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue()
    told: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue()
    inbox.put_nowait({"type": "lifespan.startup"})
    await app({"type": "lifespan"}, inbox.get, told.put)
    failed = await told.get()
    await app.close()

    assert failed["type"] == "lifespan.startup.failed"
    assert "too weak" in failed["message"]


@pytest.mark.parametrize(
    ("path", "raw", "root", "expected"),
    [
        ("/mcp", b"/mcp", "", ("", b"/mcp")),
        ("/tools/mcp", b"/tools/mcp", "/tools", ("/tools", b"/mcp")),
        ("/mcp", b"/mcp", "/tools", ("/tools", b"/mcp")),
        ("/mcp", b"/tools/mcp", "/tools", ("/tools", b"/mcp")),
        ("/tools", b"/tools", "/tools", ("/tools", b"/")),
        ("/toolsmith", b"/toolsmith", "/tools", ("/tools", b"/toolsmith")),
        ("/a b/tools/x/y", b"/a%20b/tools/x%2Fy", "/a b", ("/a%20b", b"/tools/x%2Fy")),
        ('/x"y/mcp', b"/x%22y/mcp", '/x"y', ("/x%22y", b"/mcp")),
        ("/new/mcp", b"/old/mcp", "/new", ("/new", b"/mcp")),
        ("/tools/mcp", None, "/tools", ("/tools", b"/mcp")),
    ],
)
def test_the_root_is_taken_off_whatever_the_server_makes_of_it(path, raw, root, expected):
    """Encoded parts stay encoded, and what is quoted in a page can end no attribute."""
    assert split_path({"path": path, "raw_path": raw, "root_path": root}) == expected


async def test_clients_of_the_first_http_transport_are_served_wherever_the_application_is_mounted(tmp_path):
    """The address for messages is seen from that of the stream, so it needs no word of where that is."""
    async with mounted(tmp_path, "/tools") as client:
        stream = client.connect("GET", "/sse", accept="text/event-stream", authorization=f"Bearer {TOKEN}")
        await stream.until(b"\n\n")
        target = stream.answer.body.decode().partition("data: ")[2].strip()
        taken = await client.send(
            "POST", f"/{target}", msgspec.json.encode(HELLO), **MCP, authorization=f"Bearer {TOKEN}"
        )
        await stream.until(b"protocolVersion")
        stream.leave()
        await stream.task

        assert target.startswith("messages?session=")
        assert taken.status == 202
