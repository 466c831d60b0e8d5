"""Plain REST, as OpenAPI gateways offer it: one path per tool, one OpenAPI document per server."""

from typing import Any

import orjson

from bench.wire.base import WireError
from bench.wire.connection import Answer, Pool


class RestWire:
    pid: int | None = None

    def __init__(self, url: str, servers: list[str]) -> None:
        self.servers = servers
        self.pool = Pool(url)
        self.headers = (
            f"host: {self.pool.host}:{self.pool.port}\r\naccept: application/json\r\ncontent-type: application/json\r\n"
        ).encode()

    async def open(self) -> None:
        await self.list_tools()

    async def list_tools(self) -> list[str]:
        names: list[str] = []
        for server in self.servers:
            document = await self._send("GET", f"/{server}/openapi.json", b"")
            names += [f"{server}{path}" for path in document.get("paths", {})]
        return names

    async def call(self, tool: str, message: str) -> str:
        text: str = await self._send("POST", f"/{tool}", orjson.dumps({"message": message}))
        return text

    async def _send(self, method: str, path: str, body: bytes) -> Any:
        answer = await self.pool.exchange(f"{method} {path} HTTP/1.1\r\n".encode() + self.headers, body)
        return _content(answer)

    async def close(self) -> None:
        self.pool.close()


def _content(answer: Answer) -> Any:
    if answer.status != 200:
        raise WireError(f"HTTP {answer.status} {str(answer.message)[:200]}")
    return answer.message
