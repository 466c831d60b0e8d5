"""One trace id per call: what a caller names comes out at the server, in the log, the audit log and the answer."""

import json
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.fleet import launcher

import toolcrib
from toolcrib.core import events
from toolcrib.core.events import Event
from toolcrib.crib.crib import Crib
from toolcrib.server.serve import Serving
from toolcrib.stores.paths import Environment
from toolcrib.transports.http.client import HttpPool

SERVER = Path(__file__).with_name("tracing_server.py")
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"


@pytest.fixture(scope="module")
def remote() -> Iterator[str]:
    """The same server behind an address."""
    started = launcher.popen([sys.executable, str(SERVER), "--http"], stdout=subprocess.PIPE)
    with started as process:
        try:
            port = int(process.stdout.readline())
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.kill()


class Running:
    """A served Crib with both servers, and what was told of it."""

    def __init__(self, crib: Crib, serving: Serving, told: list[Event]) -> None:
        self.crib, self.serving, self.told = crib, serving, told

    async def post(self, path: str, body: Any, *headers: tuple[bytes, bytes]) -> Any:
        pool = HttpPool(self.serving.server.local_url)
        usual = ((b"content-type", b"application/json"), (b"accept", b"application/json, text/event-stream"))
        try:
            answer = await pool.request("POST", path.encode(), (*usual, *headers), msgspec.json.encode(body))
            return msgspec.json.decode(answer.body)
        finally:
            await pool.close()

    def traces_of(self, tool: str) -> list[str]:
        """The traces of the calls of a tool, in their order, by the log; those of the live view are the same."""
        ended = [event.fields for event in self.told if event.name == events.CALL_FINISHED]
        logged = [fields["trace_id"] for fields in ended if fields["tool"] == tool]
        assert [call.trace_id for call in reversed(self.crib.live.of_tool(tool, 10))] == logged
        return logged


@asynccontextmanager
async def running(home: Path, remote: str) -> AsyncIterator[Running]:
    told, file = list[Event](), home / "toolcrib.toml"
    program = f"command = {json.dumps(sys.executable)}\nargs = [{json.dumps(str(SERVER))}]"
    audit = f'[audit]\nenabled = true\npath = "{home / "audit.db"}"'
    file.write_text(f'{audit}\n[servers.here]\n{program}\n[servers.there]\nurl = "{remote}"\n')
    around = Environment(home, {"HOME": str(home)})
    opened = toolcrib.open_crib(str(file), emit=told.append, surroundings=around, live=True)
    async with opened as crib, toolcrib.serve(crib, port=0, auth="none") as serving:
        yield Running(crib, serving, told)


def audited(home: Path, tool: str) -> set[str]:
    """The traces of the calls of a tool, by the audit log."""
    with closing(sqlite3.connect(home / "audit.db")) as log:
        return {row[0] for row in log.execute("SELECT body ->> 'trace_id' FROM record WHERE tool = ?", (tool,))}


MCP_CALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {
        "name": "there__look",
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    },
}
MODERN = (
    (b"mcp-protocol-version", b"2026-07-28"),
    (b"mcp-method", b"tools/call"),
    (b"mcp-name", b"there__look"),
)


async def test_the_trace_of_a_request_comes_out_at_the_server_and_in_every_log(tmp_path, remote):
    """By the header of a request to REST or over MCP, or in an MCP request itself, which counts before; to a server
    over stdio in the request, to one over HTTP in a header, too."""
    header, other = (b"traceparent", TRACEPARENT.encode()), f"00-{'cd' * 16}-{PARENT}-00"
    async with running(tmp_path, remote) as made:
        local = await made.post("/api/v1/tools/here__look/call", {}, header)
        over_http = await made.post("/api/v1/tools/there__look/call", {}, header)
        by_mcp = await made.post("/mcp", MCP_CALL, header, *MODERN)
        asked = msgspec.json.decode(msgspec.json.encode(MCP_CALL))
        asked["params"]["_meta"]["traceparent"] = other
        by_meta = await made.post("/mcp", asked, header, *MODERN)
        logged = made.traces_of("here__look"), made.traces_of("there__look")

    assert (local["traceId"], over_http["traceId"]) == (TRACE, TRACE)
    assert local["structuredContent"] == {"meta": {"traceparent": TRACEPARENT}, "header": ""}
    assert over_http["structuredContent"] == {"meta": {"traceparent": TRACEPARENT}, "header": TRACEPARENT}
    assert by_mcp["result"]["structuredContent"]["meta"]["traceparent"] == TRACEPARENT
    assert by_meta["result"]["structuredContent"] == {"meta": {"traceparent": other}, "header": other}
    assert logged == ([TRACE], [TRACE, TRACE, "cd" * 16])
    assert (audited(tmp_path, "here__look"), audited(tmp_path, "there__look")) == ({TRACE}, {TRACE, "cd" * 16})


@pytest.mark.parametrize("said", [None, "nonsense", f"00-{'0' * 32}-{PARENT}-01"])
async def test_a_call_without_a_trace_begins_one(said, tmp_path, remote):
    """What breaks the rules of the W3C counts for nothing, and is not passed on either."""
    headers = () if said is None else ((b"traceparent", said.encode()),)
    async with running(tmp_path, remote) as made:
        answers = [
            await made.post(f"/api/v1/tools/{name}/call", {}, *headers) for name in ("here__look", "there__look")
        ]
        refused = await made.post("/api/v1/tools/here__none/call", {}, *headers)
        logged = made.traces_of("here__look") + made.traces_of("there__look")

    assert [answer["traceId"] for answer in answers] == logged
    for answer in answers:
        version, trace_id, parent_id, flags = answer["structuredContent"]["meta"]["traceparent"].split("-")
        assert (version, trace_id, len(parent_id), flags) == ("00", answer["traceId"], 16, "01")
    assert audited(tmp_path, "here__none") == {refused["traceId"]}
    assert len({*logged, refused["traceId"]}) == 3


async def test_a_discovery_has_a_trace_of_its_own(tmp_path, remote):
    """From its beginning to the catalogue that it changed; never that of a call."""
    async with running(tmp_path, remote) as made:
        await made.crib.refresh()
        await made.crib.call("here__look")
        calls = set(made.traces_of("here__look"))
    names = (events.DISCOVERY_STARTED, events.DISCOVERY_SERVER_SUCCESS, events.REGISTRY_UPDATED)
    found = {event.fields["trace_id"] for event in made.told if event.name in names and "trace_id" in event.fields}
    told = [event.name for event in made.told if event.fields.get("trace_id") in found]

    assert (len(found), found & calls) == (1, set())
    assert [told.count(name) for name in names] == [1, 2, 2]


async def test_a_crib_inside_another_one_goes_on_with_the_trace(tmp_path):
    """And a tool sees it."""

    def look(call: toolcrib.Request) -> str:
        """The trace."""
        return call.context.trace_id

    async with (
        toolcrib.open_crib({"mcpServers": {}}, tools=[look], keep_results=False) as team,
        toolcrib.open_crib({"mcpServers": {}}, sources=[team.as_source("team")]) as everybody,
    ):
        result = await everybody.call("team__look")

    assert result.text == result.metadata["trace_id"]
