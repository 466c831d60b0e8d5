"""MCP over HTTP+SSE, the transport of 2024-11-05, for clients that know no other: messages come by POST, and everything
that is said to the client goes out on the one stream that it opened first. The stream is the session: both end at once.
"""

from functools import partial
from urllib.parse import parse_qs

from msgspec import UNSET

from toolcrib.server.mcp import replies, service
from toolcrib.server.mcp.http import HttpDoor
from toolcrib.server.mcp.news import StandingStream
from toolcrib.server.mcp.replies import HttpReply
from toolcrib.server.mcp.sessions import McpSession
from toolcrib.transports.http.server import Exchange, HttpRequest, error_body
from toolcrib.wire import messages
from toolcrib.wire.http import encode_event
from toolcrib.wire.jsonrpc import (
    INVALID_REQUEST,
    Inbound,
    RequestId,
    RpcError,
    decode_inbound,
    encode_error,
    encode_result,
)
from toolcrib.wire.messages import Asker

STREAM_PATH, MESSAGES_PATH = "/sse", "/messages"
RUNNING_MAX = 1000
"""Requests of one client at once: unlike elsewhere, they hold no connection that would count."""
BEHIND_MAX = 64 * 1024 * 1024
"""A client that leaves more than this unread loses its stream: results cannot be left out."""
UNINTRODUCED = ""
"""The revision of a client that has not sent ``initialize`` yet."""


class SseReply(HttpReply):
    """One request's way back over its client's stream, which outlives it."""

    def send(self, message: bytes) -> None:
        """Write it on the stream."""
        say(self._exchange, message)

    def finish(self, body: bytes, status: int) -> None:
        """The result, on the stream like everything else."""
        del status
        self.send(body)

    def abandon(self) -> None:
        """Nothing: the stream goes on."""

    def ping(self) -> None:
        """Nothing: the stream has its own."""


def say(exchange: Exchange, message: bytes) -> None:
    """Send a message to a client on its stream, unless it is gone or too far behind."""
    if exchange.streaming and exchange.backlog <= BEHIND_MAX:
        exchange.write(encode_event(message))
    elif exchange.streaming:
        exchange.end()


class SseDoor(HttpDoor):
    """The handler of two addresses, for the stream and for messages; its sessions, news and limits are any door's."""

    def handle(self, request: HttpRequest, exchange: Exchange) -> None:
        """Take one HTTP request."""
        is_stream = request.path.startswith(STREAM_PATH.encode())
        if is_stream and request.method == b"GET":
            self._open(request, exchange)
        elif not is_stream and request.method == b"POST":
            self._take_post(request, exchange)
        else:
            replies.not_allowed(exchange, b"GET" if is_stream else b"POST")

    def _open(self, request: HttpRequest, exchange: Exchange) -> None:
        """Begin a session with its stream; where there are other replicas, once they can find it."""
        if not replies.accepts_stream(request):
            replies.want_stream(exchange)
            return
        session = self._sessions.open(Asker(UNINTRODUCED), self._caller_of(request))
        if session is None:
            exchange.answer(503, error_body("HTTP_TOO_MANY_SESSIONS", "Too many sessions. Try again later."))
            return
        session.is_greeted = False
        begin = partial(self._begin_stream, session, exchange, endpoint(request.path, session.id))
        if self._lookups is None:
            begin()
        else:
            self._lookups.note(session, exchange, begin)

    def _begin_stream(self, session: McpSession, exchange: Exchange, address: str) -> None:
        stream = StandingStream(exchange, b"event: endpoint\ndata: %b\n\n" % address.encode())
        session.replace_stream(stream)
        session.exchange = exchange
        exchange.on_disconnect(partial(self._leave, session))

    def _leave(self, session: McpSession) -> None:
        self._sessions.end(session)
        self._sessions.on_dismissed(session)

    def _take_post(self, request: HttpRequest, exchange: Exchange) -> None:
        if not replies.is_json(request):
            exchange.answer(415, error_body("HTTP_NOT_JSON", "Send the message with content-type application/json."))
            return
        session_id, caller = session_of(request), self._caller_of(request)
        session = self._sessions.find(session_id, caller)
        try:
            message = decode_inbound(request.body)
            if session is not None:
                self._hear(message, session)
                exchange.answer(202, b"Accepted", b"text/plain")
            elif self._lookups is not None:
                self._lookups.pass_on(session_id, caller, request)
            else:
                replies.session_ended(exchange)
        except RpcError as error:
            exchange.answer(400, encode_error(error.request_id, error))

    def _hear(self, message: Inbound, session: McpSession) -> bool:
        """Take any message, whichever replica it came to."""
        if message.method is UNSET or message.id is UNSET or message.id is None:
            return super()._hear(message, session)
        exchange = session.exchange
        if exchange is not None:
            self._request(message, message.id, session, exchange)
        return exchange is not None

    def _request(self, message: Inbound, request_id: RequestId, session: McpSession, exchange: Exchange) -> None:
        try:
            if message.method == "initialize":
                session.asker = messages.handshake_asker(messages.request_params(message))
                self._tasks.spawn(self._greet_on(exchange, request_id, session), "mcp.initialize")
                return
            check_request(message, request_id, session)
        except RpcError as error:
            say(exchange, encode_error(request_id, error))
            return
        asker, token = session.asker, service.progress_token(message)
        is_told = token is not None
        reply = SseReply(
            asker.capabilities, False, is_told, token, exchange, session, session.caller, asker.log.name, message
        )
        reply.task = self._spawn(self._work(message, request_id, asker, reply))
        self._replies.add(reply)
        session.running[request_id] = reply.cancel

    async def _greet_on(self, exchange: Exchange, request_id: RequestId, session: McpSession) -> None:
        """Answer a handshake."""
        say(exchange, encode_result(request_id, await self._mcp.initialize(session.asker, session.caller, session)))
        session.is_greeted = True


def check_request(message: Inbound, request_id: RequestId, session: McpSession) -> None:
    """Refuse a request that cannot be worked on."""
    if session.asker.version == UNINTRODUCED and message.method != "ping":
        raise RpcError(INVALID_REQUEST, "Send initialize first.")
    if request_id in session.running:
        raise RpcError(INVALID_REQUEST, "This request id is already in use.")
    if len(session.running) >= RUNNING_MAX:
        raise RpcError(INVALID_REQUEST, f"At most {RUNNING_MAX} requests of one client are worked on at once.")


def endpoint(path: bytes, session_id: str) -> str:
    """Where a client sends its messages, seen from the address of its stream: it may be mounted anywhere."""
    profile = path.removeprefix(STREAM_PATH.encode()).strip(b"/").decode("latin-1")
    where = f"..{MESSAGES_PATH}/{profile}" if profile else MESSAGES_PATH.removeprefix("/")
    return f"{where}?session={session_id}"


def session_of(request: HttpRequest) -> bytes:
    """The session that a message says it belongs to; empty if it names none."""
    named = parse_qs(request.query.decode("latin-1"), max_num_fields=10).get("session", [""])
    return named[0].encode("latin-1", "replace")
