"""``echo_http.py TOOLS PAGES PORT``: the echo server over Streamable HTTP with JSON answers."""

import asyncio
import socket
import sys
from typing import Any

import httptools
import orjson
import uvloop
from answers import EchoServer


class Connection(asyncio.Protocol):
    def __init__(self, server: EchoServer) -> None:
        self.server = server
        self.parser = httptools.HttpRequestParser(self)

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_message_begin(self) -> None:
        self.body = b""

    def on_body(self, chunk: bytes) -> None:
        self.body += chunk

    def on_message_complete(self) -> None:
        if self.parser.get_method() == b"POST":
            self._reply(orjson.loads(self.body))
        else:
            self.transport.write(b"HTTP/1.1 405 Method Not Allowed\r\nallow: POST\r\ncontent-length: 0\r\n\r\n")

    def _reply(self, message: dict[str, Any]) -> None:
        body = self.server.answer(message)
        if body is None:
            self.transport.write(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")
            return
        session = b"mcp-session-id: echo\r\n" if message["method"] == "initialize" else b""
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n%bcontent-length: %d\r\n\r\n"
        self.transport.write(head % (session, len(body)) + body)


async def serve(server: EchoServer, port: int) -> None:
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(lambda: Connection(server), "127.0.0.1", port)
    await listener.serve_forever()


uvloop.run(serve(EchoServer(int(sys.argv[1]), int(sys.argv[2])), int(sys.argv[3])))
