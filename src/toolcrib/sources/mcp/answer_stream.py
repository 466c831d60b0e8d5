"""The event stream that a question over HTTP may be answered by: pieces in, the one answer out."""

import asyncio
from collections.abc import Callable
from typing import Self

import msgspec
from msgspec import UNSET, Raw

from toolcrib.core.errors import ConnectionLost, ProtocolError
from toolcrib.sources.mcp.link import names_request, to_remote_error
from toolcrib.sources.mcp.redactor import NO_SECRETS, Redactor
from toolcrib.wire.http import SseParser
from toolcrib.wire.jsonrpc import Outbound, RequestId, decode_outbound

CLOSE_PATIENCE_S = 0.5
RESUME_DELAY_S = 1.0
RESUME_MAX_S = 10.0

Take = Callable[[Outbound], None]


class AnswerStream:
    """Takes the pieces of a stream as they arrive and keeps the answer to one request."""

    __slots__ = (
        "_answer",
        "_cut",
        "_earlier",
        "_loop",
        "_on_notice",
        "_on_question",
        "_parser",
        "_redactor",
        "_request_id",
        "_task",
        "is_used",
    )

    def __init__(
        self,
        request_id: RequestId,
        on_notice: Take,
        on_question: Take,
        redactor: Redactor = NO_SECRETS,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """``loop`` is the running one, if it is known: to ask for it is a system call before Python 3.12."""
        self._redactor, self._loop, self._earlier = redactor, loop, 0
        self._request_id = request_id
        self._on_notice, self._on_question = on_notice, on_question
        self._parser: SseParser | None = None
        self._answer: Outbound | ProtocolError | None = None
        self._task: asyncio.Task[object] | None = None
        self._cut = False
        self.is_used = False

    def receive(self, chunk: bytes) -> None:
        """Take a piece of the body."""
        if self._parser is None:
            self._parser, self.is_used = SseParser(), True
        for data in self._parser.feed(chunk):
            self._take(data)

    def _take(self, data: bytes) -> None:
        try:
            message = decode_outbound(self._redactor.clean(data))
        except msgspec.DecodeError as error:
            if names_request(data, {self._request_id}):
                self._settle(_unreadable(error))
            return
        if message.method is None:
            if message.id == self._request_id:
                self._settle(message)
        elif message.id is None:
            self._on_notice(message)
        else:
            self._on_question(message)

    def _settle(self, answer: Outbound | ProtocolError) -> None:
        if self._answer is None:
            self._answer = answer
            (self._loop or asyncio.get_running_loop()).call_later(CLOSE_PATIENCE_S, self._cut_off)

    def _cut_off(self) -> None:
        """The answer is here and the server keeps the stream open: nobody has to wait for that."""
        if self._task is not None:
            self._cut = True
            self._task.cancel()

    def cut_when_answered(self) -> Self:
        """Around the exchange: ends it a moment after the answer if the server does not. Its own context manager,
        because one made from a generator costs every call 0.7 µs more."""
        return self

    def __enter__(self) -> None:
        self._task = task = asyncio.current_task(self._loop)
        self._earlier = task.cancelling() if task is not None else 0

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        task, self._task = self._task, None
        if kind is None or not issubclass(kind, asyncio.CancelledError):
            return
        if self._cut and task is not None and task.uncancel() <= self._earlier:
            raise StreamCut from None

    @property
    def resume_from(self) -> str:
        """The id to go on from when the stream ended without the answer; empty if there is nothing to go on from."""
        return self._parser.last_id if self._parser is not None and self._answer is None else ""

    @property
    def resume_delay_s(self) -> float:
        """How long the server wants us to wait before we come back."""
        retry_ms = self._parser.retry_ms if self._parser is not None else None
        return min(RESUME_MAX_S, RESUME_DELAY_S if retry_ms is None else retry_ms / 1000)

    def result(self) -> Raw:
        """The answer; a stream that ended without one is a lost connection."""
        answer = self._answer
        if answer is None:
            raise ConnectionLost("The server ended its answer before it was complete.")
        if isinstance(answer, ProtocolError):
            raise answer
        if answer.result is not UNSET:
            return answer.result
        raise to_remote_error(b"{}" if answer.error is UNSET else answer.error)


def _unreadable(error: Exception) -> ProtocolError:
    return ProtocolError(f"The server's answer cannot be read: {error}.")


class StreamCut(Exception):
    """The exchange was ended because its answer had arrived."""
