"""MCP over stdin and stdout; stdout carries the protocol and nothing else, whatever a tool prints."""

import asyncio
import os
import secrets
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from msgspec import UNSET

from toolcrib.core.access import LOCAL_USER, Caller
from toolcrib.core.framing import MESSAGE_BYTES, LineFramer
from toolcrib.server.mcp import news, service
from toolcrib.server.mcp.batch import is_batch, split_batch
from toolcrib.server.mcp.channel import ClientChannel, Outlet, Questions, task_maker
from toolcrib.server.mcp.news import BACKLOG_MAX, OWED_MAX, ClientNews, ListChanges, NewsClient
from toolcrib.server.mcp.parking import Parked, ParkingLot
from toolcrib.server.mcp.service import McpService
from toolcrib.wire import messages
from toolcrib.wire.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    Inbound,
    RequestId,
    RpcError,
    decode_inbound,
    encode,
    encode_error,
    encode_notification,
    encode_result,
)
from toolcrib.wire.messages import Asker


class StdioChannel(ClientChannel):
    """One request's way back over stdout."""

    _door: "StdioDoor"
    message: Inbound
    log_level: str = ""
    client: NewsClient | None = None
    parked: Parked | None = None

    @property
    def caller(self) -> Caller:
        """Who is on the other side."""
        return self._door.caller

    @property
    def lot(self) -> ParkingLot:
        """Where the calls of the door wait."""
        return self._door.mcp.lot

    @property
    def backlog(self) -> int:
        """What waits in front of stdout."""
        return self._door.out.backlog

    def send(self, message: bytes) -> None:
        """Write it."""
        self._door.out.send(message)

    def park(self, lot: ParkingLot) -> None:
        """Take a place."""
        self.parked = lot.park(self)

    async def ask_now(self, method: str, params: bytes) -> bytes:
        """Ask, and wait for the answer on stdin."""
        return await self._door.questions.ask(self.send, method, params)

    def end(self, body: bytes) -> None:
        """The result, to whichever request waits for it."""
        if self.parked is None:
            self.send(body)
        else:
            self.parked.finish(body, 200)

    def finish(self, body: bytes, status: int) -> None:
        """Answer the request."""
        del status
        self.send(body)

    def cancel(self) -> None:
        """End the work on it."""
        self._door.cancel(self.message.id)


class StdioDoor(asyncio.Protocol):
    """One client on a pair of pipes."""

    def __init__(self, mcp: McpService, caller: Caller = LOCAL_USER) -> None:
        self.mcp = mcp
        self.caller = replace(caller, session=secrets.token_urlsafe(12))
        self._framer = LineFramer(MESSAGE_BYTES, self._refuse_overlong)
        self._asker: Asker | None = None
        self._is_greeted = False
        self._running: dict[RequestId, asyncio.Task[Any]] = {}
        self._subscriptions: dict[RequestId, tuple[frozenset[str], ClientNews]] = {}
        """Which requests listen, for which changed lists, and for which resources."""
        self.news: ClientNews | None = None
        """What a handshake era client subscribed to."""
        self._changes, self._owed = ListChanges(mcp.front), dict[bytes, None]()
        self.questions = Questions()
        self._spawn = task_maker(asyncio.get_running_loop())
        self._is_last = False
        self._stop_listening = mcp.front.on_change(self._tell_changed)
        self.out = Outlet(self._catch_up)
        """Where answers go: the protocol of stdout."""
        self.ended = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        """Take what the client sent."""
        for line in self._framer.feed(data):
            self._receive(line)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client closed its end: finish what it asked for, then go; it will answer nothing more."""
        del exc
        self._is_last = True
        self.questions.close()
        self.mcp.lot.leave(self.caller)
        self._end_if_done()

    def _end_if_done(self) -> None:
        if self._is_last and not self._running:
            self.ended.set()

    def _refuse_overlong(self, head: bytes) -> None:
        del head
        error = RpcError(INVALID_REQUEST, f"A message of more than {MESSAGE_BYTES} bytes was skipped.")
        self.out.send(encode_error(None, error))

    def _receive(self, line: bytes) -> None:
        try:
            self._take(decode_inbound(line))
        except RpcError as error:
            self._receive_other(line, error)

    def _receive_other(self, line: bytes, error: RpcError) -> None:
        """Take a batch, whose requests are answered one by one: not all clients that send an array can read one."""
        try:
            parts = split_batch(line, self._asker) if is_batch(line) else [error]
        except RpcError as refused:
            parts = [refused]
        for part in parts:
            if isinstance(part, RpcError):
                self.out.send(encode_error(part.request_id, part))
            else:
                self._take(part)

    def _take(self, message: Inbound) -> None:
        if message.method is UNSET:
            self.questions.settle(message)
        elif message.id is UNSET:
            self._notice(message)
        else:
            self._request(message, message.id)  # type: ignore[arg-type]  # decode_inbound refuses null ids

    def _notice(self, message: Inbound) -> None:
        if message.method == service.ROOTS_CHANGED:
            self.mcp.front.crib.roots_changed(self.caller)
        self.mcp.hear(message, self.caller)
        request_id = service.cancelled_id(message)
        if request_id is not None:
            self._end_subscription(request_id)
            self.cancel(request_id)

    def cancel(self, request_id: object) -> None:
        """End the work on a request; one that has not begun yet never gets to leave the table itself."""
        task = self._running.pop(request_id, None) if isinstance(request_id, int | str) else None
        if task is not None:
            task.cancel()

    def _request(self, message: Inbound, request_id: RequestId) -> None:
        try:
            asker = self._identify(message)
        except RpcError as error:
            self.out.send(encode_error(request_id, error))
            return
        if request_id in self._running or request_id in self._subscriptions:
            self.out.send(encode_error(request_id, RpcError(INVALID_REQUEST, "This request id is already in use.")))
        elif message.method == "initialize" and not asker.is_modern:
            self._running[request_id] = self._spawn(self._greet(request_id, asker))
        elif message.method == news.LISTEN and asker.is_modern:
            self._running[request_id] = self._spawn(self._listen(message, request_id, asker))
        else:
            self._running[request_id] = self._spawn(self._work(message, request_id, asker))

    def _identify(self, message: Inbound) -> Asker:
        if messages.claims_modern(message):
            return messages.modern_asker(str(message.method), messages.request_params(message))
        if message.method == "initialize":
            self._asker = messages.handshake_asker(messages.request_params(message))
        if self._asker is None:
            if message.method == "ping":
                return Asker("2025-03-26")
            raise RpcError(INVALID_PARAMS, "Send initialize first, or carry the protocol version in params._meta.")
        return self._asker

    async def _greet(self, request_id: RequestId, asker: Asker) -> None:
        """Answer a handshake; how the lists came to be before it is no news."""
        try:
            self.out.send(encode_result(request_id, await self.mcp.initialize(asker, self.caller, self)))
            self._is_greeted = True
        finally:
            self._running.pop(request_id, None)
            self._end_if_done()

    async def _work(self, message: Inbound, request_id: RequestId, asker: Asker) -> None:
        token = service.progress_token(message)
        wants, level = token is not None, asker.log.name
        client = None if asker.is_modern else self
        channel = StdioChannel(asker.capabilities, asker.is_modern, wants, token, self, message, level, client)
        try:
            channel.end(await self._respond(message, asker, channel))
        except asyncio.CancelledError:
            if channel.parked is not None:
                channel.parked.abandon()
            raise
        except Exception as error:  # the edge of the door: whatever it is, the client gets an answer
            channel.end(service.internal_error(request_id))
            sys.stderr.write(f"toolcrib: a request failed: {error!r}\n")
        finally:
            self._running.pop(request_id, None)
            self._end_if_done()

    async def _respond(self, message: Inbound, asker: Asker, channel: ClientChannel) -> bytes:
        return (await self.mcp.respond(message, asker, channel, self.caller))[0]

    async def _listen(self, message: Inbound, request_id: RequestId, asker: Asker) -> None:
        """Begin a subscription: what of it can be honoured is acknowledged."""
        if await self.mcp.passes_listening(message, self.caller):
            await self._work(message, request_id, asker)
            return
        params, meta = messages.request_params(message), news.subscription_meta(request_id)
        watching = ClientNews(self.mcp.front, lambda method, said: self.tell(method, {**said, "_meta": meta}))
        try:
            news.check_listen(params, asker)
            honoured = await watching.follow(params, self.caller)
            self._subscriptions[request_id] = news.wanted_notices(honoured), watching
            self._acknowledge(request_id, honoured)
            watching.begin()
        except RpcError as error:
            self.out.send(encode_error(request_id, error))
        except BaseException:
            watching.close()
            raise
        finally:
            self._running.pop(request_id, None)
            self._end_if_done()

    def _acknowledge(self, request_id: RequestId, honoured: Mapping[str, Any]) -> None:
        self.out.send(news.acknowledge(request_id, honoured))

    def _end_subscription(self, request_id: RequestId) -> None:
        subscription = self._subscriptions.pop(request_id, None)
        if subscription is not None:
            subscription[1].close()

    def note_listed(self, method: str) -> None:
        """Here every client is told of every change."""

    def tell(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notice; a client that is far behind gets each once, when it reads again."""
        notice = encode_notification(method, encode(params))
        if self.out.backlog <= BACKLOG_MAX:
            self.out.send(notice)
        elif len(self._owed) < OWED_MAX:
            self._owed[notice] = None

    def _tell_changed(self) -> None:
        """Tell of changed lists."""
        for method in self._changes.take():
            if self._is_greeted and self.mcp.front.mirror is None:  # a transparent server says it itself
                self.tell(method, {})
            for request_id, (wanted, _) in self._subscriptions.items():
                if method in wanted:
                    self.tell(method, {"_meta": news.subscription_meta(request_id)})

    def _catch_up(self) -> None:
        owed, self._owed = self._owed, {}
        for notice in owed:
            self.out.send(notice)

    async def close(self) -> None:
        """End what still runs, see subscribers off and flush what was written."""
        self._stop_listening()
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        self.questions.close()
        await asyncio.gather(*tasks, return_exceptions=True)
        for request_id in list(self._subscriptions):
            self._end_subscription(request_id)
            self.out.send(encode_result(request_id, news.listen_result(request_id)))
        if self.news is not None:
            self.news.close()
        self.mcp.front.crib.end_session(self.caller.session)
        await self.out.close()


def take_over_stdio() -> tuple[int, int]:
    """Private copies of stdin and stdout; from here on, whatever prints goes to stderr and reads nothing."""
    private_in, private_out = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return private_in, private_out


async def serve_stdio(
    mcp: McpService, stop: asyncio.Event, caller: Caller = LOCAL_USER, streams: tuple[int, int] | None = None
) -> None:
    """Serve the client on stdin/stdout until it leaves or ``stop`` is set; ``streams`` if they were taken over."""
    loop = asyncio.get_running_loop()
    fd_in, fd_out = streams or take_over_stdio()
    door = StdioDoor(mcp, caller)
    # uvloop closes the descriptor itself, after the file: the second time it may be a stranger's that another thread
    # opened meanwhile.
    is_closed_by_file = not type(loop).__module__.startswith("uvloop")
    target = os.fdopen(fd_out, "wb", buffering=0, closefd=is_closed_by_file)
    source = os.fdopen(fd_in, "rb", buffering=0, closefd=is_closed_by_file)
    await loop.connect_write_pipe(lambda: door.out, target)
    incoming, _ = await loop.connect_read_pipe(lambda: door, source)
    waits = [asyncio.ensure_future(door.ended.wait()), asyncio.ensure_future(stop.wait())]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
        incoming.close()
        await door.close()
