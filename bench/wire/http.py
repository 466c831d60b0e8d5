"""Streamable HTTP: one POST per request, answered by JSON or by a stream of events."""

from typing import Any
from urllib.parse import urlsplit

import orjson

from bench.wire.base import PROTOCOL_VERSION, McpWire, unwrap
from bench.wire.connection import Pool


class HttpWire(McpWire):
    def __init__(self, url: str) -> None:
        self.url = url
        self.last_id = 0

    async def open(self) -> None:
        self.pool = Pool(self.url)
        self.head = post_head(self.url, self.pool) + b"accept: application/json, text/event-stream\r\n"
        await self.handshake()

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.last_id += 1
        message = {"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}
        answer = await self.pool.exchange(self.head, orjson.dumps(message), self.last_id)
        result = unwrap(answer.message, f"{method}: HTTP {answer.status}")
        if method == "initialize":
            self._join_session(answer.headers.get(b"mcp-session-id"))
        return result

    async def notify(self, method: str) -> None:
        await self.pool.exchange(self.head, orjson.dumps({"jsonrpc": "2.0", "method": method}))

    def _join_session(self, session: bytes | None) -> None:
        self.head += b"mcp-protocol-version: %b\r\n" % PROTOCOL_VERSION.encode()
        if session is not None:
            self.head += b"mcp-session-id: %b\r\n" % session

    async def close(self) -> None:
        self.pool.close()


def post_head(url: str, pool: Pool) -> bytes:
    parts = urlsplit(url)
    target = f"{parts.path or '/'}?{parts.query}".removesuffix("?")
    host = f"{pool.host}:{pool.port}"
    return f"POST {target} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n".encode()
