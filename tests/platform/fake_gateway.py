"""A tooling gateway over real HTTP: answers as it is told to, and keeps what it was asked."""

import asyncio
import base64
import json
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

MAIL = {"mcpServerName": "mail", "mcpServerUniqueName": "mcp_Mail"}


def jwt(**claims):
    """A token nobody signed; by default it is good for an hour."""
    payload = {"exp": time.time() + 3600, **claims}
    parts = ({"alg": "none"}, {name: value for name, value in payload.items() if value is not None})
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
    return ".".join([*encoded, "c2lnbmF0dXJl"])


@dataclass
class Asked:
    method: str
    path: str
    headers: dict
    body: bytes


@dataclass
class Gateway:
    """``answers`` are given first, one each; then ``servers`` at every path that lists servers."""

    url: str = ""
    servers: object = field(default_factory=lambda: [MAIL])
    known_paths: tuple = ("/agents/app/mcpServers", "/agents/v2/app/mcpServers")
    answers: list = field(default_factory=list)
    etag: str = ""
    asked: list = field(default_factory=list)
    hangs: bool = False

    def answer(self, asked):
        if self.answers:
            return self.answers.pop(0)
        if asked.method == "POST":
            return 200, {}, b"{}"
        if asked.path not in self.known_paths:
            return 404, {}, b"{}"
        if self.etag and asked.headers.get("if-none-match") == self.etag:
            return 304, {"etag": self.etag}, b""
        return 200, {"etag": self.etag} if self.etag else {}, json.dumps(self.servers).encode()

    async def serve(self, reader, writer):
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *lines = head.decode("latin-1").strip().split("\r\n")
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
                method, path, _ = first.split(" ")
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                self.asked.append(asked := Asked(method, path, headers, body))
                if self.hangs:
                    await reader.read()
                    return
                status, more, body = self.answer(asked)
                told = "".join(f"{name}: {value}\r\n" for name, value in more.items())
                writer.write(f"HTTP/1.1 {status} X\r\n{told}content-length: {len(body)}\r\n\r\n".encode() + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(**settings):
    gateway = Gateway(**settings)
    server = await asyncio.start_server(gateway.serve, "127.0.0.1", 0, limit=2**20)
    gateway.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield gateway
    finally:
        server.close()
