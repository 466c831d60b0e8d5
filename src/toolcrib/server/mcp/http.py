"""MCP over Streamable HTTP: one endpoint for clients of both eras."""

import asyncio
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from msgspec import UNSET

from toolcrib.core.access import LOCAL_USER, Caller
from toolcrib.core.events import Stay
from toolcrib.core.tasks import TaskScope
from toolcrib.server.mcp import news, replies, service
from toolcrib.server.mcp.batch import is_batch, take_batch
from toolcrib.server.mcp.channel import task_maker
from toolcrib.server.mcp.news import ClientNews, ListChanges, StandingStream
from toolcrib.server.mcp.replies import HttpReply, PlainReply
from toolcrib.server.mcp.roaming import GoOn, Home, Lookups, tell_failure
from toolcrib.server.mcp.service import McpService
from toolcrib.server.mcp.sessions import Listener, McpSession, McpSessions
from toolcrib.transports.http.server import Exchange, HttpRequest, error_body
from toolcrib.wire import eras, http, messages
from toolcrib.wire.http import PING, encode_event
from toolcrib.wire.jsonrpc import (
    HEADER_MISMATCH,
    INVALID_REQUEST,
    Inbound,
    RequestId,
    RpcError,
    decode_inbound,
    encode_error,
    encode_result,
)
from toolcrib.wire.messages import Asker

PING_EVERY_S = 15.0
SUBSCRIPTIONS_MAX = 1024
KNOWN = frozenset(version.encode() for version in eras.KNOWN_VERSIONS)
MODERN = frozenset(version.encode() for version in eras.MODERN_VERSIONS)
ROUTING_HEADERS = (http.VERSION, http.METHOD, http.NAME)


IsCurrent = Callable[[Caller], bool]


def always(caller: Caller) -> bool:
    """For servers whose callers cannot be revoked."""
    del caller
    return True


class HttpDoor:
    """The handler of the MCP endpoint."""

    def __init__(
        self,
        mcp: McpService,
        caller: Caller = LOCAL_USER,
        is_current: IsCurrent = always,
        home: Home | None = None,
    ) -> None:
        """``caller`` makes the requests that nobody was asked to prove; ``is_current`` says who may still come in;
        with a ``home``, sessions go on at other replicas."""
        self._mcp = mcp
        self._caller, self._is_current = caller, is_current
        self._loop = asyncio.get_running_loop()
        self._spawn = task_maker(self._loop)
        self._sessions = McpSessions(self._loop.time)
        self._sessions.on_ended = lambda session: mcp.front.crib.end_session(session.id)
        self._lookups = Lookups(home) if home is not None else None
        if home is not None:
            home.host(self._sessions, self._hear, mcp.lot)
        self._subscriptions: dict[StandingStream, Listener] = {}
        self._changes, self._tasks = ListChanges(mcp.front), TaskScope(tell_failure)
        self._replies: set[HttpReply] = set()
        self._pinging = self._loop.call_later(PING_EVERY_S, self._ping)
        self._stop_listening = mcp.front.on_change(self._tell_changed)

    def handle(self, request: HttpRequest, exchange: Exchange) -> None:
        """Take one HTTP request; it is answered now, or by the task that works on it."""
        method = request.method
        if method == b"POST":
            self._post(request, exchange)
        elif method == b"GET":
            self._get(request, exchange)
        elif method == b"DELETE":
            self._delete(request, exchange)
        else:
            replies.not_allowed(exchange)

    def _post(self, request: HttpRequest, exchange: Exchange) -> None:
        is_usual = replies.is_usual(request)
        if not is_usual and not replies.is_json(request):
            exchange.answer(415, error_body("HTTP_NOT_JSON", "Send the message with content-type application/json."))
            return
        if not is_usual and not replies.accepts_json(request):
            exchange.answer(406, error_body("HTTP_NOT_ACCEPTABLE", "Accept application/json and text/event-stream."))
            return
        try:
            message = decode_inbound(request.body)
        except RpcError as error:
            self._post_other(request, exchange, error)
            return
        try:
            self._dispatch(message, request, exchange)
        except RpcError as error:
            request_id = message.id if message.id is not UNSET else None
            exchange.answer(400, encode_error(request_id, error))

    def _post_other(self, request: HttpRequest, exchange: Exchange, error: RpcError) -> None:
        """Take a batch; anything else that is no message is refused."""
        try:
            if not is_batch(request.body):
                raise error
            go_on = partial(take_batch, request, self._start, self._hear)
            session = self._session_of(request)
            if session is None:
                self._without_session(request, exchange, go_on)
            else:
                go_on(session)
        except RpcError as refused:
            exchange.answer(400, encode_error(refused.request_id, refused))

    def _dispatch(self, message: Inbound, request: HttpRequest, exchange: Exchange) -> None:
        if request.header(http.VERSION) in MODERN or messages.claims_modern(message):
            self._dispatch_modern(message, request, exchange)
        elif message.method == "initialize":
            self._initialize(message, request, exchange)
        elif (session := self._session_of(request)) is not None:
            self._go_on(message, request, session)
        else:
            self._without_session(request, exchange, partial(self._go_on, message, request))

    # The stateless era

    def _dispatch_modern(self, message: Inbound, request: HttpRequest, exchange: Exchange) -> None:
        if message.method is UNSET:
            raise RpcError(INVALID_REQUEST, "Only requests and notifications are taken here.")
        if message.id is UNSET:
            stated = request.header(http.VERSION) or b""
            messages.check_modern_version(stated.decode("latin-1"))
            exchange.answer(202, b"")
            return
        for name in ROUTING_HEADERS:
            if b"," in (request.header(name) or b"") and replies.count(request, name) > 1:
                raise RpcError(HEADER_MISMATCH, f"The header {name.decode()} was sent more than once.")
        params = messages.request_params(message)
        asker = messages.modern_asker(message.method, params, request.header)
        if message.method == news.LISTEN:
            self._listen(message, asker, request)
            return
        if message.method == "tools/call":
            self._check_params(params, request)
        self._start(message, asker, request, None)

    def _caller_of(self, request: HttpRequest) -> Caller:
        """Who sends a request: the holder of its token, or the door's own caller where none is asked for."""
        identity = request.identity
        return identity if isinstance(identity, Caller) else self._caller

    def _check_params(self, params: Any, request: HttpRequest) -> None:
        declared = self._mcp.declared_headers(str(params.get("name")), self._caller_of(request))
        if declared:
            arguments = params.get("arguments")
            http.check_params(declared, arguments if isinstance(arguments, dict) else {}, request.header)

    def _listen(self, message: Inbound, asker: Asker, request: HttpRequest) -> None:
        exchange = request.exchange
        if not replies.accepts_stream(request):
            replies.want_stream(exchange)
            return
        request_id = _id(message)
        news.check_listen(messages.request_params(message), asker)
        if len(self._subscriptions) >= SUBSCRIPTIONS_MAX:
            raise RpcError(INVALID_REQUEST, "Too many subscriptions.")
        listener = Listener(request_id, asker, self._caller_of(request), self._loop.time())
        self._tasks.spawn(self._begin_listening(message, listener, request), "mcp.listen")

    async def _begin_listening(self, message: Inbound, listener: Listener, request: HttpRequest) -> None:
        """Begin a subscription: what of it can be honoured is acknowledged."""
        if await self._mcp.passes_listening(message, listener.caller):
            self._start(message, listener.asker, request, None)
            return
        exchange = request.exchange
        request_id, streams = listener.request_id, list[StandingStream]()

        def tell(method: str, said: Mapping[str, Any]) -> None:
            for stream in streams:  # none before the subscription is acknowledged
                stream.tell(method, said)

        watching = ClientNews(self._mcp.front, tell)
        exchange.on_disconnect(watching.close)
        honoured = await watching.follow(messages.request_params(message), listener.caller)
        first, meta = encode_event(news.acknowledge(request_id, honoured)), news.subscription_meta(request_id)
        stream = StandingStream(exchange, first, meta, news.wanted_notices(honoured))
        streams.append(stream)
        if not exchange.streaming:  # the client did not wait for it
            watching.close()
            return
        self._subscriptions[stream] = replace(listener, news=watching)
        watching.begin()
        exchange.on_disconnect(lambda: self._unsubscribe(stream))

    def _unsubscribe(self, stream: StandingStream) -> None:
        listener = self._subscriptions.pop(stream, None)
        if listener is not None and listener.news is not None:
            listener.news.close()

    # The handshake era

    def _initialize(self, message: Inbound, request: HttpRequest, exchange: Exchange) -> None:
        asker = messages.handshake_asker(messages.request_params(message))
        session = self._sessions.open(asker, self._caller_of(request))
        if session is None:
            exchange.answer(503, error_body("HTTP_TOO_MANY_SESSIONS", "Too many sessions. Try again later."))
            return
        self._tasks.spawn(self._greet(message, session, exchange), "mcp.initialize")

    async def _greet(self, message: Inbound, session: McpSession, exchange: Exchange) -> None:
        """Answer a handshake."""
        body = encode_result(_id(message), await self._mcp.initialize(session.asker, session.caller, session))
        if self._lookups is None:
            exchange.answer(200, body, headers=((http.SESSION, session.id.encode()),))
        else:
            self._lookups.welcome(session, body, exchange)

    def _go_on(self, message: Inbound, request: HttpRequest, session: McpSession) -> None:
        """Take a message within its session."""
        if message.method is not UNSET and message.id is not UNSET:
            self._start(message, session.asker, request, session)
        elif self._hear(message, session) or self._lookups is None:
            request.exchange.answer(202, b"")
        else:
            self._lookups.forward(session, request)

    def _hear(self, message: Inbound, session: McpSession) -> bool:
        """Take what needs no answer; whether it was for us, and not for another replica."""
        if message.method is UNSET:
            return session.questions.settle(message)
        if message.method == service.ROOTS_CHANGED:
            self._mcp.front.crib.roots_changed(session.caller)
        self._mcp.hear(message, session.caller)
        request_id = service.cancelled_id(message)
        cancel = session.running.pop(request_id, None) if request_id is not None else None
        if cancel is not None:
            cancel()
        return request_id is None or cancel is not None

    def _session_of(self, request: HttpRequest) -> McpSession | None:
        """The session a request belongs to, if this replica knows it; one that names none is refused."""
        stated = request.header(http.VERSION)
        if stated is not None and stated not in KNOWN:
            raise RpcError(INVALID_REQUEST, f"Protocol version {stated.decode('latin-1')!r} is not supported.")
        session_id = request.header(http.SESSION)
        if session_id is None:
            raise RpcError(INVALID_REQUEST, "The Mcp-Session-Id header is missing: send initialize first.")
        return self._sessions.find(session_id, self._caller_of(request))

    def _without_session(self, request: HttpRequest, exchange: Exchange, go_on: GoOn) -> None:
        """Go on with a session that another replica knows; if there is none, the client is told so."""
        if self._lookups is None:
            replies.session_ended(exchange)
        else:
            self._lookups.adopt(request.header(http.SESSION) or b"", self._caller_of(request), exchange, go_on)

    def _get(self, request: HttpRequest, exchange: Exchange) -> None:
        if request.header(http.VERSION) in MODERN:
            replies.not_allowed(exchange, b"POST")
            return
        if replies.EVENT_STREAM not in (request.header(b"accept") or b""):
            replies.want_stream(exchange)
            return
        try:
            session = self._session_of(request)
        except RpcError as error:
            exchange.answer(400, encode_error(None, error))
            return
        if session is not None:
            self._open_stream(exchange, session)
        else:
            self._without_session(request, exchange, partial(self._open_stream, exchange))

    def _open_stream(self, exchange: Exchange, session: McpSession) -> None:
        stream = StandingStream(exchange, PING)
        session.replace_stream(stream)
        exchange.on_disconnect(lambda: session.lose_stream(stream))
        if self._lookups is not None:
            self._lookups.home.say_stream(session)

    def _delete(self, request: HttpRequest, exchange: Exchange) -> None:
        session_id = request.header(http.SESSION)
        caller = self._caller_of(request)
        session = self._sessions.find(session_id, caller) if session_id else None
        if session is not None:
            self._sessions.end(session)
        if self._lookups is not None and session_id is not None:
            self._lookups.end(session_id, caller, exchange)
        else:
            replies.answer_delete(exchange, was_there=session is not None)

    # Requests that take time

    def _start(self, message: Inbound, asker: Asker, request: HttpRequest, session: McpSession | None) -> None:
        if session is not None and message.id in session.running:
            raise RpcError(INVALID_REQUEST, "This request id is already in use.")
        exchange, token = request.exchange, service.progress_token(message)
        is_usual = request.header(b"accept") == replies.USUAL_ACCEPT
        kind = HttpReply if is_usual or replies.accepts_stream(request) else PlainReply
        tells = token is not None and kind is HttpReply
        caller = session.caller if session is not None else self._caller_of(request)
        reply = kind(
            asker.capabilities,
            asker.is_modern,
            tells,
            token,
            exchange,
            session,
            caller,
            asker.log.name,
            message,
            self._mcp.lot,
            request=request,
        )
        request_id = _id(message)
        reply.task = self._spawn(self._work(message, request_id, asker, reply))
        self._replies.add(reply)
        if session is not None:
            session.running[request_id] = reply.cancel
        else:
            exchange.on_disconnect(reply.cancel)

    async def _work(self, message: Inbound, request_id: RequestId, asker: Asker, reply: HttpReply) -> None:
        try:
            body, status = await self._mcp.respond(message, asker, reply, reply.caller)
            reply.end(body, status)
        except asyncio.CancelledError:
            reply.abandon()
            raise
        except Exception as error:  # the edge of the door: whatever it is, the client gets an answer
            reply.end(service.internal_error(request_id), 500)
            sys.stderr.write(f"toolcrib: a request failed: {error!r}\n")
        finally:
            self._replies.discard(reply)
            if reply.session is not None:
                reply.session.running.pop(request_id, None)

    def _tell_changed(self) -> None:
        notices = self._changes.take()
        if self._mcp.front.mirror is None:  # a transparent server says it itself
            self._sessions.tell_changed(notices)
        for stream in self._subscriptions:
            stream.tell_changed(notices)

    def _ping(self) -> None:
        """Keep streams alive behind proxies; a call that has been silent for long becomes a stream for that."""
        self._pinging = self._loop.call_later(PING_EVERY_S, self._ping)
        self._see_off()
        for stream in (*self._sessions.streams(), *self._subscriptions):
            stream.ping()
        self._replies = {reply for reply in self._replies if reply.is_running}
        for reply in self._replies:
            reply.ping()

    def _see_off(self) -> None:
        """End what belongs to callers that may not come in any more."""
        self._sessions.sweep(self._is_current)
        self._mcp.tasks.see_off(self._is_current)
        self._end_subscriptions(lambda caller: not self._is_current(caller))
        for reply in [reply for reply in self._replies if not self._is_current(reply.caller)]:
            reply.cancel()

    def stays(self) -> list[Stay]:
        """The clients that are here: those with a session, and those that listen without one."""
        now = self._loop.time()
        listening = [
            listener.stay(now, partial(self._end_subscription, stream, listener.request_id))
            for stream, listener in self._subscriptions.items()
        ]
        return [*self._sessions.stays(), *listening]

    def end_streams(self) -> None:
        """End the standing streams in good order; calls under way are not touched."""
        self._pinging.cancel()
        self._stop_listening()
        self._end_subscriptions(always)
        self._sessions.end_streams()

    def _end_subscriptions(self, is_due: IsCurrent) -> None:
        for stream, listener in list(self._subscriptions.items()):
            if is_due(listener.caller):
                self._end_subscription(stream, listener.request_id)

    def _end_subscription(self, stream: StandingStream, request_id: RequestId) -> None:
        self._unsubscribe(stream)
        stream.end(encode_event(encode_result(request_id, news.listen_result(request_id))))

    async def close(self) -> None:
        """End the streams, then what still runs."""
        self.end_streams()
        if self._lookups is not None:
            await self._lookups.close()
        self._sessions.close()
        await self._tasks.close()
        tasks = [reply.task for reply in self._replies if reply.task is not None]
        for reply in tuple(self._replies):
            reply.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _id(message: Inbound) -> RequestId:
    return message.id if message.id is not UNSET and message.id is not None else 0
