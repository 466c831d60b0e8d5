"""A plain balancer: each request goes to the next replica that says it is ready; it knows nothing of sessions."""

import asyncio
import contextlib
import itertools
import threading
from collections import Counter
from collections.abc import Iterator
from urllib.parse import urlsplit

LOOK_S = 0.1


class Balancer:
    """Round robin over HTTP/1.1; a client's connection ends with its answer, so that its next request moves on."""

    def __init__(self, urls: list[str]) -> None:
        self._backends = [(urlsplit(url).hostname or "", urlsplit(url).port or 0) for url in urls]
        self._ready = set(self._backends)
        self._turns = itertools.cycle(self._backends)
        self.served: Counter[int] = Counter()
        """How many requests went to which port."""
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    async def run(self, started: threading.Event, stop: asyncio.Event) -> None:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        looking = [asyncio.create_task(self._look(backend)) for backend in self._backends]
        started.set()
        await stop.wait()
        for task in looking:
            task.cancel()
        server.close()

    async def _look(self, backend: tuple[str, int]) -> None:
        while True:
            is_ready = False
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection(*backend)
                writer.write(b"GET /readyz HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
                is_ready = b" 200 " in await reader.readline()
                writer.close()
            (self._ready.add if is_ready else self._ready.discard)(backend)
            await asyncio.sleep(LOOK_S)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            head = await reader.readuntil(b"\r\n\r\n")
            lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
            length = next((int(line[15:]) for line in lines if line.lower().startswith(b"content-length:")), 0)
            body = await reader.readexactly(length)
            request = b"\r\n".join([lines[0], b"connection: close", *lines[1:]]) + body
            await self._pass_on(request, writer)
        writer.close()

    async def _pass_on(self, request: bytes, client: asyncio.StreamWriter) -> None:
        for _ in self._backends:
            backend = next(turn for turn in self._turns if turn in self._ready or not self._ready)
            try:
                reader, writer = await asyncio.open_connection(*backend)
            except OSError:
                self._ready.discard(backend)
                continue
            self.served[backend[1]] += 1
            writer.write(request)
            while chunk := await reader.read(65536):
                client.write(chunk)
                await client.drain()
            writer.close()
            return


@contextlib.contextmanager
def balancing(urls: list[str]) -> Iterator[Balancer]:
    """A balancer in a thread of its own."""
    balancer, started, loops = Balancer(urls), threading.Event(), []
    stop = asyncio.Event()

    def run() -> None:
        loop = asyncio.new_event_loop()
        loops.append(loop)
        loop.run_until_complete(balancer.run(started, stop))
        loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert started.wait(150)
    try:
        yield balancer
    finally:
        loops[0].call_soon_threadsafe(stop.set)
        thread.join(150)
