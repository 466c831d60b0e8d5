"""A Crib as an ASGI 3 application: the same MCP, REST, page, authentication and limits behind anybody's HTTP server.

Inside, every address counts from ``/``. Where the application is mounted under a path (``root_path``), that path is
taken off each request here, and put before the links, redirects and cookies of each answer.
"""

import asyncio
import re
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from dataclasses import replace
from typing import Any, Self, cast
from urllib.parse import quote, unquote

import msgspec

from toolcrib.config.sections import AuthMode
from toolcrib.core.errors import ToolcribError
from toolcrib.core.events import Emit, StandardLog
from toolcrib.crib.crib import Crib
from toolcrib.project.project import project_of
from toolcrib.server.app import ServerApp, ServerSettings, guard_policy
from toolcrib.server.identity.sign_in import MountedAddress, PublicAddress
from toolcrib.server.mcp.addresses import PATH as MCP_PATH
from toolcrib.server.serve import authenticate
from toolcrib.transports.http.guard import RequestGuard, join_repeated, shared_headers
from toolcrib.transports.http.limits import BODY_TOO_LARGE, BODY_TOO_SLOW, HttpLimits
from toolcrib.transports.http.message import (
    BODILESS_STATUSES,
    DONE,
    EVENT_STREAM,
    GONE,
    JSON,
    OPEN,
    PROBLEM,
    STREAMING,
    Headers,
    HttpRequest,
    Refusal,
    RequestRefused,
    encode_headers,
    error_body,
)
from toolcrib.transports.http.server import Exchange

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_LINKS = re.compile(rb'(\s(?:href|src|action|formaction|hx-get|hx-post|data-watch)="|content="0;url=)/(?!/)')
"""Links of the page: values are escaped in it, so a quotation mark after ``=`` stands in no text but a template's."""
_REDIRECTS = (b"location", b"hx-redirect")
_ANYWHERE = "the application around it"


def asgi(  # noqa: PLR0913 - what a program may wish, each by its name
    crib: Crib | AbstractAsyncContextManager[Crib],
    *,
    token: str | None = None,
    auth: AuthMode | None = None,
    public_url: str = "",
    profile: str = "",
    allow_hosts: Iterable[str] = (),
    allow_origins: Iterable[str] = (),
    limits: HttpLimits | None = None,
    emit: Emit | None = None,
) -> "AsgiApp":
    """An ASGI application that serves a Crib: an open one, or what ``open_crib`` returned, opened at startup.

    Who reaches the application around it is not known here, so a token is needed unless ``auth="none"`` says that
    something else sees to that. Hosts beside this machine's own names must be allowed, as for every server of ours.
    """
    hosts = tuple(allow_hosts)
    pages = (f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts)
    settings = ServerSettings(
        token=token,
        insecure=auth == "none",
        profile=profile,
        allow_hosts=hosts,
        allow_origins=(*allow_origins, *pages),
    )
    return AsgiApp(crib, settings, auth=auth, public_url=public_url.rstrip("/"), limits=limits, emit=emit)


class AsgiApp:
    """The application; ``async with`` opens and closes it where the server around it has no lifespan for it."""

    def __init__(
        self,
        crib: Crib | AbstractAsyncContextManager[Crib],
        settings: ServerSettings,
        *,
        auth: AuthMode | None = None,
        public_url: str = "",
        limits: HttpLimits | None = None,
        emit: Emit | None = None,
    ) -> None:
        self._given, self._settings, self._auth = crib, settings, auth
        self._public_url, self._limits, self._emit = public_url, limits or HttpLimits(), emit or StandardLog()
        self._opening = asyncio.Lock()
        self._stack = AsyncExitStack()
        self._app: ServerApp | None = None
        self._is_published = False

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End what is being answered, and the Crib if it was opened here."""
        self._app = None
        await self._stack.aclose()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one connection, as ASGI 3 has it."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                await self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return
            try:
                await self._open()
            except ToolcribError as error:
                await send({"type": "lifespan.startup.failed", "message": str(error)})
                return
            await send({"type": "lifespan.startup.complete"})

    async def _open(self) -> ServerApp:
        """Begin to answer, the first time somebody needs it."""
        async with self._opening:
            if self._app is not None:
                return self._app
            given = self._given
            crib = given if isinstance(given, Crib) else await self._stack.enter_async_context(given)
            project = project_of(crib)
            config = replace(
                project.config,
                host=_ANYWHERE,
                auth_mode=self._auth or project.config.auth_mode,
                public_url=self._public_url or project.config.public_url,
            )
            auth = authenticate(config, self._settings, project.around.env, self._emit)
            self._guard = RequestGuard(guard_policy(config, auth, self._settings, ()))
            await self._stack.enter_async_context(auth.kept_fresh(self._emit))
            app = await ServerApp(project, auth, self._emit).open(self._settings.profile)
            self._stack.push_async_callback(app.close)
            self._public_url, self._is_published, self._app = config.public_url, False, app
            return app

    def _publish(self, app: ServerApp, scope: Message, root: str, request: HttpRequest) -> None:
        """Say where the page and REST are, which the first request shows where nobody said so."""
        self._is_published = True
        seen = f"{scope.get('scheme', 'http')}://{(request.header(b'host') or b'').decode('latin-1')}{root}"
        has_path = self._public_url.count("/") > 2
        base = (self._public_url if has_path else self._public_url + root) if self._public_url else seen
        app.publish((PublicAddress if self._public_url else MountedAddress)(base), base + MCP_PATH, base)

    async def _serve(self, scope: Message, receive: Receive, send: Send) -> None:
        app = await self._open()
        root, path = split_path(scope)
        try:
            request = await self._read(app, scope, root, path, receive)
        except RequestRefused as refused:
            await _refuse(refused.refusal, send, is_head=scope["method"] == "HEAD")
            return
        if request is None:
            return
        exchange = AsgiExchange(cast("Any", None), cast("Any", None), True, request.method == b"HEAD")
        exchange.root = root.encode()
        if (origin := request.header(b"origin")) is not None:
            exchange.shared = shared_headers(origin)
        request.exchange = exchange
        await self._answer(app, request, exchange, receive, send)

    async def _answer(
        self, app: ServerApp, request: HttpRequest, exchange: "AsgiExchange", receive: Receive, send: Send
    ) -> None:
        try:
            app.routes.get(request.path.decode("latin-1"), app.handle)(request, exchange)
        except Exception as error:  # the edge of a server: a fault in one request ends that request only
            problem = {"message": "An HTTP handler failed.", "exception": error}
            asyncio.get_running_loop().call_exception_handler(problem)
            if not exchange.is_open:
                exchange.lose()
                raise
            exchange.answer(500, error_body("HTTP_INTERNAL", "The server failed on this request; its log says why."))
        leaving = asyncio.ensure_future(_until_gone(receive, exchange))
        try:
            await exchange.deliver(send, self._limits.write_idle_s)
        finally:
            leaving.cancel()
            exchange.lose()

    async def _read(
        self, app: ServerApp, scope: Message, root: str, path: bytes, receive: Receive
    ) -> HttpRequest | None:
        """The request with its body; ``None`` when its client went away."""
        request = _request_of(scope, root, path)
        refusal = self._guard.refusal(request)
        if not self._is_published and (refusal is None or refusal.status == 401):  # its host is one of ours
            self._publish(app, scope, root, request)
            refusal = self._guard.refusal(request)  # which can say now where tokens are had
        if refusal is not None:
            raise RequestRefused(refusal)
        return request if await self._read_body(request, receive) else None

    async def _read_body(self, request: HttpRequest, receive: Receive) -> bool:
        """Read the body within our limits; whether the client is still there."""
        most, parts, size = self._limits.body_bytes, list[bytes](), 0
        stated = request.header(b"content-length") or b"0"
        if stated.isdigit() and int(stated) > most:
            raise RequestRefused(BODY_TOO_LARGE)
        try:
            async with asyncio.timeout(self._limits.body_total_s):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return False
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > most:
                        raise RequestRefused(BODY_TOO_LARGE)
                    if not message.get("more_body", False):
                        request.body = b"".join(parts)
                        return True
        except TimeoutError:
            raise RequestRefused(BODY_TOO_SLOW) from None


class AsgiExchange(Exchange, eq=False):
    """Collects what a handler says, in order, until the server's task has sent it; touches no connection of ours."""

    root: bytes = b""
    """The path the application is mounted under."""
    shared: Headers = ()
    """Go with whatever answer this gets."""
    _queue: deque[Message] = msgspec.field(default_factory=deque)
    _queued_bytes: int = 0
    _said: asyncio.Event = msgspec.field(default_factory=asyncio.Event)
    _sent: asyncio.Event = msgspec.field(default_factory=asyncio.Event)

    @property
    def backlog(self) -> int:
        """How many bytes wait for the client to read on."""
        return self._queued_bytes

    def answer(self, status: int, body: bytes, content_type: bytes = JSON, headers: Headers = ()) -> None:
        """The whole answer in one go."""
        if self._state != OPEN:
            self._check("answer", OPEN)
            return
        if self.root and content_type.startswith(b"text/html"):
            body = _LINKS.sub(lambda found: found[1] + self.root + b"/", body)
        is_bodiless = status in BODILESS_STATUSES
        sized = () if is_bodiless else ((b"content-type", content_type), (b"content-length", b"%d" % len(body)))
        self._state = DONE
        self._start(status, (*sized, *headers))
        self._put({"type": "http.response.body", "body": b"" if is_bodiless or self._head_only else body})

    def start_stream(self, status: int, content_type: bytes = EVENT_STREAM, headers: Headers = ()) -> None:
        """Say that the body comes in pieces."""
        if self._state != OPEN:
            self._check("start_stream", OPEN)
            return
        self._state = STREAMING
        self._start(status, ((b"content-type", content_type), *headers))

    def write(self, chunk: bytes) -> None:
        """One more piece of the stream."""
        if self._state != STREAMING:
            self._check("write", STREAMING)
        elif chunk and not self._head_only:
            self._put({"type": "http.response.body", "body": chunk, "more_body": True})

    def end(self) -> None:
        """The stream is complete."""
        if self._state != STREAMING:
            self._check("end", STREAMING)
            return
        self._state = DONE
        self._put({"type": "http.response.body", "body": b""})

    async def drain(self) -> None:
        """Wait while the client reads slower than we write; returns as well when it is gone."""
        while self._state == STREAMING and self._queue:
            self._sent.clear()
            await self._sent.wait()

    def lose(self) -> None:
        """The client is gone."""
        super().lose()
        self._said.set()
        self._sent.set()

    async def deliver(self, send: Send, patience_s: float) -> None:
        """Send what was said until the answer is complete or the client gone, or reads nothing for too long."""
        with suppress(OSError):  # the client is gone, or too slow
            while self._state != GONE:
                if self._queue:
                    message = self._queue.popleft()
                    async with asyncio.timeout(patience_s):
                        await send(message)
                    self._queued_bytes -= len(message.get("body", b""))
                    self._sent.set()
                elif self._state == DONE:
                    return
                else:
                    self._said.clear()
                    await self._said.wait()

    def _start(self, status: int, headers: Headers) -> None:
        encode_headers(headers)  # refuses line breaks, which would forge another header
        sent = [(name, self._from_root(name, value)) for name, value in (*headers, *self.shared)]
        self._put({"type": "http.response.start", "status": status, "headers": sent})

    def _from_root(self, name: bytes, value: bytes) -> bytes:
        """A header as it has to be outside of the path the application is mounted under."""
        if self.root and name in _REDIRECTS and value.startswith(b"/"):
            return self.root + value
        return value.replace(b"; Path=/;", b"; Path=%b;" % self.root) if self.root and name == b"set-cookie" else value

    def _put(self, message: Message) -> None:
        self._queued_bytes += len(message.get("body", b""))
        self._queue.append(message)
        self._said.set()


def split_path(scope: Message) -> tuple[str, bytes]:
    """The path the application is mounted under, encoded, and the rest as it was sent.

    Servers disagree on whether ``path`` still has the root in front; both are understood.
    """
    path, root = scope["path"], scope.get("root_path", "").rstrip("/")
    raw = scope.get("raw_path") or b""
    if unquote(raw) not in (path, root + path):  # not there, or of before somebody rewrote the path
        raw = quote(path).encode()
    encoded, end = quote(root), -1
    while root:
        end = raw.find(b"/", end + 1) if end >= 0 or raw[:1] != b"/" else raw.find(b"/", 1)
        before = raw if end < 0 else raw[:end]
        if unquote(before) == root:
            return encoded, raw[len(before) :] or b"/"
        if end < 0:
            break
    return encoded, raw or b"/"


def _request_of(scope: Message, root: str, path: bytes) -> HttpRequest:
    """The request as our own server would have read it; its body is read later."""
    headers: dict[bytes, bytes] = {}
    for raw, value in scope["headers"]:
        name = bytes(raw).lower()
        headers[name] = value if name not in headers else join_repeated(name, headers[name], value)
    if root and not path.startswith(b"/static/"):
        headers.pop(b"accept-encoding", None)  # the links of a page that is packed already cannot be changed
    query = scope.get("query_string", b"")
    target = path + b"?" + query if query else path
    return HttpRequest(scope["method"].encode("latin-1"), target, headers, scope.get("client"))


async def _refuse(refusal: Refusal, send: Send, *, is_head: bool) -> None:
    is_bodiless = refusal.status in BODILESS_STATUSES
    body = b"" if is_bodiless else refusal.problem()
    sized = () if is_bodiless else ((b"content-type", PROBLEM), (b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": refusal.status, "headers": [*sized, *refusal.headers]})
    await send({"type": "http.response.body", "body": b"" if is_head else body})


async def _until_gone(receive: Receive, exchange: AsgiExchange) -> None:
    """Have work that nobody waits for any more cancelled."""
    while (await receive())["type"] != "http.disconnect":
        pass
    exchange.lose()
