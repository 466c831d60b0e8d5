"""Servers that repeat their secrets wherever they can: nobody reads one, in no place and in no encoding."""

import asyncio
import http.server
import json
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.cli.program import Program
from tests.hostile import leaky
from tests.server.rest.api import Api, owner_token

from toolcrib.calls.results.shown import call_result
from toolcrib.core.access import LOCAL_USER
from toolcrib.crib.builder import open_crib
from toolcrib.crib.window import ProfileView
from toolcrib.server.mcp.service import McpService, ServerIdentity
from toolcrib.server.mcp.stdio import StdioDoor
from toolcrib.stores.audit.file import AuditFile
from toolcrib.stores.audit.log import ask, in_order
from toolcrib.stores.paths import Environment
from toolcrib.testing import RecordingChannel

LEAKY = Path(leaky.__file__)
ENV = {"LEAKY_ARG": 'arg/+"one"&two', "LEAKY_ENV": "env-secret-000111", "LEAKY_URL": "url-secret-222333"}
LITERAL = "literal-secret-444555"
HEADER = "header-secret-666777"
SECRETS = [*ENV.values(), LITERAL, HEADER]
CALLED = ("tell", "fail", "refuse", "ask", "die")


class LeakyHandler(http.server.BaseHTTPRequestHandler):
    """The same server over HTTP; its secrets come with the request."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        given = [query["api_key"][0], self.headers["authorization"].removeprefix("Bearer ")]
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method, params = message["method"], message.get("params", {})
        if "id" not in message:
            return self.reply(202, b"")
        if params.get("name") == "die":
            return self.reply(500, f"dying of {leaky.forms(given)}".encode(), "text/plain")
        words = leaky.forms(given)
        answers = [
            told for told in leaky.said_before(method, params, words) if "id" not in told
        ] + [{"id": message["id"], **leaky.answer(method, params, words)}]  # fmt: skip
        encoded = [json.dumps({"jsonrpc": "2.0", **each}) for each in answers]
        if len(encoded) == 1:
            return self.reply(200, encoded[0].encode())
        return self.reply(200, "".join(f"data: {each}\n\n" for each in encoded).encode(), "text/event-stream")

    def do_GET(self) -> None:
        self.reply(405, b"")

    do_DELETE = do_GET

    def reply(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


@pytest.fixture
def leaky_url() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), LeakyHandler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/mcp"
        server.shutdown()
        thread.join()


def tables(url: str) -> str:
    """A tool that kills its server is tried again until its deadline, which is all that the short one is for."""
    command = json.dumps(sys.executable)
    known = ["${LEAKY_ARG}", f"--token={LITERAL}", "${LEAKY_ENV}"]
    args = json.dumps(["-I", str(LEAKY), *known, "--password", LITERAL])
    dying = json.dumps(["-c", "import sys; sys.exit('no ' + sys.argv[2])", "--api-key", LITERAL])
    return f"""
[audit]
values = true
[servers.piped]
command = {command}
args = {args}
env = {{ LEAKY = "${{LEAKY_ENV}}" }}
[servers.piped.tools.die]
timeout = "3s"
[servers.remote]
url = "{url}?api_key=${{LEAKY_URL}}"
headers = {{ Authorization = "Bearer {HEADER}" }}
[servers.dying]
command = {command}
args = {dying}
"""


def leaks(text: str) -> list[str]:
    """The forms of secrets in a text, as it is and as JSON has it."""
    known = [form for secret in SECRETS for form in leaky.encoded(secret)]
    return [form for form in known if form in text or json.dumps(form)[1:-1] in text]


async def test_no_secret_reaches_a_program_that_uses_the_library(tmp_path, leaky_url):
    """Listings, results, errors, notifications, questions, events, the live view, the audit log and the lock."""
    config = tmp_path / "toolcrib.toml"
    config.write_text("[connect]\nattempts = 1\n[kb]\nenabled = false\n" + tables(leaky_url))
    env = {**ENV, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    events, seen = [], {}
    channel = RecordingChannel(
        {"elicitation/create": {"action": "accept", "content": {"a": "b"}}},
        capabilities={"elicitation": {}},
        wants_progress=True,
    )
    around = Environment(tmp_path, env)
    async with open_crib(str(config), emit=events.append, surroundings=around, live=True) as crib:
        seen["listing"] = repr(await crib.tools("mcp"))
        for server in ("piped", "remote"):
            for tool in CALLED:
                arguments = {"a": f"{tool} with {ENV['LEAKY_ENV']}"} if server == "piped" else {}
                result = await crib.call(f"{server}__{tool}", arguments, channel=channel)
                seen[f"{server} {tool}"] = f"{call_result(result, ('', ''), 0.0)} {result.mcp} {result.error}"
            shelf = crib.shelves[server]
            seen[f"{server} state"] = repr((shelf.source.status(), shelf.source.log_lines(50), shelf.record))
            seen[f"{server} why"] = repr(crib.explain(f"{server}__tell"))
        seen["dying"] = repr(await crib.call("dying__anything"))
        seen["dying state"] = repr((crib.shelves["dying"].source.status(), crib.explain("dying__anything")))
        seen["live"] = repr([call.view() for call in (*crib.live.running(), *crib.live.recent(99))])
    place = AuditFile(tmp_path / "toolcrib" / "audit.db")
    seen["audit"] = repr(ask(place, lambda log: list(in_order(log))))
    seen["lock"] = (tmp_path / "toolcrib.lock").read_text()
    seen["events"], seen["told"], seen["asked"] = repr(events), repr(channel.told), repr(channel.asked)

    assert {place: found for place, text in seen.items() if (found := leaks(text))} == {}
    assert all("***" in seen[f"{server} {tool}"] for server in ("piped", "remote") for tool in CALLED[:3])
    shown = ("listing", "lock", "told", "asked", "audit", "piped state", "dying state")
    assert [place for place in shown if "***" not in seen[place]] == []


class OneWay(asyncio.Transport):
    """Stdout: whatever is written, and nobody who takes it away."""

    def __init__(self, protocol: asyncio.BaseProtocol) -> None:
        super().__init__()
        self.protocol, self.written, self.news = protocol, b"", asyncio.Event()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data
        self.news.set()

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        self.protocol.connection_lost(None)

    async def lines(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first message of that kind, now or later."""
        while True:
            messages = [json.loads(line) for line in self.written.splitlines()]
            if found := next((message for message in messages if wanted(message)), None):
                return found
            self.news.clear()
            await self.news.wait()


async def test_no_secret_reaches_a_client_over_stdio(tmp_path, leaky_url):
    """Every byte that is written: the handshake, the list, results, errors, progress, log messages and questions."""
    config = tmp_path / "toolcrib.toml"
    config.write_text("[connect]\nattempts = 1\n[kb]\nenabled = false\n" + tables(leaky_url))
    env = {**ENV, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {"elicitation": {}}, "clientInfo": {"name": "t"}}
    async with open_crib(str(config), emit=lambda _: None, surroundings=Environment(tmp_path, env)) as crib:
        door = StdioDoor(McpService(ProfileView(crib), ServerIdentity("toolcrib", "1")), LOCAL_USER)
        out = OneWay(door.out)
        door.out.connection_made(out)

        def send(**message: Any) -> None:
            door.data_received(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

        async def ask(number: int, method: str, params: dict[str, Any]) -> None:
            send(id=number, method=method, params=params)
            await out.lines(lambda message: message.get("id") == number and "method" not in message)

        await ask(0, "initialize", hello)
        await ask(1, "tools/list", {})
        called = [f"{server}__{tool}" for server in ("piped", "remote") for tool in ("tell", "fail", "refuse")]
        for number, name in enumerate(called, 2):
            await ask(number, "tools/call", {"name": name, "arguments": {}, "_meta": {"progressToken": f"p{number}"}})
        send(id=99, method="tools/call", params={"name": "piped__ask", "arguments": {}})
        question = await out.lines(lambda message: message.get("method") == "elicitation/create")
        send(id=question["id"], result={"action": "accept", "content": {"a": "b"}})
        await out.lines(lambda message: message.get("id") == 99 and "method" not in message)
        await door.close()
    said = [json.loads(line) for line in out.written.splitlines()]

    assert leaks(out.written.decode()) == []
    masked = [message for message in said if "***" in json.dumps(message)]
    methods = {message.get("method") for message in masked}
    assert {"notifications/progress", "elicitation/create", None} <= methods
    assert {1, *range(2, 8), 99} <= {message["id"] for message in masked if "method" not in message}


PAGES = ("/", "/servers", "/servers/piped", "/servers/remote", "/servers/dying", "/tools", "/tools/piped__tell")
READ = ("/tools", "/servers", "/servers/piped", "/servers/dying", "/servers/piped/logs", "/calls", "/audit", "/health")


def test_no_secret_reaches_a_door_a_command_or_a_file(tmp_path, leaky_url):
    """REST, the page, MCP over HTTP, the log of `serve`, `why`, `doctor`, `servers logs`, and all files left behind."""
    program = Program(tmp_path, dict(ENV))
    program.project.mkdir()
    program.write(tables(leaky_url))
    seen = {}
    with program.serving("serve") as serving:
        api = Api(program, serving, owner_token(program, serving))
        seen["mcp"] = serving.list_tools().read().decode()
        for server in ("piped", "remote"):
            for tool in CALLED:
                seen[f"{server} {tool}"] = api.call(f"{server}__{tool}").body.decode()
        api.call("dying__anything")
        for path in (*READ, "/tools/remote__tell"):
            seen[f"REST {path}"] = api.raw("GET", path, token=api.token).body.decode()
        for path in PAGES:
            reply = serving.request("GET", path, authorization=f"Bearer {api.token}", accept="text/html")
            seen[f"page {path}"] = reply.read().decode()
        seen["log"] = serving.output
    for words in (["why", "piped__tell"], ["doctor"], ["servers", "logs", "dying"]):
        result = program.run(*words)
        seen[" ".join(words)] = result.stdout + result.stderr
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path != program.config]
    seen |= {f"file {path.name}": path.read_bytes().decode(errors="replace") for path in written}

    assert {place: found for place, text in seen.items() if (found := leaks(text))} == {}
    assert "file toolcrib.lock" in seen
    shown = ("mcp", "piped tell", "remote tell", "REST /tools", "page /tools/piped__tell")
    assert [place for place in shown if "***" not in seen[place]] == []
