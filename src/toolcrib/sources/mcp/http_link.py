"""A link to a server over Streamable HTTP: each question is a POST of its own, answered by JSON or an event stream."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from toolcrib.config.model import ServerConfig
from toolcrib.core.errors import ConnectionLost, ProtocolError, SourceUnavailable, ToolcribError
from toolcrib.core.network import Network
from toolcrib.core.requests import BackChannel
from toolcrib.core.tasks import TaskScope
from toolcrib.credentials.accounts import ServerAccount
from toolcrib.sources.mcp import link
from toolcrib.sources.mcp.answer_stream import AnswerStream, StreamCut
from toolcrib.sources.mcp.attribution import Attribution
from toolcrib.sources.mcp.http_status import (
    NOTICE_TIMEOUT_S,
    REFUSALS,
    check_status,
    discard,
    is_stream,
    send_again,
    standing_headers,
)
from toolcrib.sources.mcp.link import (
    ANY_URI,
    UNREACHABLE,
    ExitTrace,
    LinkEvents,
    ServerRequest,
    to_remote_error,
)
from toolcrib.transports.http.client import Choose, HttpFailure, HttpPool, Receive, Response
from toolcrib.transports.http.dial import encode_own_headers
from toolcrib.wire import eras, http
from toolcrib.wire.jsonrpc import Outbound, RequestId, decode_outbound, encode, encode_notification, encode_request

LISTEN = "subscriptions/listen"
NOBODY = (0,)
"""The ids of no call: what belongs to it does not end with one."""
RESUMPTIONS_MAX = 10
HEADS_MAX = 256
LAST_ANSWERS_S = 30.0
REOPEN_DELAYS_S = (1.0, 2.0, 5.0, 15.0, 30.0)
LONG_LIVED_S = 60.0
"""A stream that lasted this long ended for no bad reason: the next one is opened soon."""


class HttpLink:
    """One server behind a URL."""

    def __init__(
        self,
        server: ServerConfig,
        events: LinkEvents,
        tasks: TaskScope,
        network: Network | None = None,
        account: ServerAccount | None = None,
    ) -> None:
        self._server = server
        self._events = events
        self._account = account
        self._bearer: bytes | None = None
        """What the heads say of who calls; they are made anew when the account says something else."""
        self._tasks = tasks
        self._loop = asyncio.get_running_loop()
        self._pool = HttpPool(server.url or "", connect_timeout_s=server.connect_timeout_s, network=network)
        self.discover_patience_s = server.connect_timeout_s / 2  # the other half is for the older question
        self._own = encode_own_headers(server.name, server.headers)
        self._session: bytes | None = None
        self._version = ""
        self._heads: dict[tuple[str, str, str], bytes] = {}
        """Heads of the questions so far, but those that mirror arguments: to encode one takes as long as to send it."""
        self._head = self._encode_head("POST")
        self._next_id = events.first_id
        self._calls: dict[RequestId, ServerRequest] = {}
        self._attribution = Attribution(is_of_one=events.is_of_one)
        self._asking = link.OpenQuestions(tasks)
        self._heard_at = 0.0
        self._quiet = asyncio.Event()
        self.is_open = True
        """Whether questions may be sent: until the server lost our session or cannot be reached."""
        self._gate: asyncio.Event | None = None
        self._listener: asyncio.Task[Any] | None = None
        self._former: asyncio.Task[Any] | None = None
        """Who listened for something else before, until its successor's stream is open."""

    @classmethod
    async def open(
        cls,
        server: ServerConfig,
        events: LinkEvents,
        tasks: TaskScope,
        network: Network | None = None,
        account: ServerAccount | None = None,
    ) -> "HttpLink":
        """A link whose first question will dial."""
        link = cls(server, events, tasks, network, account)
        if account is not None:
            link._show_bearer(await account.ready())
        return link

    @property
    def is_busy(self) -> bool:
        """Whether somebody waits for an answer."""
        return bool(self._calls)

    def new_id(self) -> int:
        """The next request id."""
        self._next_id += 1
        return self._next_id

    def claim_id(self, wanted: RequestId | None) -> RequestId:
        """A client's own id, if it is free."""
        return wanted if wanted is not None and link.may_claim(wanted, self._calls) else self.new_id()

    def _encode_head(self, method: str, more: list[tuple[bytes, bytes]] | None = None) -> bytes:
        lines = standing_headers(self._own)
        if self._bearer is not None:
            lines.append((b"authorization", self._bearer))
        if self._version:
            lines.append((b"mcp-protocol-version", self._version.encode()))
        if self._session is not None:
            lines.append((http.SESSION, self._session))
        return self._pool.encode_head(method, self._pool.origin.target, lines + (more or []))

    def _head_of(self, question: ServerRequest) -> bytes:
        """The same head for all requests of a handshake; the stateless era mirrors the question into it."""
        key = question.method, question.name, question.version
        head = self._heads.get(key)
        if head is None or question.headers:
            head = self._encode_mirror(question) if eras.is_modern(question.version) else self._head
            if not question.headers and len(self._heads) < HEADS_MAX:
                self._heads[key] = head
        return head + b"traceparent: %b\r\n" % question.traceparent.encode() if question.traceparent else head

    def _encode_mirror(self, question: ServerRequest) -> bytes:
        more = [(b"mcp-method", question.method.encode()), *question.headers]
        if question.name:
            more.append((b"mcp-name", http.encode_value(question.name)))
        if not self._version:
            more.append((b"mcp-protocol-version", question.version.encode()))
        return self._encode_head("POST", more)

    async def ask(self, question: ServerRequest) -> Raw:
        """Send the question and wait for its answer; giving up closes its stream and, before 2026, tells the server."""
        if self._gate is not None:
            await self._pass_gate()
        if not self.is_open:
            raise ConnectionLost(f"The connection to {self._pool.origin} has ended.")
        if not self._calls:
            self._quiet.clear()
        self._calls[question.id] = question
        self._attribution.note_call(question)
        stream = self._stream(question)
        try:
            response = await self._exchange(question, stream)
            if stream.is_used and stream.resume_from:
                await self._resume(question, stream)
        except asyncio.CancelledError:
            self._give_up(question)
            raise
        finally:
            self._calls.pop(question.id, None)
            if self._asking.running:
                self._asking.end(question.id)
            if not self._calls:
                self._quiet.set()
        if response is None or stream.is_used:
            return stream.result()
        return self._read(question, response)

    async def _pass_gate(self) -> None:
        """Nothing overtakes the notification that ends a handshake."""
        if self._gate is not None:
            await self._gate.wait()
            self._gate = None

    async def _exchange(self, question: ServerRequest, stream: AnswerStream) -> Response | None:
        """The response; ``None`` when its stream was left before its end, with the answer in hand."""
        body = encode_request(question.id, question.method, question.params)
        question.sent = True
        try:
            with stream.cut_when_answered():
                choose, account = self._chooser(question, stream), self._account
                if account is not None and account.usable() is not self._bearer:
                    self._show_bearer(await account.ready())
                used = self._bearer  # another question may show another one before this is answered
                response = await self._pool.exchange(self._head_of(question), body, choose)
                if account is None or response.status not in REFUSALS:
                    return response
                send = self._sender(lambda: self._head_of(question), body, choose)
                return await send_again(account, response, used, send)
        except StreamCut:
            return None
        except HttpFailure as failure:
            question.sent = failure.sent
            if failure.phase in UNREACHABLE:
                self._lose()
            raise ConnectionLost(failure.message, hint=failure.hint, details=failure.details) from None

    async def _send(self, head: Callable[[], bytes], body: bytes, choose: Choose | None = None) -> Response:
        """Send a request; with an account, whatever it takes to have it accepted."""
        account = self._account
        if account is not None and account.usable() is not self._bearer:
            self._show_bearer(await account.ready())
        used = self._bearer
        response = await self._pool.exchange(head(), body, choose)
        if account is None or response.status not in REFUSALS:
            return response
        return await send_again(account, response, used, self._sender(head, body, choose))

    def _sender(
        self, head: Callable[[], bytes], body: bytes, choose: Choose | None
    ) -> Callable[[bytes | None], Awaitable[Response]]:
        """Sends a request once more, with another token."""

        def send(bearer: bytes | None) -> Awaitable[Response]:
            self._show_bearer(bearer)
            return self._pool.exchange(head(), body, choose)

        return send

    def _show_bearer(self, bearer: bytes | None) -> None:
        is_other, self._bearer = bearer != self._bearer, bearer
        if is_other:
            self._renew_heads()

    async def _resume(self, question: ServerRequest, stream: AnswerStream) -> None:
        """Before 2026 a server may end a stream early and have us come back for the rest."""
        for _ in range(RESUMPTIONS_MAX):
            if not stream.resume_from or eras.is_modern(question.version):
                return
            await asyncio.sleep(stream.resume_delay_s)
            last = [(b"last-event-id", stream.resume_from.encode())]
            head = partial(self._encode_head, "GET", last)
            with contextlib.suppress(StreamCut, HttpFailure), stream.cut_when_answered():
                if not is_stream(await self._send(head, b"", self._chooser(question, stream))):
                    return

    def _chooser(self, question: ServerRequest, stream: AnswerStream) -> Choose:
        def choose(response: Response) -> Receive | None:
            self._heard_at = self._loop.time()
            self._note_session(question, response)
            return receive if is_stream(response) else None

        def receive(chunk: bytes) -> None:
            self._heard_at = self._loop.time()
            stream.receive(chunk)

        return choose

    def _read(self, question: ServerRequest, response: Response) -> Raw:
        if response.status == 404 and self._session is not None and question.method != "initialize":
            question.sent = False
            self._lose()
            raise ConnectionLost("The server has forgotten our session.")
        message = _decode(self._events.redactor.clean(response.body))
        check_status(self._server, question.method, response, message)
        if message is None:
            raise ProtocolError(f"The server answered {question.method} with something that is no JSON-RPC message.")
        if message.result is not UNSET:
            return message.result
        error = to_remote_error(b"{}" if message.error is UNSET else message.error)
        if question.method == "initialize":
            error.details["http_status"] = response.status  # many a 404 has an "error" in its body, and is none of MCP
        raise error

    def _note_session(self, question: ServerRequest, response: Response) -> None:
        if question.method == "initialize":
            self._session = response.header(http.SESSION)
            self._renew_heads()

    def _lose(self) -> None:
        if self.is_open:
            self.is_open = False
            self._events.lost()

    def _give_up(self, question: ServerRequest) -> None:
        if question.caller is not None and not eras.is_modern(question.version):
            self.tell(link.CANCELLED, encode({"requestId": question.id, "reason": "The caller gave up."}))
            self._attribution.note_given_up(question, self._loop.time())

    def _stream(self, question: ServerRequest) -> AnswerStream:
        notice, answer = partial(self._notice, question), partial(self._answer_server, question)
        return AnswerStream(question.id, notice, answer, self._events.redactor, self._loop)

    def _notice(self, question: ServerRequest, message: Outbound) -> None:
        if message.method == link.CANCELLED:
            self._asking.call_off(message)
        elif question.method == LISTEN and question.caller is not None:
            link.pass_on_subscribed(message, question, self._events)
        elif message.method not in (link.PROGRESS, link.MESSAGE):
            sole = self._attribution.sole if question.method == LISTEN else question.channel
            link.heed_news(message, self._events, sole)
        elif question.method != LISTEN:
            question.channel.notify(message.method, link.params_of(message))
        elif message.method == link.MESSAGE:
            link.pass_on_log(self._meant_calls(question) or (), link.params_of(message))
        else:
            link.pass_stray(message, self._events)

    def _answer_server(self, question: ServerRequest, message: Outbound) -> None:
        if self._asking.is_full:
            return  # an answer would be one more request: a server that asks this much gets none
        calls = self._meant_calls(question, link.task_of(message))
        asked = link.whom_to_ask(message, calls, self._events)
        if isinstance(asked, bytes):
            self._asking.start(NOBODY, self._post(asked))
        else:
            call_ids = [call.id for call in calls or ()]
            self._asking.start(call_ids, self._ask_client(message, asked.channel), message.id)

    async def _ask_client(self, message: Outbound, channel: BackChannel) -> None:
        """Get the client's answer; its delivery does not end with the call, which may be over because of it."""
        self._asking.start(NOBODY, self._post(await link.ask_client(message, channel)))

    def _meant_calls(self, question: ServerRequest, task_id: str = "") -> list[ServerRequest] | None:
        """The call on whose stream it came; on the standing stream, all calls of the one caller it can only be for."""
        if question.method != LISTEN:
            return [question] if question.id in self._calls else []
        return self._attribution.calls(self._calls.values(), self._loop.time(), task_id)

    def tell(self, method: str, params: bytes) -> None:
        """Send a notification behind everything else; the one that ends a handshake holds back later questions."""
        answered = asyncio.Event()
        task = self._spawn(self._post(encode_notification(method, params), answered), f"tell-{method}")
        task.add_done_callback(lambda _: answered.set())
        if method == "notifications/initialized":
            self._gate = answered

    def _spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        return self._tasks.spawn(work, name)

    async def _post(self, body: bytes, answered: asyncio.Event | None = None) -> None:
        """Send what has no answer of interest: that there is one is enough, and what it says is not kept."""

        def choose(_: Response) -> Receive:
            self._heard_at = self._loop.time()
            if answered is not None:
                answered.set()
            return discard

        with contextlib.suppress(ToolcribError, TimeoutError):
            async with asyncio.timeout(NOTICE_TIMEOUT_S):
                await self._send(lambda: self._head, body, choose)

    def agree(self, version: str) -> None:
        """Speak ``version`` from now on."""
        self._version = version
        self._renew_heads()

    def _renew_heads(self) -> None:
        self._head = self._encode_head("POST")
        self._heads.clear()

    def listen(self, params: bytes) -> None:
        """Keep a stream open on which the server tells of changes; the one before ends when another one is open."""
        former = self._listener
        if former is not None and not former.done() and not eras.is_modern(self._version):
            return  # before 2026 there is one stream for everything
        self._listener = self._spawn(self._listen(params, former), f"listen-{self._server.name}")

    async def _listen(self, params: bytes, former: asyncio.Task[Any] | None = None) -> None:
        """Open the stream again when it ends, ever more slowly; stop when the server has none to offer."""
        self._former = former
        short_lived, was_offered = 0, False
        while self.is_open:
            if self._gate is not None:
                await self._pass_gate()
            began = self._loop.time()
            try:
                response = await self._follow_changes(params, is_reopened=was_offered)
            except SourceUnavailable:
                pass
            else:
                if not is_stream(response) and (response.status < 500 or not was_offered):
                    return
                was_offered = True
            short_lived = 0 if self._loop.time() - began >= LONG_LIVED_S else short_lived + 1
            await asyncio.sleep(REOPEN_DELAYS_S[min(max(short_lived - 1, 0), len(REOPEN_DELAYS_S) - 1)])

    async def _follow_changes(self, params: bytes, *, is_reopened: bool) -> Response:
        """Follow one stream to its end; what changed while there was none is told when it opens."""
        question = ServerRequest(self.new_id(), LISTEN, params, version=self._version)
        stream = self._stream(question)
        follow = self._chooser(question, stream)

        def choose(response: Response) -> Receive | None:
            if self._former is not None:
                self._former.cancel()
                self._former = None
            if is_reopened and is_stream(response):
                self._events.tools_changed()
                self._events.updated(ANY_URI)
            return follow(response)

        if eras.is_modern(self._version):
            body = encode_request(question.id, question.method, params)
            return await self._send(lambda: self._head_of(question), body, choose)
        return await self._send(partial(self._encode_head, "GET"), b"", choose)

    def remains(self) -> ExitTrace:
        """Nothing can be said of a server elsewhere but when it was last heard."""
        return ExitTrace(heard_at=self._heard_at)

    async def close(self) -> None:
        """End the session and all connections; of a link that was lost, answers under way may still arrive."""
        was_open, self.is_open = self.is_open, False
        for listener in (self._listener, self._former):
            if listener is not None:
                listener.cancel()
        try:
            if was_open:
                await self._end_session()
            elif self._calls:
                await asyncio.wait_for(self._quiet.wait(), LAST_ANSWERS_S)
        except TimeoutError:
            pass
        finally:
            await self._pool.close()

    async def _end_session(self) -> None:
        if self._session is not None:
            with contextlib.suppress(ToolcribError):
                async with asyncio.timeout(1.0):
                    await self._send(partial(self._encode_head, "DELETE"), b"")


def _decode(body: bytes) -> Outbound | None:
    try:
        return decode_outbound(body)
    except msgspec.DecodeError:
        return None
