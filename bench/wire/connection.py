"""HTTP/1.1 client connections kept alive in a pool; an answer is one JSON document or a stream of events."""

import asyncio
import socket
import time
from typing import Any
from urllib.parse import urlsplit

import httptools
import orjson

from bench.wire.base import WireError

IDLE_S = 2.0


class Answer:
    """Status, headers and the decoded message of one exchange."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.message: Any = None


class Connection(asyncio.Protocol):
    """One socket, one exchange at a time. ``answered`` may come before ``finished``: a stream ends when it likes."""

    def __init__(self) -> None:
        self.alive = False
        self.answered: asyncio.Future[Answer] | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.alive = True
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def connection_lost(self, exc: Exception | None) -> None:
        self.alive = False
        if self.answered is None:
            return
        if not self.answered.done():
            self.answered.set_exception(WireError(f"connection lost: {exc}"))
        if not self.finished.done():
            self.finished.set_result(None)

    def begin(self, payload: bytes, request_id: int | None) -> asyncio.Future[Answer]:
        loop = asyncio.get_running_loop()
        self.parser = httptools.HttpResponseParser(self)
        self.request_id = request_id
        self.body: list[bytes] = []
        self.is_stream = False
        self.answer = Answer()
        self.answered = loop.create_future()
        self.finished: asyncio.Future[None] = loop.create_future()
        self.transport.write(payload)
        return self.answered

    def data_received(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(f"not HTTP: {error}")

    def on_header(self, name: bytes, value: bytes) -> None:
        self.answer.headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        self.answer.status = self.parser.get_status_code()
        self.is_stream = self.answer.headers.get(b"content-type", b"").startswith(b"text/event-stream")

    def on_body(self, chunk: bytes) -> None:
        self.body.append(chunk)
        if self.is_stream and b"\n" in chunk:
            self._scan_events()

    def on_message_complete(self) -> None:
        if self.is_stream:
            self._fail("the stream ended without the answer")
        else:
            self._succeed(_decode(b"".join(self.body)))
        if not self.parser.should_keep_alive():
            self.alive = False
            self.transport.close()
        if not self.finished.done():
            self.finished.set_result(None)

    def _scan_events(self) -> None:
        *events, rest = b"".join(self.body).replace(b"\r\n", b"\n").split(b"\n\n")
        self.body = [rest] if rest else []
        for event in events:
            data = event_data(event)
            message = orjson.loads(data) if data else {"method": ""}
            if "method" not in message and message.get("id") == self.request_id:
                self._succeed(message)

    def _succeed(self, message: Any) -> None:
        if self.answered is not None and not self.answered.done():
            self.answer.message = message
            self.answered.set_result(self.answer)

    def _fail(self, why: str) -> None:
        if self.answered is not None and not self.answered.done():
            self.answered.set_exception(WireError(why))


class Pool:
    """As many connections as there are exchanges at once.

    One that was idle for long is not used again: servers close such connections, some at the very moment of use.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.hostname is None or parts.port is None:
            raise ValueError(f"{url!r} needs a host and a port")
        self.host, self.port = parts.hostname, parts.port
        self.free: list[tuple[float, Connection]] = []  # with the moment of the last use

    async def exchange(self, head: bytes, body: bytes, request_id: int | None = None) -> Answer:
        connection = await self._acquire()
        answered = connection.begin(head + b"content-length: %d\r\n\r\n" % len(body) + body, request_id)
        try:
            answer = await answered
        except BaseException:
            connection.transport.close()
            raise
        if connection.finished.done():
            self._release(connection)
        else:
            connection.finished.add_done_callback(lambda _: self._release(connection))
        return answer

    async def _acquire(self) -> Connection:
        oldest = time.monotonic() - IDLE_S
        while self.free:
            used, connection = self.free.pop()
            if connection.alive and used > oldest:
                return connection
            connection.transport.close()
        _, connection = await asyncio.get_running_loop().create_connection(Connection, self.host, self.port)
        return connection

    def _release(self, connection: Connection) -> None:
        if connection.alive:
            self.free.append((time.monotonic(), connection))

    def close(self) -> None:
        for _, connection in self.free:
            connection.transport.close()


def event_data(event: bytes) -> bytes:
    return b"".join(line[5:].lstrip() for line in event.split(b"\n") if line.startswith(b"data:"))


def _decode(body: bytes) -> Any:
    """The JSON document; a body that is none is kept to be shown in the error."""
    try:
        return orjson.loads(body) if body else None
    except orjson.JSONDecodeError:
        return body
