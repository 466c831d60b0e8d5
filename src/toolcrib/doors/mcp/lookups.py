"""Requests that concern other replicas: they are answered when these were asked, or could not be."""

import sys
from collections.abc import Callable, Coroutine
from typing import Any

from toolcrib.core.access import Caller
from toolcrib.core.errors import CoordinationUnavailable, StoreUnavailable
from toolcrib.core.tasks import TaskScope
from toolcrib.doors.mcp import demands, service
from toolcrib.doors.mcp.roaming import Home
from toolcrib.doors.mcp.sessions import Session
from toolcrib.transports.http_server import Exchange, Request
from toolcrib.wire import headers
from toolcrib.wire.jsonrpc import RpcError, encode_error

GoOn = Callable[[Session], None]


class Lookups:
    """Answers for one address."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self._tasks = TaskScope(_told)

    def _spawn(self, work: Coroutine[Any, Any, None], exchange: Exchange, name: str) -> None:
        self._tasks.spawn(_unless_away(work, exchange), name)

    def welcome(self, session: Session, body: bytes, exchange: Exchange) -> None:
        """Tell a client of its session when every replica can find it."""

        async def work() -> None:
            try:
                await self.home.write(session)
            except BaseException:
                self.home.sessions.end(session)
                raise
            exchange.answer(200, body, headers=((headers.SESSION, session.id.encode()),))

        self._spawn(work(), exchange, "mcp.session.open")

    def adopt(self, session_id: bytes, caller: Caller, exchange: Exchange, go_on: GoOn) -> None:
        """Go on with a session that another replica opened, if there is one."""

        async def work() -> None:
            session = await self.home.adopt(session_id.decode("latin-1"), caller)
            if session is None:
                demands.session_ended(exchange)
                return
            try:
                go_on(session)
            except RpcError as error:
                exchange.answer(400, encode_error(None, error))

        self._spawn(work(), exchange, "mcp.session.find")

    def forward(self, session: Session, request: Request) -> None:
        """Pass on what another replica may wait for."""

        async def work() -> None:
            await self.home.forward(session, request.body)
            request.exchange.answer(202, b"")

        self._spawn(work(), request.exchange, "mcp.forward")

    def end(self, session_id: bytes, caller: Caller, exchange: Exchange) -> None:
        """End a session everywhere."""

        async def work() -> None:
            demands.answer_delete(exchange, was_there=await self.home.end(session_id.decode("latin-1"), caller))

        self._spawn(work(), exchange, "mcp.session.end")

    async def close(self) -> None:
        """Look no more."""
        await self._tasks.close()


async def _unless_away(work: Coroutine[Any, Any, None], exchange: Exchange) -> None:
    try:
        await work
    except (CoordinationUnavailable, StoreUnavailable):
        demands.sessions_away(exchange)
    except Exception:  # the edge of the door: whatever it is, the client gets an answer, and the log the rest
        if not exchange.answered:
            exchange.answer(500, service.internal_error(None))
        raise


def _told(name: str, error: BaseException) -> None:
    sys.stderr.write(f"toolcrib: {name} failed: {error!r}\n")
