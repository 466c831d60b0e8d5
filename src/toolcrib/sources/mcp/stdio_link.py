"""Links over one stream of messages each way; and the one to a server that runs as a child process, which has them as
newline-delimited JSON over its pipes."""

import asyncio
import contextlib
import re

import msgspec
from msgspec import UNSET, Raw

from toolcrib.core.errors import ConnectionLost, ProtocolError, SourceUnavailable, ToolcribError
from toolcrib.core.requests import BackChannel
from toolcrib.core.tasks import TaskScope
from toolcrib.sources.mcp import link as relay
from toolcrib.sources.mcp.attribution import Attribution
from toolcrib.sources.mcp.link import (
    UNREADABLE_ENDS,
    ExitTrace,
    LinkEvents,
    ServerRequest,
    names_request,
    to_remote_error,
)
from toolcrib.transports.process.spawn import Spawner
from toolcrib.transports.process.spec import ExitReport, ProcessSpec
from toolcrib.transports.stdio import OVERLONG, StdioTransport, open_stdio
from toolcrib.wire import eras
from toolcrib.wire.jsonrpc import Outbound, RequestId, decode_outbound, encode, encode_notification, encode_request

NOTICES_PER_S = 1000
NOISE_KEPT = 5
NOISE_BYTES = 2000
NOISE_PAUSE_S = 1.0
LARGE_BYTES = 64 * 1024
_ANSWER = re.compile(rb'"(?:result|error)"\s*:')
NEVER_CANCELLED = frozenset({"initialize", "server/discover"})


class StreamLink:
    """Many questions at once over one stream: one reader, a table of futures. How a message is sent is left open."""

    gone = "The connection has ended."
    """What is said to those who still wait when it ends."""

    def __init__(self, events: LinkEvents, tasks: TaskScope) -> None:
        self._events = events
        self._clean = events.redactor.clean
        self._tasks = tasks
        self._loop = asyncio.get_running_loop()
        self._pending: dict[RequestId, tuple[asyncio.Future[Raw], ServerRequest]] = {}
        self._attribution = Attribution(is_of_one=events.is_of_one)
        self._next_id = events.first_id
        self._version = ""
        self._lost = False
        self.is_open = False
        """Whether the process is there and listening."""
        self._asking = relay.OpenQuestions(tasks)
        self._listening = 0
        """The request that the server tells of changes by; zero before there is one."""
        self._heard_at = 0.0
        self._noise: list[str] = []
        self._noise_told_at = -NOISE_PAUSE_S
        self._notices = 0
        self._notice_second = 0.0

    @property
    def is_busy(self) -> bool:
        """Whether somebody waits for an answer."""
        return bool(self._pending)

    def new_id(self) -> int:
        """The next request id."""
        self._next_id += 1
        return self._next_id

    def claim_id(self, wanted: RequestId | None) -> RequestId:
        """A client's own id, if it is free."""
        return wanted if wanted is not None and relay.may_claim(wanted, self._pending) else self.new_id()

    async def ask(self, question: ServerRequest) -> Raw:
        """Send the question and wait for its answer; giving up tells the server."""
        if self._lost:
            raise ConnectionLost(self.gone)
        future: asyncio.Future[Raw] = self._loop.create_future()
        self._pending[question.id] = future, question
        self._attribution.note_call(question)
        try:
            self._hand_over(question)
            if len(question.params) > LARGE_BYTES:
                await self._drain(question)
            return await future
        except asyncio.CancelledError:
            self._give_up(question)
            raise
        finally:
            self._pending.pop(question.id, None)
            if self._asking.running:
                self._asking.end(question.id)

    def _hand_over(self, question: ServerRequest) -> None:
        """Send a question, now or soon; a failure ends it by ``_refute``."""
        raise NotImplementedError

    def _write(self, message: bytes) -> None:
        """Send a message without waiting for an answer; errors of an ended server are ignored."""
        raise NotImplementedError

    async def _drain(self, question: ServerRequest) -> None:
        """Wait until the server has taken most of a large question."""

    def _refute(self, request_id: RequestId, error: ToolcribError) -> None:
        """End a request that is still waiting with an error."""
        waiting = self._pending.get(request_id)
        if waiting is not None and not waiting[0].done():
            waiting[0].set_exception(error)

    def _give_up(self, question: ServerRequest) -> None:
        """Tell the server that nobody waits any more; a handshake must not be cancelled."""
        if question.id in self._pending and not self._lost and question.method not in NEVER_CANCELLED:
            self.tell(relay.CANCELLED, encode({"requestId": question.id, "reason": "The caller gave up."}))
            self._attribution.note_given_up(question, self._loop.time())

    def tell(self, method: str, params: bytes) -> None:
        """Send a notification."""
        self._write(encode_notification(method, params))

    def agree(self, version: str) -> None:
        """Remember the revision; frames look the same in all of them."""
        self._version = version

    def listen(self, params: bytes) -> None:
        """Subscribe in the stateless era; before it, servers tell unasked."""
        if not eras.is_modern(self._version):
            return
        former, self._listening = self._listening, self.new_id()
        self._write(encode_request(self._listening, "subscriptions/listen", params))
        if former:  # only now, so that nothing is missed in between
            self.tell(relay.CANCELLED, encode({"requestId": former}))

    def message_received(self, line: bytes) -> None:
        """Take one line of the server's stdout."""
        self._heard_at = self._loop.time()
        line = self._clean(line)
        try:
            message = decode_outbound(line)
        except msgspec.DecodeError as error:
            self._reject(line, error)
            return
        if message.method is None:
            self._settle(message)
        elif message.id is None:
            self._notice(message)
        else:
            self._answer(message)

    def _reject(self, line: bytes, error: Exception) -> None:
        """Note what could not be read."""
        self.noise_received(b"unreadable message (" + str(error).encode() + b"): " + line[:NOISE_BYTES])
        self._fail_unreadable(line, str(error))

    def _fail_unreadable(self, line: bytes, reason: str) -> None:
        """If a line that cannot be read names a request under way, that one need not wait any longer."""
        named = names_request(line, self._pending)
        is_answer = _ANSWER.search(line[:UNREADABLE_ENDS] + b" " + line[-UNREADABLE_ENDS:])
        if not named and len(self._pending) == 1 and is_answer:
            named = set(self._pending)
        for request_id in named:
            self._refute(request_id, ProtocolError(f"The server's answer cannot be read: {reason}."))

    def _settle(self, message: Outbound) -> None:
        waiting = self._pending.get(message.id) if message.id is not None else None
        if waiting is None:
            self._attribution.note_answered(message.id)
            return
        if waiting[0].done():
            return
        future = waiting[0]
        if message.result is not UNSET and (message.error is UNSET or bytes(message.error) == b"null"):
            future.set_result(message.result)
        elif message.result is not UNSET:
            future.set_exception(ProtocolError("The server answered with a result and an error at once."))
        else:
            future.set_exception(to_remote_error(b"{}" if message.error is UNSET else message.error))

    def _notice(self, message: Outbound) -> None:
        if self._is_flood():
            return
        if message.method == relay.PROGRESS:
            call = self._call_of(relay.progress_token(message))
            if call is not None:
                call.channel.notify(relay.PROGRESS, relay.params_of(message))
            else:
                relay.pass_stray(message, self._events)
        elif self._events.stray is not None and (call := self._subscription_of(message)) is not None:
            relay.pass_on_subscribed(message, call, self._events)
        elif message.method == relay.MESSAGE:
            relay.pass_on_log(self._meant_calls() or (), relay.params_of(message))
        elif message.method == relay.CANCELLED:
            self._asking.call_off(message)
        else:
            relay.heed_news(message, self._events, self._attribution.sole)

    def _call_of(self, token: RequestId | None) -> ServerRequest | None:
        """The request under way that progress is told of."""
        if token is None:
            return None
        waiting = self._pending.get(token)
        if waiting is not None and waiting[1].token in (None, token):
            return waiting[1]
        return next((call for _, call in self._pending.values() if call.token == token), None)

    def _subscription_of(self, message: Outbound) -> ServerRequest | None:
        """A client's own subscription that a notification was sent for."""
        found = relay.subscription_of(message)
        waiting = self._pending.get(found) if found is not None else None
        return None if waiting is None else waiting[1]

    def _is_flood(self) -> bool:
        now = self._loop.time()
        if now - self._notice_second > 1:
            self._notice_second, self._notices = now, 0
        self._notices += 1
        return self._notices > NOTICES_PER_S

    def _meant_calls(self, task_id: str = "") -> list[ServerRequest] | None:
        """The calls, all of one caller, that the server can only mean; ``None`` if it may mean several callers."""
        under_way = [waiting[1] for waiting in self._pending.values()]
        return self._attribution.calls(under_way, self._loop.time(), task_id)

    def _answer(self, message: Outbound) -> None:
        """Answer a question of the server: at once, or when the client of the call that it belongs to has."""
        if self._is_flood():
            return
        calls = self._meant_calls(relay.task_of(message))
        asked = relay.whom_to_ask(message, calls, self._events)
        if not isinstance(asked, bytes) and self._asking.is_full:
            asked = relay.refuse_busy(message)
        if isinstance(asked, bytes):
            self._write(asked)
        else:
            call_ids = [call.id for call in calls or ()]
            self._asking.start(call_ids, self._ask_client(message, asked.channel), message.id)

    async def _ask_client(self, message: Outbound, channel: BackChannel) -> None:
        self._write(await relay.ask_client(message, channel))

    def noise_received(self, line: bytes) -> None:
        """Keep the last few lines that are no messages, to show them; tell of one now and then."""
        self._heard_at = now = self._loop.time()
        redactor, text = self._events.redactor, line.decode(errors="replace")
        if line.startswith(OVERLONG):
            self._fail_unreadable(line, "it is too long")
            text = redactor.cut_text(text)
        shown = redactor.text(text)[:NOISE_BYTES]
        self._noise = [*self._noise[1 - NOISE_KEPT :], shown]
        if now - self._noise_told_at >= NOISE_PAUSE_S:
            self._noise_told_at = now
            self._events.noise(shown)

    def _end(self) -> None:
        """The stream is gone: fail everything that waits, and tell the owner."""
        self._lost, self.is_open = True, False
        for request_id in list(self._pending):
            self._refute(request_id, ConnectionLost(self.gone))
        self._events.lost()


class StdioLink(StreamLink):
    """A server that runs as a child process; what is asked in one turn of the loop goes out together, no task each."""

    discover_patience_s = 3.0
    gone = "The server's process ended."

    def __init__(self, events: LinkEvents, tasks: TaskScope) -> None:
        super().__init__(events, tasks)
        self._transport: StdioTransport | None = None
        self._outbox: list[ServerRequest] = []
        self._exit: ExitReport | None = None

    @classmethod
    async def open(cls, spawner: Spawner, spec: ProcessSpec, events: LinkEvents, tasks: TaskScope) -> "StdioLink":
        """Start the server's process."""
        link = cls(events, tasks)
        link._transport = await open_stdio(spawner, spec, link)
        link.is_open = not link._lost
        return link

    async def _drain(self, question: ServerRequest) -> None:
        """Wait until the server has taken most of it; if it goes away meanwhile, what it got is not known."""
        try:
            if self._transport is not None:
                await self._transport.drain()
        except SourceUnavailable as error:
            self._refute(question.id, ConnectionLost(error.message, details=error.details))

    def _hand_over(self, question: ServerRequest) -> None:
        """Send at once when nothing else is under way; what is asked in one turn of the loop goes out together."""
        self._outbox.append(question)
        if len(self._pending) == 1:
            self._flush()
        elif len(self._outbox) == 1:
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        questions, self._outbox = self._outbox, []
        if not questions or self._transport is None or self._lost:
            return
        lines = [encode_request(question.id, question.method, question.params) for question in questions]
        try:
            self._transport.send(b"\n".join(lines))
        except SourceUnavailable as error:
            self._fail(questions, error)
            return
        for question in questions:
            question.sent = True

    def _fail(self, questions: list[ServerRequest], error: SourceUnavailable) -> None:
        """What could not be sent is lost, and known not to have reached the server."""
        for question in questions:
            self._refute(question.id, ConnectionLost(error.message, details=error.details))

    def _write(self, message: bytes) -> None:
        """Send a message without waiting for an answer; errors of an ended server are ignored."""
        if self._transport is not None and not self._lost:
            with contextlib.suppress(SourceUnavailable):
                self._transport.send(message)

    def remains(self) -> ExitTrace:
        """The exit code, the last lines of stderr, and how much noise was on stdout."""
        transport = self._transport
        if transport is None:
            return ExitTrace()
        exit_code = self._exit.code if self._exit is not None else None
        stderr = [self._events.redactor.text(line) for line in transport.stderr.lines(20)]
        return ExitTrace(
            transport.pid,
            exit_code,
            stderr,
            transport.noise_count,
            tuple(self._noise),
            self._heard_at,
            transport.isolation,
        )

    async def close(self) -> None:
        """Stop the process and everything it started."""
        if self._transport is not None:
            await self._transport.close()

    def connection_lost(self, exit: ExitReport | None) -> None:  # noqa: A002
        """Note how the process ended."""
        self._exit = exit
        self._end()
