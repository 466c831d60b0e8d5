"""Clients behind a balancer, of both eras: raw requests, each over a connection of its own; every answer is kept."""

import asyncio
import itertools
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from toolcrib.wire import eras
from toolcrib.wire.http import SseParser

PATIENCE_S = 30.0
PAUSE_S = 0.05
"""What a client waits after a refusal, so that it does not only ask again and again."""
_META = {
    eras.META_VERSION: "2026-07-28",
    eras.META_CLIENT_INFO: {"name": "t", "version": "1"},
    eras.META_CLIENT_CAPABILITIES: {},
}
_HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


@dataclass(frozen=True)
class Outcome:
    """How one call went, and between which two moments."""

    tool: str
    mark: str
    began: float
    ended: float
    kind: str
    """``success``, the code of an error, ``http 503``, ``session ended`` or ``no answer``."""


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: dict | None


async def post(port: int, message: dict, headers: dict[str, str]) -> Reply:
    """One request over a new connection; raises ``OSError`` or ``EOFError`` if there is no whole answer."""
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    sent = {"host": f"localhost:{port}", "accept": "application/json, text/event-stream", "connection": "close"}
    lines = "".join(f"{name}: {value}\r\n" for name, value in (sent | headers).items())
    head = f"POST /mcp HTTP/1.1\r\ncontent-type: application/json\r\n{lines}content-length: {len(body)}\r\n\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(head.encode() + body)
        return await asyncio.wait_for(_read(reader), PATIENCE_S)
    finally:
        writer.close()


async def _read(reader: asyncio.StreamReader) -> Reply:
    first = await reader.readline()
    if not first:
        raise EOFError
    headers: dict[str, str] = {}
    while (line := await reader.readline()) != b"\r\n":
        if not line:
            raise EOFError
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.lower()] = value.strip()
    payload = await _payload(reader, headers)
    if headers.get("content-type", "").startswith("text/event-stream"):
        events = [json.loads(data) for data in SseParser().feed(payload)]
        return Reply(int(first.split()[1]), headers, next((event for event in events if "id" in event), None))
    is_json = headers.get("content-type", "").startswith("application/json") and payload
    return Reply(int(first.split()[1]), headers, json.loads(payload) if is_json else None)


async def _payload(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if headers.get("transfer-encoding") != "chunked":
        return await reader.readexactly(int(headers.get("content-length", 0)))
    chunks = []
    while size := int((await reader.readline()) or b"x", 16):
        chunks.append((await reader.readexactly(size + 2))[:-2])
    return b"".join(chunks)


@dataclass
class Client:
    """One client that calls again and again until it is told to stop."""

    name: str
    port: int
    is_modern: bool
    outcomes: list[Outcome] = field(default_factory=list)
    sessions: int = 0
    _session: str = ""
    _numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    async def run(self, is_over: Callable[[], bool]) -> None:
        for tool in itertools.cycle(("counter__note", "counter__note", "counter__rare")):
            if is_over():
                return
            outcome = await self.call(tool)
            self.outcomes.append(outcome)
            if outcome.kind != "success":
                await asyncio.sleep(PAUSE_S)

    async def call(self, tool: str) -> Outcome:
        mark, began = f"{self.name}-{next(self._numbers)}", time.monotonic()
        try:
            kind = await self._call(tool, mark)
        except (OSError, EOFError, asyncio.IncompleteReadError, ValueError, TimeoutError):
            kind = "no answer"
        return Outcome(tool, mark, began, time.monotonic(), kind)

    async def _call(self, tool: str, mark: str) -> str:
        if not self.is_modern and not self._session and (refused := await self._hello()):
            return refused
        params = {"name": tool, "arguments": {"mark": mark}} | ({"_meta": _META} if self.is_modern else {})
        reply = await post(self.port, {"id": mark, "method": "tools/call", "params": params}, self._headers(tool))
        if reply.status == 404 and not self.is_modern:
            self._session = ""
            return "session ended"
        return _kind(reply)

    async def _hello(self) -> str:
        reply = await post(self.port, {"id": 0, "method": "initialize", "params": _HELLO}, {})
        if reply.status != 200:
            return f"http {reply.status}"
        self._session = reply.headers["mcp-session-id"]
        self.sessions += 1
        await post(self.port, {"method": "notifications/initialized"}, self._headers(""))
        return ""

    def _headers(self, tool: str) -> dict[str, str]:
        if self.is_modern:
            return {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": tool}
        return {"mcp-protocol-version": "2025-06-18", "mcp-session-id": self._session}


def _kind(reply: Reply) -> str:
    if reply.status != 200 or reply.body is None:
        return f"http {reply.status}"
    if "error" in reply.body:
        return f"rpc {reply.body['error']['code']}"
    result = reply.body["result"]
    if not result.get("isError"):
        return "success"
    return str(((result.get("_meta") or {}).get("toolcrib/error") or result.get("structuredContent") or {}).get("code"))


def most_within(outcomes: list[Outcome], window_s: float) -> int:
    """The most calls that certainly began and ended within one stretch of that length."""
    spans = sorted((outcome.began, outcome.ended) for outcome in outcomes)

    def inside(start: float) -> int:
        return sum(began >= start and ended <= start + window_s for began, ended in spans)

    return max((inside(start) for start, _ in spans), default=0)
