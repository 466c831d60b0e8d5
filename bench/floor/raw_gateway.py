"""The floor, not a product: the least a Python gateway can do for a call.

``raw_gateway.py CONFIG [--port PORT]`` serves stdio, or Streamable HTTP with JSON answers. It merges the listings once
at start, routes a call by table, and passes arguments and result through as the bytes they came in. It checks nothing
and survives nothing.
"""

import argparse
import asyncio
import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httptools
import msgspec
import uvloop

NOTHING = msgspec.Raw(b"")
INITIALIZE = b'{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"raw","version":"0"}}'
INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
WELCOME = b'{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"0"}}'
UNKNOWN_TOOL = b'{"code":-32602,"message":"Unknown tool"}'
UNKNOWN_METHOD = b'{"code":-32601,"message":"Method not found"}'


class Request(msgspec.Struct):
    method: str = ""
    id: msgspec.Raw = NOTHING
    params: msgspec.Raw = NOTHING


class Call(msgspec.Struct):
    name: str
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


class Reply(msgspec.Struct):
    id: int | None = None
    method: str | None = None
    result: msgspec.Raw = NOTHING
    error: msgspec.Raw = NOTHING


Sink = Callable[[Reply], None]
Answer = Callable[[bytes | None], None]
decode_request = msgspec.json.Decoder(Request).decode
decode_call = msgspec.json.Decoder(Call).decode
decode_reply = msgspec.json.Decoder(Reply).decode


class StdioServer(asyncio.SubprocessProtocol):
    def __init__(self, server: dict[str, Any]) -> None:
        self.argv = [server["command"], *server["args"]]
        self.rest = b""
        self.last_id = 0
        self.sinks: dict[int | None, Sink] = {}

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        self.child, _ = await loop.subprocess_exec(lambda: self, *self.argv)
        self.stdin: Any = self.child.get_pipe_transport(0)
        await ask(self, b"initialize", INITIALIZE)
        self._write(INITIALIZED)

    def send(self, method: bytes, params: bytes, sink: Sink) -> None:
        self.last_id += 1
        self.sinks[self.last_id] = sink
        self._write(b'{"jsonrpc":"2.0","id":%d,"method":"%b","params":%b}' % (self.last_id, method, params))

    def _write(self, message: bytes) -> None:
        self.stdin.write(message + b"\n")

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd != 1:
            return
        *lines, self.rest = (self.rest + data if self.rest else data).split(b"\n")
        for line in lines:
            reply = decode_reply(line)
            sink = self.sinks.pop(reply.id, None) if reply.method is None else None
            if sink is not None:
                sink(reply)


class HttpServer:
    def __init__(self, server: dict[str, Any]) -> None:
        parts = urlsplit(server["url"])
        self.host, self.port = parts.hostname, parts.port
        self.idle: list[HttpExchange] = []
        self.last_id = 0
        self.dialling: set[asyncio.Task[None]] = set()
        self.head = (
            f"POST {parts.path} HTTP/1.1\r\nhost: {parts.netloc}\r\ncontent-type: application/json\r\n"
            "accept: application/json, text/event-stream\r\nmcp-protocol-version: 2025-06-18\r\n"
        ).encode()

    async def open(self) -> None:
        await ask(self, b"initialize", INITIALIZE)
        accepted = asyncio.get_running_loop().create_future()
        self._post(INITIALIZED, accepted.set_result)
        await accepted

    def send(self, method: bytes, params: bytes, sink: Sink) -> None:
        self.last_id += 1
        self._post(b'{"jsonrpc":"2.0","id":%d,"method":"%b","params":%b}' % (self.last_id, method, params), sink)

    def _post(self, body: bytes, sink: Sink) -> None:
        data = self.head + b"content-length: %d\r\n\r\n%b" % (len(body), body)
        if self.idle:
            self.idle.pop().begin(data, sink)
        else:
            task = asyncio.ensure_future(self._dial(data, sink))
            self.dialling.add(task)
            task.add_done_callback(self.dialling.discard)

    async def _dial(self, data: bytes, sink: Sink) -> None:
        loop = asyncio.get_running_loop()
        _, exchange = await loop.create_connection(lambda: HttpExchange(self), self.host, self.port)
        exchange.begin(data, sink)


class HttpExchange(asyncio.Protocol):
    """One kept-alive connection to a server."""

    def __init__(self, server: HttpServer) -> None:
        self.server = server

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def begin(self, data: bytes, sink: Sink) -> None:
        self.parser = httptools.HttpResponseParser(self)
        self.sink, self.body, self.is_stream = sink, b"", False
        self.transport.write(data)

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name == b"content-type":
            self.is_stream = value.startswith(b"text/event-stream")
        elif name == b"mcp-session-id":
            self.server.head += b"mcp-session-id: %b\r\n" % value

    def on_body(self, chunk: bytes) -> None:
        self.body += chunk

    def on_message_complete(self) -> None:
        body = self.body
        if self.is_stream:
            at = body.rfind(b"data:")
            body = body[at + 5 : body.find(b"\n", at)].strip()
        self.server.idle.append(self)
        self.sink(decode_reply(body) if body else Reply())

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        if self in self.server.idle:
            self.server.idle.remove(self)


Server = StdioServer | HttpServer


def ask(server: Server, method: bytes, params: bytes) -> asyncio.Future[Reply]:
    reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
    server.send(method, params, reply.set_result)
    return reply


class Gateway:
    def __init__(self, servers: dict[str, dict[str, Any]]) -> None:
        self.servers = {name: (HttpServer if "url" in at else StdioServer)(at) for name, at in servers.items()}
        self.routes: dict[str, tuple[Server, bytes]] = {}
        self.listing = b""

    async def open(self) -> None:
        await asyncio.gather(*(server.open() for server in self.servers.values()))
        replies = await asyncio.gather(*(ask(server, b"tools/list", b"{}") for server in self.servers.values()))
        tools = []
        for (prefix, server), reply in zip(self.servers.items(), replies, strict=True):
            for tool in msgspec.json.decode(reply.result)["tools"]:
                self.routes[f"{prefix}_{tool['name']}"] = (server, msgspec.json.encode(tool["name"]))
                tools.append({**tool, "name": f"{prefix}_{tool['name']}"})
        self.listing = b',"result":{"tools":' + msgspec.json.encode(tools) + b"}}"

    def handle(self, message: bytes, answer: Answer) -> None:
        """Answer one message, with None when it is a notification."""
        request = decode_request(message)
        head = b'{"jsonrpc":"2.0","id":' + bytes(request.id)
        if not request.id:
            answer(None)
        elif request.method == "tools/call":
            self._call(head, decode_call(request.params), answer)
        elif request.method == "tools/list":
            answer(head + self.listing)
        elif request.method == "initialize":
            answer(head + b',"result":' + WELCOME + b"}")
        else:
            answer(head + b',"error":' + UNKNOWN_METHOD + b"}")

    def _call(self, head: bytes, call: Call, answer: Answer) -> None:
        if call.name not in self.routes:
            return answer(head + b',"error":' + UNKNOWN_TOOL + b"}")
        server, name = self.routes[call.name]

        def sink(reply: Reply) -> None:
            if reply.result:
                answer(head + b',"result":' + bytes(reply.result) + b"}")
            else:
                answer(head + b',"error":' + bytes(reply.error) + b"}")

        return server.send(b"tools/call", b'{"name":%b,"arguments":%b}' % (name, bytes(call.arguments)), sink)


class HttpFront(asyncio.Protocol):
    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
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
            self.gateway.handle(self.body, self._answer)
        else:
            self.transport.write(b"HTTP/1.1 405 Method Not Allowed\r\nallow: POST\r\ncontent-length: 0\r\n\r\n")

    def _answer(self, data: bytes | None) -> None:
        if data is None:
            self.transport.write(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")
            return
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
        self.transport.write(head % (len(data), data))


class StdioFront(asyncio.Protocol):
    def __init__(self, gateway: Gateway, stdout: asyncio.WriteTransport, over: asyncio.Event) -> None:
        self.gateway, self.stdout, self.over = gateway, stdout, over
        self.rest = b""

    def data_received(self, data: bytes) -> None:
        *lines, self.rest = (self.rest + data if self.rest else data).split(b"\n")
        for line in lines:
            self.gateway.handle(line, self._answer)

    def _answer(self, data: bytes | None) -> None:
        if data is not None:
            self.stdout.write(data + b"\n")

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.over.set()


async def serve_http(gateway: Gateway, port: int) -> None:
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(lambda: HttpFront(gateway), "127.0.0.1", port, backlog=512)
    await listener.serve_forever()


async def serve_stdio(gateway: Gateway) -> None:
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    stdout, _ = await loop.connect_write_pipe(asyncio.Protocol, os.fdopen(1, "wb", closefd=False))
    await loop.connect_read_pipe(lambda: StdioFront(gateway, stdout, over), sys.stdin.buffer)
    await over.wait()


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("config", type=Path)
    parser.add_argument("--port", type=int)
    options = parser.parse_args()
    gateway = Gateway(json.loads(options.config.read_text())["mcpServers"])
    await gateway.open()
    await (serve_stdio(gateway) if options.port is None else serve_http(gateway, options.port))


uvloop.run(main())
