"""A small proxy on this machine that knows both ways: tunnels, and requests whose target is a whole URL."""

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from toolcrib.core.network import Network


@dataclass
class SmallProxy:
    """Sends every name to this machine, and remembers what it was asked."""

    url: str = ""
    """With user and password, if it wants any."""
    secret: str = ""
    status: int = 0
    """What it answers instead of doing anything."""
    asked: list[str] = field(default_factory=list)
    """The first line of each request."""
    heads: list[str] = field(default_factory=list)

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0

    def network(self, **said: str) -> Network:
        """The way out through it, for what is on this machine too."""
        return Network.of({"ALL_PROXY": self.url, "TOOLCRIB_PROXY_LOOPBACK": "1", **said})

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while await self._answer(reader, writer):
                pass
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        self.heads.append(head)
        self.asked.append(head.split("\r\n", 1)[0])
        method, target, _ = self.asked[-1].split(" ", 2)
        wanted = f"proxy-authorization: Basic {base64.b64encode(self.secret.encode()).decode()}\r\n"
        status = self.status or (0 if not self.secret or wanted in head else 407)
        if status:
            writer.write(f"HTTP/1.1 {status} No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode())
            return False
        if method == "CONNECT":
            onward = await asyncio.open_connection("127.0.0.1", int(target.rpartition(":")[2]))
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            parts = urlsplit(target)
            onward = await asyncio.open_connection("127.0.0.1", parts.port or 80)
            path = f"{parts.path}?{parts.query}" if parts.query else parts.path
            onward[1].write(head.replace(target, path, 1).encode("latin-1"))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_pump(reader, onward[1]))
            tasks.create_task(_pump(onward[0], writer))
        return False


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
    writer.close()


@contextlib.asynccontextmanager
async def proxying(
    *, secret: str = "", status: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[SmallProxy]:
    """A running proxy; with ``secret``, ``user:password``, it wants that."""
    proxy = SmallProxy(secret=secret, status=status)
    running: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        running.add(task)
        task.add_done_callback(running.discard)
        with contextlib.suppress(asyncio.CancelledError):  # asyncio would complain of a handler that was
            await proxy.serve(reader, writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    proxy.url = f"{'https' if tls else 'http'}://{secret}{'@' if secret else ''}127.0.0.1:{port}"
    try:
        yield proxy
    finally:
        server.close()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
