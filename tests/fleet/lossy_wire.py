"""A line to PostgreSQL that breaks where it hurts: when a transaction is committed, or without a word."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

COMMIT = b"Q\x00\x00\x00\x0bCOMMIT\x00"


@dataclass
class LossyWire:
    """Stands between a client and a server; ``cut`` says what becomes of the next commit."""

    port: int
    """Where the server is."""
    cut: str = ""
    """``before``: the commit does not reach the server; ``after``: its answer does not come back; else nothing."""
    cuts: int = 0
    accepted: int = 0
    """How many connections were made to it."""
    is_open: bool = True
    is_shut_by_a_cut: bool = False
    """Whether nobody gets through any more after a cut."""
    own_port: int = 0
    flows: asyncio.Event = field(default_factory=asyncio.Event)
    """While it is clear everything hangs: nothing is passed on, and nothing is refused."""
    _lines: dict["asyncio.Task[None]", tuple[asyncio.StreamWriter, ...]] = field(default_factory=dict)

    def url(self, database_url: str) -> str:
        return database_url.replace(f":{self.port}/", f":{self.own_port}/")

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        if not self.is_open:
            writer.close()
            return
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self.port)
        is_cut = asyncio.Event()
        self._lines[asyncio.ensure_future(self._answer(server_reader, writer, is_cut))] = (writer, server_writer)
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                if data == COMMIT and self.cut:
                    cut, self.cut = self.cut, ""
                    is_cut.set()
                    self.cuts += 1
                    self.is_open = not self.is_shut_by_a_cut
                    if cut == "before":
                        writer.close()
                        break
                await self.flows.wait()
                server_writer.write(data)
                await server_writer.drain()
        server_writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_cut: asyncio.Event) -> None:
        while data := await reader.read(65536):
            if is_cut.is_set():
                break
            await self.flows.wait()
            writer.write(data)
            await writer.drain()
        writer.close()

    async def close(self) -> None:
        """End all that is under way."""
        for line in self._lines.values():
            for end in line:
                end.close()
        await asyncio.gather(*self._lines, return_exceptions=True)


@contextlib.asynccontextmanager
async def a_lossy_wire(port: int) -> AsyncIterator[LossyWire]:
    """To the server at this port."""
    wire = LossyWire(port)
    wire.flows.set()
    server = await asyncio.start_server(wire.carry, "127.0.0.1", 0)
    wire.own_port = server.sockets[0].getsockname()[1]
    try:
        yield wire
    finally:
        server.close()
        await wire.close()
