"""The way back from a running call to an MCP client."""

import asyncio
import itertools
import secrets
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, cast

import msgspec
from msgspec import UNSET

from toolcrib.core.errors import CallCancelled, NotImplementedHere, RemoteError
from toolcrib.server.mcp.news import BACKLOG_MAX, NewsClient
from toolcrib.server.mcp.parking import Parked, ParkingLot
from toolcrib.wire.jsonrpc import Inbound, decode_error, encode, encode_notification
from toolcrib.wire.messages import LOG_LEVELS
from toolcrib.wire.strict import clean_object

PROGRESS = "notifications/progress"
MESSAGE = "notifications/message"
COMPLETE = "notifications/elicitation/complete"
_object = msgspec.json.Decoder(dict[str, Any])


Spawn = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]


def task_maker(loop: asyncio.AbstractEventLoop) -> Spawn:
    """What a door makes the task of each request with. Where no factory has a say in it, not by the loop: that gives
    every task a number and a name with it, which nobody reads, for 1 % of a call's instructions."""
    if loop.get_task_factory() is not None:
        return loop.create_task
    return partial(asyncio.Task, loop=loop, name="mcp.request")


def is_wanted(message: Mapping[str, Any], least: str, is_modern: bool) -> bool:
    """Whether a client that asked for messages of this severity wants a log message; in the handshake era one that
    has not asked gets what the server thinks fit, in the stateless era nothing."""
    if not least:
        return not is_modern
    level = message.get("level")
    return level not in LOG_LEVELS or LOG_LEVELS.index(level) >= LOG_LEVELS.index(least)


class ClientChannel(msgspec.Struct, eq=False):
    """A BackChannel for one request; the doors say how a message is sent and a question asked."""

    capabilities: Mapping[str, Any]
    takes_input_required: bool
    wants_progress: bool
    _token: Any
    """Under which the client wants to hear of progress, if it does."""

    @property
    @abstractmethod
    def message(self) -> Inbound | None:
        """The request."""

    @property
    def traceparent(self) -> str:
        """The trace that the request's headers say it belongs to, where it came with any."""
        return ""

    @property
    @abstractmethod
    def client(self) -> NewsClient | None:
        """Whom notices can be sent to when the request is over; ``None`` in the stateless era."""

    @property
    @abstractmethod
    def log_level(self) -> str:
        """The least severe log message that the client asked for; empty if it asked for none."""

    @property
    @abstractmethod
    def lot(self) -> ParkingLot | None:
        """Where a stateless client's calls wait for its answers."""

    @property
    @abstractmethod
    def parked(self) -> Parked | None:
        """Where this one waits, once it has asked its client something."""

    def notify(self, method: str, params: bytes) -> None:
        """Pass a notification on, unless the client is far behind; progress carries the client's own token."""
        if self.parked is not None:  # the request it came with is answered
            self.parked.notify(method, params)
            return
        if method == COMPLETE and self.client is not None:
            self.client.tell(method, _object.decode(params))
            return
        if self.backlog > BACKLOG_MAX:
            return
        if method == PROGRESS and not self.wants_progress:
            return
        try:
            params = clean_object(params)
            if method == PROGRESS:
                params = encode({**_object.decode(params), "progressToken": self._token})
            elif method == MESSAGE and not is_wanted(_object.decode(params), self.log_level, self.takes_input_required):
                return
        except msgspec.DecodeError:  # a server's nonsense is no reason to disturb its other calls
            return
        if not self.is_over:
            self.send(encode_notification(method, params))
        elif method == MESSAGE and self.client is not None:
            self.client.tell(method, _object.decode(params))

    @property
    def is_over(self) -> bool:
        """Whether its request was answered, and nothing can be said to it any more."""
        return False

    @property
    @abstractmethod
    def backlog(self) -> int:
        """How many bytes the client has not read yet."""

    @abstractmethod
    def send(self, message: bytes) -> None:
        """Send a message to the client before the result."""

    async def ask(self, method: str, params: bytes) -> bytes:
        """Ask the client something; the raw result. A stateless one is answered with the question, and comes back."""
        if not self.takes_input_required:
            return await self.ask_now(method, params)
        if self.parked is None:
            if self.lot is None:
                raise NotImplementedHere(f"A stateless client cannot be asked {method!r} in the middle of a call.")
            self.park(self.lot)
        assert self.parked is not None
        return await self.parked.ask(method, params)

    @abstractmethod
    def park(self, lot: ParkingLot) -> None:
        """Set ``parked``."""

    @abstractmethod
    async def ask_now(self, method: str, params: bytes) -> bytes:
        """Ask a client of the handshake era."""


_PREFIX = "toolcrib-"


class Questions:
    """Request ids of ours, and who waits for them."""

    def __init__(self) -> None:
        self._ids = itertools.count(1)
        self._tag = secrets.token_hex(4)  # another replica may ask the same client
        self._waiting: dict[str, asyncio.Future[bytes]] = {}
        self._closed = False

    async def ask(self, send: Callable[[bytes], None], method: str, params: bytes) -> bytes:
        """Send a request by ``send`` and wait for the client's result."""
        if self._closed:
            raise _unanswered()
        request_id = f"{_PREFIX}{self._tag}-{next(self._ids)}"
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = future
        body = b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":%b}' % (encode(request_id), encode(method), params)
        try:
            send(body)
            return await future
        except asyncio.CancelledError:
            if not self._closed:  # the form on the other side is of no use any more
                send(encode_notification("notifications/cancelled", encode({"requestId": request_id})))
            raise
        finally:
            self._waiting.pop(request_id, None)

    def settle(self, message: Inbound) -> bool:
        """Take a client's answer; false if it is to a question that was asked elsewhere, or by nobody any more."""
        if type(message.id) is not str or not message.id.startswith(_PREFIX):
            return True
        future = self._waiting.get(message.id)
        if future is None or future.done():
            return future is not None
        if message.result is not UNSET:
            future.set_result(bytes(message.result))
        elif message.error is not UNSET:
            body = decode_error(message.error)
            future.set_exception(RemoteError(body.code, body.message, data=body.data))
        return True

    def close(self) -> None:
        """The client is gone: fail all open and future questions."""
        self._closed = True
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(_unanswered())


def _unanswered() -> CallCancelled:
    return CallCancelled("The client left before it answered.")


STALLED_S = 10.0
"""How long a client may read nothing of what is left for it when the door closes."""


class Outlet(asyncio.BaseProtocol):
    """The writing end; ``on_relief`` is called when a client that was behind has caught up."""

    def __init__(self, on_relief: Callable[[], None]) -> None:
        self._on_relief = on_relief
        self._transport: asyncio.WriteTransport | None = None
        self._gone = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the pipe."""
        self._transport = cast("asyncio.WriteTransport", transport)

    def resume_writing(self) -> None:
        """The client reads again."""
        self._on_relief()

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: everything was sent, or the client is gone."""
        del exc
        self._gone.set()

    @property
    def backlog(self) -> int:
        """How many bytes wait for the client to read on."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def send(self, message: bytes) -> None:
        """Write one message as a line."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(message + b"\n")

    async def close(self) -> None:
        """Close once all is out; a client that has stopped reading is not waited for."""
        if self._transport is None:
            return
        self._transport.close()
        left = -1
        while not self._gone.is_set() and self.backlog != left:
            left = self.backlog
            with suppress(TimeoutError):
                await asyncio.wait_for(self._gone.wait(), STALLED_S)
        if not self._gone.is_set():
            self._transport.abort()
