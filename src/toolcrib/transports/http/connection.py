"""One client's connection to the server: bytes in, requests out, in order, within limits.

The parser calls back for each part of a request. Requests that arrive while another is being answered wait their turn,
and reading stops until they are served; of many that arrive at once, a few are served before other connections have
their turn. No connection has a timer: the server sweeps over all of them, and each knows
since when it has been in its phase. Time is the time of the last sweep.
"""

import asyncio
import socket
from collections import deque
from typing import cast

import httptools

from toolcrib.transports.http.guard import join_repeated, share_with
from toolcrib.transports.http.limits import (
    BODY_TOO_LARGE,
    BODY_TOO_SLOW,
    CLOSING,
    HEAD_TOO_LARGE,
    HEAD_TOO_SLOW,
    IN_BODY,
    IN_HEAD,
    JUST_CAME,
    KEPT_ALIVE,
    LINGERING,
    OLD_CODING,
    SILENT,
    TOO_MANY,
    UNKNOWN_CODING,
    UNKNOWN_EXPECTATION,
    UNKNOWN_METHOD,
    ConnectionSettings,
)
from toolcrib.transports.http.message import (
    Exchange,
    HttpRequest,
    KnownHeads,
    Refusal,
    RequestRefused,
    encode_headers,
    error_body,
    head_size,
    plain_target,
)

IDLE, HEAD, BODY, DEAF = range(4)  # between requests, inside a head, inside a body, no longer listening

TURN_REQUESTS = 8  # served for one connection before the others have their turn
SLICE_BYTES = 32 * 1024  # read at once from one connection, so that parsing many small requests has a bound, too
UPGRADE_HEADERS = frozenset({b"connection", b"upgrade", b"http2-settings"})


class ServerConnection(asyncio.Protocol):
    """The server's end of one connection."""

    def __init__(self, site: ConnectionSettings) -> None:
        self._site, self._limits = site, site.limits
        self._parser = httptools.HttpRequestParser(self)
        self._phase = IDLE
        self._since = self._progress = site.now
        self._served = self._reading = self._head_bytes = self._raw_bytes = 0
        self._turn = 0
        self._upgrading = self._paused = self._pumping = self._lingering = self._heard = False
        self._unread = b""
        self._target: bytes = b""
        self._headers: dict[bytes, bytes] = {}
        self._body: bytes | bytearray = b""
        self._current: Exchange | None = None
        self._waiting: deque[tuple[HttpRequest, Exchange] | Refusal] = deque()
        self._blocked_since: float | None = None
        self._unblocked: asyncio.Future[None] | None = None
        self._heads = KnownHeads()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a place among the connections, or be told that there is none."""
        self._transport = cast("asyncio.Transport", transport)
        self._peer = transport.get_extra_info("peername")
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        places = self._site.places
        if places.take(self, self._peer):
            return
        if places.are_overrun:
            self._transport.abort()
        else:
            self._refuse(TOO_MANY)

    def data_received(self, data: bytes) -> None:
        """Feed the parser; requests that become complete are handled from inside it."""
        if not self._heard:
            self._heard = True
            self._site.places.hear(self)
        if self._phase == DEAF:
            self._discard(len(data))
            return
        if self._phase == IDLE and self._current is None and not self._waiting and self._serve_again(data):
            return
        self._turn = 0
        if len(data) <= SLICE_BYTES and not self._unread:
            self._feed(data)
        else:
            self._feed_slices(self._unread + data)

    def _feed_slices(self, data: bytes) -> None:
        """Feed no more than leads to requests that have to wait; the rest is kept for when they are served."""
        self._unread = b""
        for start in range(0, len(data), SLICE_BYTES):
            if self._phase == DEAF:
                self._discard(len(data) - start)
                return
            if self._waiting:
                self._unread = data[start:]
                return
            self._feed(data[start : start + SLICE_BYTES])

    def _feed(self, data: bytes) -> None:
        served, self._reading = self._served, len(data)
        began_here = self._phase == IDLE
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._ignore_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._reject(error)
        if self._phase != IDLE:
            self._watch_unfinished(self._reading if served == self._served else 0)
        elif began_here and self._served == served + 1:
            self._heads.learn(data, self._request, self._request.exchange)

    def _serve_again(self, data: bytes) -> bool:
        """Serve a request whose head was seen before, without the parser; whether it was one."""
        found = self._heads.recognise(data)
        if found is None:
            return False
        known, body = found
        request = known.request(body)
        refusal = self._site.guard.refusal(request)
        if refusal is not None:
            self._refuse(refusal)
            return True
        exchange = request.exchange = known.exchange(self, self._transport, not self._site.stopping)
        self._served += 1
        self._dispatch(request, exchange)
        return True

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the signature is asyncio's
        """Give the place back and tell whoever is still working on an answer."""
        site = self._site
        site.places.leave(self)
        self._phase = DEAF
        self._waiting.clear()
        self._unread = b""
        del self._parser  # it holds our bound methods: a cycle otherwise
        if self._current is not None:
            self._current.lose()
        self.resume_writing()
        if site.when_empty is not None and not site.places.taken:
            site.when_empty()

    def pause_writing(self) -> None:
        """The client reads slower than we write."""
        self._blocked_since = self._site.now

    def resume_writing(self) -> None:
        """The client caught up, or will not any more."""
        self._blocked_since = None
        if self._unblocked is not None:
            self._unblocked.set_result(None)
            self._unblocked = None
        if self._waiting and self._current is None:
            self._pump_later()

    async def writable(self) -> None:
        """Wait until the client has read enough for more to be written."""
        if self._blocked_since is None:
            return
        if self._unblocked is None:
            self._unblocked = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._unblocked)

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        if self._phase == DEAF:
            raise RequestRefused(CLOSING)
        self._phase = HEAD
        self._head_bytes = self._raw_bytes = 0
        self._target = self._body = b""
        self._headers = {}

    def on_url(self, part: bytes) -> None:
        """A piece of the target: reads can cut it anywhere."""
        self._target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header, complete."""
        name = name.lower()
        headers = self._headers
        headers[name] = value if name not in headers else join_repeated(name, headers[name], value)

    def on_headers_complete(self) -> None:
        """Decide from the head alone whether the rest is worth reading."""
        headers, most = self._headers, self._limits.head_bytes
        if self._head_bytes + self._reading > most and head_size(self._target, headers) > most:
            raise RequestRefused(HEAD_TOO_LARGE)
        if not self._target.startswith(b"/"):
            self._target = plain_target(self._target, headers)
        request = self._request = HttpRequest(self._parser.get_method(), self._target, headers, self._peer)
        refusal = self._site.guard.refusal(request)
        if refusal is not None:
            raise RequestRefused(refusal)
        self._phase = BODY
        self._headers = {}  # from here on, headers are trailers, and nobody asks for those
        if b"content-length" in headers and int(headers[b"content-length"]) > self._limits.body_bytes:
            raise RequestRefused(BODY_TOO_LARGE)
        if b"transfer-encoding" in headers or b"expect" in headers or b"upgrade" in headers:
            self._prepare_for_body(headers)

    def on_body(self, part: bytes) -> None:
        """A piece of the body, most often all of it."""
        if not self._body:
            self._body = part
        elif isinstance(self._body, bytes):
            self._body = bytearray(self._body) + part
        else:
            self._body += part
        if len(self._body) > self._limits.body_bytes:
            raise RequestRefused(BODY_TOO_LARGE)

    def on_message_complete(self) -> None:
        """Hand the request to its route, or let it wait for its turn."""
        if self._upgrading:
            return
        request, keep_alive = self._request, self._parser.should_keep_alive()
        request.body = bytes(self._body)
        exchange = Exchange(self, self._transport, keep_alive and not self._site.stopping, request.method == b"HEAD")
        if not keep_alive or request.header(b"connection"):
            exchange.chunked = self._parser.get_http_version() == "1.1"
        if (origin := request.header(b"origin")) is not None:
            exchange.extra = share_with(origin)
        request.exchange = exchange
        self._served += 1
        self._phase = IDLE if keep_alive else DEAF
        if self._current is None and not self._waiting and self._turn < TURN_REQUESTS and self._blocked_since is None:
            self._turn += 1
            self._dispatch(request, exchange)
        else:
            self._enqueue((request, exchange))

    def finished(self, exchange: Exchange) -> None:
        """The answer to the current request is complete; the next one may have its turn."""
        self._current = None
        self._since = self._site.now
        if not exchange.keep_alive:
            self._phase = DEAF
            self._waiting.clear()
            self._transport.close()
        elif self._waiting and not self._pumping:
            self._pump()

    def stop(self) -> None:
        """Finish what is under way and take nothing more."""
        following = self._waiting[0] if self._waiting else None
        if self._current is not None:
            self._current.keep_alive = False
        elif isinstance(following, tuple):
            following[1].keep_alive = False
        elif self._is_idle():
            self._transport.close()

    def abort(self) -> None:
        """Drop the connection with all that is unsaid."""
        self._transport.abort()

    def waits(self) -> tuple[int, float] | None:
        """What this client does instead of being served, and since when; ``None`` while a request is being answered."""
        if self._lingering:
            return LINGERING, self._since
        if self._current is not None or self._waiting:
            return None
        if self._phase == BODY:
            return IN_BODY, self._since
        if self._phase == HEAD:
            return IN_HEAD, self._since
        if self._served:
            return KEPT_ALIVE, self._since
        return (JUST_CAME if self._since == self._site.now else SILENT), self._since

    def check_time(self, now: float) -> None:
        """Act on whatever has taken too long."""
        limits = self._limits
        if self._blocked_since is not None and now - self._blocked_since >= limits.write_idle_s:
            self._transport.abort()
        elif self._lingering:
            if now - self._since >= limits.linger_s:
                self._transport.abort()
        elif not self._paused:  # while we do not read, the client cannot be late
            self._check_phase(now - self._since, now - self._progress)

    def _check_phase(self, age_s: float, silence_s: float) -> None:
        limits = self._limits
        if self._phase == HEAD and age_s >= limits.head_s:
            self._refuse(HEAD_TOO_SLOW)
        elif self._phase == BODY and (age_s >= limits.body_total_s or silence_s >= limits.body_idle_s):
            self._refuse(BODY_TOO_SLOW)
        elif self._is_idle() and age_s >= (limits.keep_alive_s if self._served else limits.head_s):
            self._transport.close()

    def _is_idle(self) -> bool:
        return self._phase == IDLE and self._current is None and not self._waiting

    def _watch_unfinished(self, head_bytes: int) -> None:
        """Count what arrived of an incomplete request; ``head_bytes`` of the last read can only be its head."""
        self._progress = now = self._site.now
        if self._phase == HEAD:
            self._since = self._since if self._head_bytes else now
            self._head_bytes += head_bytes
            if self._head_bytes > self._limits.head_bytes:
                self._refuse(HEAD_TOO_LARGE)
        elif self._phase == BODY:
            self._since = self._since if self._raw_bytes else now
            self._raw_bytes += self._reading
            if self._raw_bytes > self._limits.raw_body_bytes:
                self._refuse(BODY_TOO_LARGE)

    def _prepare_for_body(self, headers: dict[bytes, bytes]) -> None:
        self._upgrading = b"upgrade" in headers and self._parser.should_upgrade()
        if b"transfer-encoding" in headers and self._parser.get_http_version() != "1.1":
            raise RequestRefused(OLD_CODING)
        if headers.get(b"transfer-encoding", b"chunked").lower() != b"chunked":
            raise RequestRefused(UNKNOWN_CODING)
        if b"expect" in headers and not self._upgrading:
            self._meet_expectation(headers[b"expect"])

    def _meet_expectation(self, expectation: bytes) -> None:
        """Say that the body may come; a client whose earlier request is unanswered sends it unasked after a while."""
        if expectation.lower() != b"100-continue":
            raise RequestRefused(UNKNOWN_EXPECTATION)
        if self._current is None and not self._waiting:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _ignore_upgrade(self, rest: bytes) -> None:
        """Read a request that offers another protocol as if it did not: the parser stops there and skips its body.

        Java's HttpClient offers HTTP/2 with every first request to a plain ``http`` address, bodies included.
        """
        request = self._request
        kept = encode_headers([pair for pair in request.headers if pair[0] not in UPGRADE_HEADERS])
        query = b"?" + request.query if request.query else b""
        self._upgrading, self._phase = False, IDLE
        self._parser = httptools.HttpRequestParser(self)
        self._feed(b"%b %b%b HTTP/1.1\r\n%b\r\n" % (request.method, request.path, query, kept) + rest)

    def _dispatch(self, request: HttpRequest, exchange: Exchange) -> None:
        self._current = exchange
        site = self._site
        try:
            site.routes.get(request.path, site.fallback)(request, exchange)
        except Exception as error:  # the door's edge: a fault in one request ends that request only
            self._report(error, exchange)

    def _report(self, error: Exception, exchange: Exchange) -> None:
        asyncio.get_running_loop().call_exception_handler({"message": "An HTTP handler failed.", "exception": error})
        if exchange.streaming:
            self._transport.abort()
        elif not exchange.answered:
            exchange.answer(500, error_body("HTTP_INTERNAL", "The server failed on this request; its log says why."))

    def _enqueue(self, item: tuple[HttpRequest, Exchange] | Refusal) -> None:
        self._waiting.append(item)
        if not self._paused:
            self._paused = True
            self._transport.pause_reading()
        if self._current is None and len(self._waiting) == 1:
            self._pump_later()

    def _pump_later(self) -> None:
        """Serve what waits after the other connections had their turn."""
        asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        """Serve a few of those that wait; the rest has its turn after everybody else's."""
        if self._pumping or self._current is not None:
            return
        self._pumping = True
        self._serve_waiting()
        self._pumping = False
        if not self._waiting and not self._transport.is_closing():
            self._read_on()
        elif self._may_serve():
            self._pump_later()

    def _serve_waiting(self) -> None:
        """In order, until one is not answered at once; a loop, for recursion would have no bound."""
        for _ in range(TURN_REQUESTS):
            if not self._may_serve():
                return
            item = self._waiting.popleft()
            if isinstance(item, Refusal):
                self._send_refusal(item)
            else:
                self._dispatch(*item)

    def _may_serve(self) -> bool:
        """Whether the first of those that wait can be answered now: the client reads, and no other is under way."""
        return bool(self._waiting) and self._current is None and self._blocked_since is None

    def _read_on(self) -> None:
        """Take what was read before but not parsed yet; when nothing of it has to wait, read from the client again."""
        self._since = self._progress = self._site.now
        self._turn = TURN_REQUESTS
        if self._unread:
            self._feed_slices(self._unread)
        if not self._waiting and self._paused and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()

    def _reject(self, error: httptools.HttpParserError) -> None:
        """Refuse what the parser could not or should not read on."""
        cause = error.__context__
        if self._phase == DEAF:
            return
        if isinstance(cause, RequestRefused):
            self._refuse(cause.refusal)
        elif isinstance(error, httptools.HttpParserCallbackError):
            raise error
        elif isinstance(error, httptools.HttpParserInvalidMethodError):
            self._refuse(UNKNOWN_METHOD)
        else:
            self._refuse(Refusal(400, "HTTP_BAD_REQUEST", f"This is not valid HTTP/1.1: {error}."))

    def _refuse(self, refusal: Refusal) -> None:
        """Answer with ``refusal`` when its turn comes, and listen to nothing more."""
        self._phase = DEAF
        if self._current is None and not self._waiting:
            self._send_refusal(refusal)
        else:
            self._enqueue(refusal)

    def _send_refusal(self, refusal: Refusal) -> None:
        self._lingering, self._raw_bytes = True, 0
        self._since = self._site.now
        self._transport.write(refusal.encode())
        if self._transport.can_write_eof():
            self._transport.write_eof()

    def _discard(self, size: int) -> None:
        self._raw_bytes += size
        if self._raw_bytes > self._limits.linger_bytes:
            self._transport.abort()
