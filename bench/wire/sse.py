"""The retired HTTP+SSE transport: answers on one long GET stream, requests by POST."""

import asyncio
from typing import Any
from urllib.parse import urljoin, urlsplit

import orjson

from bench.wire.base import McpWire, WireError, unwrap
from bench.wire.connection import Pool, event_data
from bench.wire.http import post_head


class SseWire(McpWire):
    def __init__(self, url: str) -> None:
        self.url = url
        self.last_id = 0
        self.waiting: dict[int, asyncio.Future[Any]] = {}

    async def open(self) -> None:
        self.pool = Pool(self.url)
        is_chunked = await self._open_stream()
        self.endpoint: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.pump = asyncio.create_task(self._deliver(is_chunked))
        target = await asyncio.wait_for(self.endpoint, 10)
        self.head = post_head(urljoin(self.url, target), self.pool)
        await self.handshake()

    async def _open_stream(self) -> bool:
        self.reader, self.writer = await asyncio.open_connection(self.pool.host, self.pool.port, limit=1 << 26)
        path = urlsplit(self.url).path
        host = f"{self.pool.host}:{self.pool.port}"
        self.writer.write(f"GET {path} HTTP/1.1\r\nhost: {host}\r\naccept: text/event-stream\r\n\r\n".encode())
        status, *headers = (await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 10)).split(b"\r\n")
        if b" 200 " not in status:
            raise WireError(f"no event stream: {status!r}")
        return any(b"chunked" in header.lower() for header in headers)

    async def _deliver(self, is_chunked: bool) -> None:
        rest = b""
        try:
            while data := await self._read(is_chunked):
                *events, rest = (rest + data).replace(b"\r\n", b"\n").split(b"\n\n")
                for event in events:
                    self._deliver_one(event)
        finally:
            for waiter in self.waiting.values():
                if not waiter.done():
                    waiter.set_exception(WireError("the event stream ended"))

    async def _read(self, is_chunked: bool) -> bytes:
        if not is_chunked:
            return await self.reader.read(1 << 16)
        size = int((await self.reader.readline()).strip() or b"0", 16)
        return (await self.reader.readexactly(size + 2))[:size] if size else b""

    def _deliver_one(self, event: bytes) -> None:
        data = event_data(event)
        if b"event: endpoint" in event or b"event:endpoint" in event:
            self.endpoint.set_result(data.decode())
        elif data:
            message = orjson.loads(data)
            waiter = self.waiting.pop(message.get("id", -1), None) if "method" not in message else None
            if waiter is not None and not waiter.done():
                waiter.set_result(message)

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.last_id += 1
        waiter = self.waiting[self.last_id] = asyncio.get_running_loop().create_future()
        message = {"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}
        await self.pool.exchange(self.head, orjson.dumps(message))
        return unwrap(await waiter, method)

    async def notify(self, method: str) -> None:
        await self.pool.exchange(self.head, orjson.dumps({"jsonrpc": "2.0", "method": method}))

    async def close(self) -> None:
        self.pump.cancel()
        self.writer.close()
        self.pool.close()
