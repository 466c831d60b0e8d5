"""An HTTP/1.1 server without a framework: one object per connection, one call per request, no task of its own.

A handler is an ordinary function of a request and its exchange. It answers at once, or keeps the exchange and answers
later. Requests that break a rule or a limit are answered before any handler is asked.
"""

import asyncio
import errno
import socket
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace

from toolcrib.core.clocks import Clock
from toolcrib.core.errors import ConfigError
from toolcrib.transports.http.connection import ServerConnection
from toolcrib.transports.http.guard import GuardPolicy, RequestGuard
from toolcrib.transports.http.limits import ConnectionSettings, Handler, HttpLimits, Places
from toolcrib.transports.http.message import Exchange, HttpRequest, error_body

__all__ = [
    "Exchange",
    "GuardPolicy",
    "Handler",
    "HttpLimits",
    "HttpRequest",
    "HttpServer",
    "answer_not_found",
    "error_body",
]

BACKLOG = 512
WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - recognised, not bound


def answer_not_found(request: HttpRequest, exchange: Exchange) -> None:
    """The fallback of a server that was given none."""
    path = request.path.decode("latin-1")
    exchange.answer(404, error_body("HTTP_NOT_FOUND", f"There is nothing at {path!r}."))


class HttpServer:
    """Listens on one address and serves a fixed set of paths."""

    def __init__(
        self,
        routes: Mapping[str, Handler],
        *,
        fallback: Handler = answer_not_found,
        policy: GuardPolicy | None = None,
        limits: HttpLimits | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        by_path = {path.encode(): handler for path, handler in routes.items()}
        self._policy = policy or GuardPolicy()
        limits = limits or HttpLimits()
        self._site = ConnectionSettings(
            by_path, fallback, RequestGuard(self._policy), limits, Places(limits.connections)
        )
        self._clock = clock
        self._server: asyncio.Server | None = None
        self._sweeping: asyncio.TimerHandle | None = None
        self.host = self._bound = ""
        self.port = 0

    @property
    def address(self) -> str:
        """Where it listens, as ``host:port``."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def local_url(self) -> str:
        """Where this machine reaches it, by number: a name could lead to somebody else who has the same port."""
        host = WILDCARDS.get(self._bound, self._bound)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    @property
    def connections(self) -> int:
        """How many clients are connected right now."""
        return len(self._site.places.taken)

    async def start(self, host: str, port: int) -> None:
        """Begin to listen; port 0 takes any free one."""
        loop = asyncio.get_running_loop()
        try:
            server = await loop.create_server(lambda: ServerConnection(self._site), host, port, backlog=BACKLOG)
        except OSError as error:
            raise explain_bind(error, host, port) from error
        self._server, self.host = server, host
        self._bound, self.port = server.sockets[0].getsockname()[:2]
        self._site.guard = RequestGuard(self._policy, self.port)
        self._sweep(loop)

    def answer_for(self, hosts: Iterable[str]) -> None:
        """Take these hosts for this server's as well, exactly as they are, and pages of theirs for its pages."""
        known = frozenset(hosts)
        policy = replace(
            self._policy,
            allowed_hosts=self._policy.allowed_hosts | known,
            allowed_origins=self._policy.allowed_origins | {f"http://{host}" for host in known},
        )
        self._site.guard = RequestGuard(policy, self.port)

    def wind_down(self) -> None:
        """Go on answering, but keep no connection: clients that come again find somebody else, if there is one."""
        self._site.stopping = True

    async def close(self, grace_s: float = 3) -> None:
        """Stop: idle clients at once, busy ones when they are answered, all others after ``grace_s``."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        self._site.stopping = True
        for connection in tuple(self._site.places.taken):
            connection.stop()
        await self._wait_until_empty(grace_s)
        for connection in tuple(self._site.places.taken):
            connection.abort()
        await self._wait_until_empty(1)
        if self._sweeping is not None:
            self._sweeping.cancel()

    async def _wait_until_empty(self, patience_s: float) -> None:
        if not self._site.places.taken:
            return
        empty = asyncio.Event()
        self._site.when_empty = empty.set
        try:
            await asyncio.wait_for(empty.wait(), patience_s)
        except TimeoutError:
            return

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Keep the clock of all connections, and end those that take too long."""
        self._site.now = now = self._clock()
        for connection in tuple(self._site.places.taken):
            connection.check_time(now)
        self._sweeping = loop.call_later(self._site.limits.sweep_s, self._sweep, loop)


def explain_bind(error: OSError, host: str, port: int) -> ConfigError:
    """Why this address cannot be listened on, and what to do."""
    if error.errno == errno.EADDRINUSE:
        hint = "Stop the program that has it, or choose another with `--port`; `--port 0` takes any free one."
        return ConfigError(f"Port {port} of {host} is already in use.", hint=hint)
    if error.errno in (errno.EACCES, errno.EPERM):
        return ConfigError(
            f"Port {port} of {host} may not be used by this user.", hint="Choose one above 1023 with `--port`."
        )
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return ConfigError(
            f"{host} is not an address of this machine.", hint="Use 127.0.0.1, or 0.0.0.0 for all of them."
        )
    return ConfigError(f"Cannot listen on port {port} of {host}: {error}.", hint="Choose another address.")
