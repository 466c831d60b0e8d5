"""Batches: several messages in one, as revision 2025-03-26 has them and no other."""

from collections.abc import Callable
from typing import cast

import msgspec
from msgspec import UNSET, Raw

from toolcrib.core import framing
from toolcrib.server.mcp.news import STREAM_HEADERS
from toolcrib.server.mcp.sessions import McpSession
from toolcrib.transports.http.server import Exchange, HttpRequest
from toolcrib.wire.http import encode_event
from toolcrib.wire.jsonrpc import INVALID_REQUEST, Inbound, RpcError, decode_inbound, encode_error
from toolcrib.wire.messages import Asker

BATCH_VERSION = "2025-03-26"
BATCH_MAX = 50
"""Messages in one batch."""

Start = Callable[[Inbound, Asker, HttpRequest, McpSession | None], None]
Hear = Callable[[Inbound, McpSession], bool]
_array = msgspec.json.Decoder(list[Raw])


def is_batch(body: bytes) -> bool:
    """Whether a message that could not be read as one may be several."""
    return body.lstrip()[:1] == b"["


def split_batch(body: bytes, asker: Asker | None) -> list[Inbound | RpcError]:
    """The messages of a batch, or what is wrong with one of them; refused where there are no batches."""
    if asker is None or asker.version != BATCH_VERSION:
        raise RpcError(INVALID_REQUEST, f"Only clients of revision {BATCH_VERSION} may send several messages in one.")
    if len(body) > framing.SMALL_BYTES and framing.is_bulky(body):
        raise RpcError(INVALID_REQUEST, framing.TOO_MANY_VALUES)
    try:
        parts = _array.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RpcError(INVALID_REQUEST, f"This batch cannot be read: {error}.") from None
    if not 0 < len(parts) <= BATCH_MAX:
        raise RpcError(INVALID_REQUEST, f"A batch has between 1 and {BATCH_MAX} messages.")
    return [_read(bytes(part)) for part in parts]


def _read(part: bytes) -> Inbound | RpcError:
    try:
        message = decode_inbound(part)
    except RpcError as error:
        return error
    if message.method != "initialize":
        return message
    request_id = message.id if message.id is not UNSET else None
    return RpcError(INVALID_REQUEST, "initialize cannot be part of a batch.", request_id=request_id)


class Batch:
    """The answers to one batch over HTTP: an array of them, or one event for each once there is more to say."""

    def __init__(self, exchange: Exchange, count: int) -> None:
        self.exchange, self._left = exchange, count
        self._answers: list[bytes] = []

    def stream(self) -> None:
        """Go on as a stream, with what was answered so far."""
        if self.exchange.is_open:
            self.exchange.start_stream(200, headers=STREAM_HEADERS)
            answers, self._answers = self._answers, []
            for body in answers:
                self.exchange.write(encode_event(body))

    def take(self, body: bytes = b"") -> None:
        """One of the requests is over; without an answer if it was called off, or it is on the stream already."""
        if body and self.exchange.streaming:
            self.exchange.write(encode_event(body))
        elif body:
            self._answers.append(body)
        self._left -= 1
        if self._left == 0:
            self._end()

    def _end(self) -> None:
        if self.exchange.streaming:
            self.exchange.end()
        elif self.exchange.is_open and self._answers:
            self.exchange.answer(200, b"[" + b",".join(self._answers) + b"]")
        elif self.exchange.is_open:
            self.exchange.answer(202, b"")


class BatchPart:
    """The way back of one request of a batch: what an exchange is to a request that came alone."""

    def __init__(self, batch: Batch) -> None:
        self._batch, self._is_over = batch, False

    @property
    def is_open(self) -> bool:
        """Whether nothing was said yet, to this request or any other."""
        return not self._is_over and self._batch.exchange.is_open

    @property
    def streaming(self) -> bool:
        """Whether it is answered in a stream."""
        return not self._is_over and self._batch.exchange.streaming

    @property
    def backlog(self) -> int:
        """How many bytes wait for the client to read on."""
        return self._batch.exchange.backlog

    def start_stream(self, status: int, **_: object) -> None:
        """There is more to say than an answer."""
        del status
        self._batch.stream()

    def write(self, chunk: bytes) -> None:
        """A piece of the stream."""
        self._batch.exchange.write(chunk)

    def answer(self, status: int, body: bytes) -> None:
        """The whole answer."""
        del status
        self._is_over = True
        self._batch.take(body)

    def end(self) -> None:
        """Nothing more comes for this request."""
        self._is_over = True
        self._batch.take()

    def on_disconnect(self, callback: Callable[[], object]) -> None:
        """Have ``callback`` called if the client goes away."""
        self._batch.exchange.on_disconnect(callback)


def take_batch(request: HttpRequest, start: Start, hear: Hear, session: McpSession) -> None:
    """Take what came in one batch within a session; each message counts as if it had come alone."""
    parts = split_batch(request.body, session.asker)
    count = sum(1 for part in parts if isinstance(part, RpcError) or _is_request(part))
    batch = Batch(request.exchange, count)
    for message in parts:
        if isinstance(message, RpcError):
            batch.take(encode_error(message.request_id, message))
        elif _is_request(message):
            _start(message, request, batch, start, session)
        else:
            hear(message, session)
    if not count:
        request.exchange.answer(202, b"")


def _is_request(message: Inbound) -> bool:
    return message.method is not UNSET and message.id is not UNSET


def _start(message: Inbound, request: HttpRequest, batch: Batch, start: Start, session: McpSession) -> None:
    alone = request.with_body(b"")
    alone.identity, alone.exchange = request.identity, cast("Exchange", BatchPart(batch))
    try:
        start(message, session.asker, alone, session)
    except RpcError as error:
        batch.take(encode_error(message.id if message.id is not UNSET else None, error))
