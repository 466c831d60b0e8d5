"""Sessions that are at home at every replica: any of them goes on with a session that another one opened.

A request under way belongs to the replica that took it. What the client says about it (an answer to a question, a
cancellation) may come in anywhere; it is passed on to the one that waits for it.
"""

import asyncio
import itertools
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Literal

import msgspec

from toolcrib.core.access import Caller, Grants
from toolcrib.core.coordination import Coordination, SessionBook, SessionEntry, session_key
from toolcrib.core.errors import CoordinationUnavailable, StoreUnavailable
from toolcrib.core.tasks import OnFailure, TaskScope
from toolcrib.core.topic import Topic
from toolcrib.server.mcp import replies
from toolcrib.server.mcp.parked_elsewhere import ParkedElsewhere
from toolcrib.server.mcp.parking import ParkingLot
from toolcrib.server.mcp.service import internal_error
from toolcrib.server.mcp.sessions import McpSession, McpSessions
from toolcrib.transports.http.server import Exchange, HttpRequest
from toolcrib.wire import http
from toolcrib.wire.jsonrpc import Inbound, RpcError, decode_inbound, encode_error
from toolcrib.wire.messages import Asker

TOPIC = "sessions"
TOUCH_S = 30.0
SWEEP_EVERY = 20
"""Touches between two looks for sessions that nobody uses."""

OnMessage = Callable[[Inbound, McpSession], object]


class Word(msgspec.Struct, array_like=True):
    """What one replica tells the others of a session."""

    kind: Literal["ended", "message", "stream"]
    key: str
    body: bytes = b""
    """What the client said, where that is passed on."""
    grants: Grants | None = None
    """What the request that brought it may reach, where it is a request itself."""


_word = msgspec.msgpack.Decoder(Word)


class Roaming:
    """The sessions of this replica among those of the others."""

    def __init__(self, book: SessionBook, coordination: Coordination, on_failure: OnFailure) -> None:
        self.book = book
        self._topic = Topic(coordination, TOPIC, self._hear, self._look_soon)
        self.parked = ParkedElsewhere(coordination, on_failure)
        """Calls that wait for clients, here and elsewhere."""
        self._homes: list[Home] = []
        self._tasks = TaskScope(on_failure)
        self._wake = asyncio.Event()
        self._dismissed: set[str] = set()
        """Those that the book has yet to end."""
        self._used: set[str] = set()
        """Those that the book has yet to note as used."""

    async def open(self) -> None:
        """Begin to hear of what happens to sessions elsewhere."""
        await self._topic.open()
        await self.parked.open()
        self._tasks.spawn(self._touch_again_and_again(), "sessions.touch")

    def at(self, address: str) -> "Home":
        """The sessions of one address."""
        self._homes.append(home := Home(self, address))
        return home

    async def pass_on(self, key: str, body: bytes, grants: Grants | None = None) -> None:
        """Pass a message of a session on to the others, or raise."""
        await self._topic.tell(msgspec.msgpack.encode(Word("message", key, body, grants)))

    def say(self, kind: Literal["ended", "stream"], key: str) -> None:
        """Tell the others soon."""
        self._topic.say(msgspec.msgpack.encode(Word(kind, key)))

    def dismiss(self, key: str) -> None:
        """End a session everywhere, in the background: again and again until the book has taken it in."""
        self._dismissed.add(key)
        self._tasks.spawn(self._end_dismissed(), "sessions.end")

    def is_dismissed(self, key: str) -> bool:
        """Whether a session was ended here, though the book may not know yet."""
        return key in self._dismissed

    async def _end_dismissed(self) -> None:
        with suppress(CoordinationUnavailable, StoreUnavailable):
            for key in tuple(self._dismissed):
                await self.end(key)
                self._dismissed.discard(key)

    async def end(self, key: str) -> bool:
        """End a session everywhere; whether there was one."""
        was_there = await self.book.end(key)
        self.say("ended", key)
        return was_there

    def _hear(self, body: bytes) -> None:
        try:
            word = _word.decode(body)
        except msgspec.DecodeError:  # a replica of another version says more than we understand
            return
        for home in self._homes:
            if (session := home.sessions.by_key(word.key)) is not None:
                home.take(word, session)

    def _look_soon(self) -> None:
        """Something may have been missed: see which sessions have ended."""
        self._wake.set()

    async def _touch_again_and_again(self) -> None:
        for number in itertools.count(1):
            with suppress(TimeoutError):
                async with asyncio.timeout(TOUCH_S):
                    await self._wake.wait()
            is_whole = self._wake.is_set()
            self._wake.clear()
            await self._end_dismissed()
            try:
                await self.touch(whole=is_whole)
                if number % SWEEP_EVERY == 0:
                    await self.book.sweep()
            except (CoordinationUnavailable, StoreUnavailable):
                continue

    async def touch(self, *, whole: bool = True) -> None:
        """Note in the book which sessions are in use here, and end those that have ended elsewhere.

        What the book could not take in is noted the next time.
        """
        self._used.update(key for home in self._homes for key in home.sessions.used_keys(whole=whole))
        ended = await self.book.touch(self._used)
        self._used = set()
        for key in ended:
            self._hear(msgspec.msgpack.encode(Word("ended", key)))

    async def close(self) -> None:
        """Hear no more; the sessions go on elsewhere."""
        await self._tasks.close()
        await self.parked.close()
        await self._topic.close()


class Home:
    """The sessions of one address at this replica."""

    sessions: McpSessions
    on_message: OnMessage

    def __init__(self, roaming: Roaming, address: str) -> None:
        self._roaming, self._address = roaming, address

    def host(self, sessions: McpSessions, on_message: OnMessage, lot: ParkingLot) -> None:
        """Look after these; ``on_message`` takes what a client said elsewhere."""
        self._roaming.parked.add(lot)
        self.sessions, self.on_message = sessions, on_message
        sessions.on_dismissed = lambda session: self._roaming.dismiss(session.key)

    async def write(self, session: McpSession) -> None:
        """Let the others know of a new session."""
        asker = session.asker
        opened_at = time.time()
        entry = SessionEntry(
            session.key, session.caller.id, self._address, asker.version, opened_at, asker.capabilities, asker.info
        )
        await self._roaming.book.open(entry)

    async def adopt(self, session_id: str, caller: Caller) -> McpSession | None:
        """Go on with a session that another replica opened, for the caller that opened it, where it was opened."""
        entry = await self._entry(session_id, caller)
        if entry is None:
            return None
        known = self.sessions.by_key(entry.key)  # two requests may come at once
        if known is not None:
            return known
        asker = Asker(entry.version, entry.capabilities, entry.info)
        adopted = self.sessions.adopt(session_id, asker, caller, age_s=max(0.0, time.time() - entry.opened_at))
        if adopted is None:
            raise CoordinationUnavailable("This replica has no room for another session.")
        return adopted

    async def _entry(self, session_id: str, caller: Caller) -> SessionEntry | None:
        key = session_key(session_id)
        entry = None if self._roaming.is_dismissed(key) else await self._roaming.book.find(key)
        is_ours = entry is not None and (entry.caller, entry.address) == (caller.id, self._address)
        return entry if is_ours else None

    async def end(self, session_id: str, caller: Caller) -> bool:
        """End a session everywhere, if it is this caller's; whether there was one."""
        entry = await self._entry(session_id, caller)
        return entry is not None and await self._roaming.end(entry.key)

    async def forward(self, session: McpSession, body: bytes) -> None:
        """Pass on what a client said to the replica that waits for it."""
        await self._roaming.pass_on(session.key, body)

    async def pass_on(self, session_id: str, caller: Caller, body: bytes) -> bool:
        """The same of a session that is known elsewhere only, with what its caller may reach now; whether there is
        one, and it is this caller's."""
        entry = await self._entry(session_id, caller)
        if entry is not None:
            await self._roaming.pass_on(entry.key, body, caller.grants)
        return entry is not None

    def say_stream(self, session: McpSession) -> None:
        """A session has one standing stream: now it is here."""
        self._roaming.say("stream", session.key)

    def take(self, word: Word, session: McpSession) -> None:
        """What another replica tells of a session that is known here, too."""
        if word.kind == "ended":
            self.sessions.end(session)
        elif word.kind == "stream":
            session.end_stream()
        else:
            if word.grants is not None:
                session.regrant(word.grants)
            self.on_message(decode_inbound(word.body), session)


GoOn = Callable[[McpSession], None]


class Lookups:
    """Answers for one address."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self._tasks = TaskScope(tell_failure)

    def _spawn(self, work: Coroutine[Any, Any, None], exchange: Exchange, name: str) -> None:
        self._tasks.spawn(_unless_away(work, exchange), name)

    def welcome(self, session: McpSession, body: bytes, exchange: Exchange) -> None:
        """Tell a client of its session when every replica can find it."""
        headers = ((http.SESSION, session.id.encode()),)
        self.note(session, exchange, lambda: exchange.answer(200, body, headers=headers))

    def note(self, session: McpSession, exchange: Exchange, go_on: Callable[[], None]) -> None:
        """Let every replica find a new session, then go on with it."""

        async def work() -> None:
            try:
                await self.home.write(session)
            except BaseException:
                self.home.sessions.end(session)
                raise
            go_on()

        self._spawn(work(), exchange, "mcp.session.open")

    def pass_on(self, session_id: bytes, caller: Caller, request: HttpRequest) -> None:
        """Hand a message to the replica that has the stream of its session."""

        async def work() -> None:
            if await self.home.pass_on(session_id.decode("latin-1"), caller, request.body):
                request.exchange.answer(202, b"")
            else:
                replies.session_ended(request.exchange)

        self._spawn(work(), request.exchange, "mcp.pass_on")

    def adopt(self, session_id: bytes, caller: Caller, exchange: Exchange, go_on: GoOn) -> None:
        """Go on with a session that another replica opened, if there is one."""

        async def work() -> None:
            session = await self.home.adopt(session_id.decode("latin-1"), caller)
            if session is None:
                replies.session_ended(exchange)
                return
            try:
                go_on(session)
            except RpcError as error:
                exchange.answer(400, encode_error(None, error))

        self._spawn(work(), exchange, "mcp.session.find")

    def forward(self, session: McpSession, request: HttpRequest) -> None:
        """Pass on what another replica may wait for."""

        async def work() -> None:
            await self.home.forward(session, request.body)
            request.exchange.answer(202, b"")

        self._spawn(work(), request.exchange, "mcp.forward")

    def end(self, session_id: bytes, caller: Caller, exchange: Exchange) -> None:
        """End a session everywhere."""

        async def work() -> None:
            replies.answer_delete(exchange, was_there=await self.home.end(session_id.decode("latin-1"), caller))

        self._spawn(work(), exchange, "mcp.session.end")

    async def close(self) -> None:
        """Look no more."""
        await self._tasks.close()


async def _unless_away(work: Coroutine[Any, Any, None], exchange: Exchange) -> None:
    try:
        await work
    except (CoordinationUnavailable, StoreUnavailable):
        replies.sessions_away(exchange)
    except Exception:  # the edge of the door: whatever it is, the client gets an answer, and the log the rest
        if not exchange.answered:
            exchange.answer(500, internal_error(None))
        raise


def tell_failure(name: str, error: BaseException) -> None:
    """Note that work in the background failed."""
    sys.stderr.write(f"toolcrib: {name} failed: {error!r}\n")
