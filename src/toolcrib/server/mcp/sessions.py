"""Sessions of handshake-era clients over HTTP: what must be remembered between their requests."""

import hashlib
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from toolcrib.core.access import Caller, Grants
from toolcrib.core.coordination import IDLE_S, session_key
from toolcrib.core.events import Stay
from toolcrib.server.mcp.channel import Questions
from toolcrib.server.mcp.news import LIST_NEWS, OWED_MAX, ClientNews, StandingStream
from toolcrib.transports.http.server import Exchange
from toolcrib.wire.jsonrpc import RequestId
from toolcrib.wire.messages import Asker

SESSIONS_MAX = 10_000
NAME_MAX = 100


class McpSession:
    """One client between ``initialize`` and DELETE."""

    __slots__ = (
        "_read",
        "_speaker",
        "asker",
        "caller",
        "exchange",
        "id",
        "is_greeted",
        "key",
        "last_used",
        "news",
        "opened",
        "owed",
        "questions",
        "running",
        "stream",
    )

    def __init__(self, asker: Asker, caller: Caller, now: float, session_id: str = "") -> None:
        self.id = session_id or secrets.token_urlsafe(24)
        self.key = session_key(self.id)
        """What others may know it by."""
        self.asker, self.opened, self.last_used = asker, now, now
        self._speaker = caller
        self.caller = replace(caller, session=self.id)
        """The caller that opened it, with the grants of the latest request."""
        self.questions = Questions()
        self.running: dict[RequestId, Callable[[], None]] = {}
        """How to call off each request that is being worked on."""
        self.stream: StandingStream | None = None
        self.exchange: Exchange | None = None
        """Of a client of HTTP+SSE: what its stream, and so all that it is answered, is written to."""
        self.is_greeted = True
        """Whether its handshake was answered: how the lists came to be before that is no news."""
        self.news: ClientNews | None = None
        """What the client subscribed to."""
        self.owed: dict[str, tuple[str, Mapping[str, Any]]] = {}
        """What it was not told yet, because there was no stream."""
        self._read: set[str] = set()
        """The notices that are of lists it has read."""

    def tell(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notice; a client without a stream gets each once, when it opens one or with its next answer."""
        if self.stream is not None:
            self.stream.tell(method, params)
        elif len(self.owed) < OWED_MAX:
            self.owed[f"{method} {params.get('uri') or params.get('elicitationId') or ''}"] = method, params

    def note_listed(self, method: str) -> None:
        """The client reads a list: from now on it shall hear that it changed."""
        news = LIST_NEWS.get(method, "")
        self._read.add(news)
        self.owed.pop(f"{news} ", None)

    def tell_changed(self, method: str) -> None:
        """Tell of a changed list; who has no stream, and never read the list, need not know."""
        if self.is_greeted and (self.stream is not None or method in self._read):
            self.tell(method, {})

    def settle(self) -> list[tuple[str, Mapping[str, Any]]]:
        """What the client is told with its next answer."""
        owed, self.owed = self.owed, {}
        return list(owed.values())

    def send(self, message: bytes) -> None:
        """Send a message on the standing stream, if there is one."""
        if self.stream is not None:
            self.stream.send(message)

    def hear(self, caller: Caller, now: float) -> None:
        """Note that its caller is here again, perhaps with other grants than before."""
        self.last_used = now
        if caller is not self._speaker:
            self._speaker, self.caller = caller, replace(caller, session=self.id)

    def regrant(self, grants: Grants) -> None:
        """Let what comes next reach what the request may that brought it to another replica."""
        if grants != self.caller.grants:
            self._speaker = self.caller = replace(self.caller, grants=grants)

    @property
    def is_idle(self) -> bool:
        """Whether the client neither listens nor waits for anything."""
        return self.stream is None and not self.running

    def replace_stream(self, stream: StandingStream) -> None:
        """Take a new standing stream; the one before it ends."""
        self.end_stream()
        self.stream = stream
        owed, self.owed = self.owed, {}
        for method, params in owed.values():
            stream.tell(method, params)

    def lose_stream(self, stream: StandingStream) -> None:
        """The client closed a stream."""
        if self.stream is stream:
            self.stream = None

    def end_stream(self) -> None:
        """End the standing stream, if the client opened one."""
        if self.stream is not None:
            self.stream.end()
        self.stream = None

    def close(self) -> None:
        """End the stream, whatever still runs, and the questions nobody will answer."""
        self.end_stream()
        for cancel in list(self.running.values()):
            cancel()
        self.questions.close()
        if self.news is not None:
            self.news.close()


def _nothing(session: McpSession) -> None:
    """The default listener: does nothing."""
    del session


class McpSessions:
    """All sessions, bounded in number and in idle time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._by_id: dict[str, McpSession] = {}
        self._by_key: dict[str, McpSession] = {}
        self._clock = clock
        self._touched = clock()
        self.on_ended: Callable[[McpSession], None] = _nothing
        """Told of each session that is over."""
        self.on_dismissed: Callable[[McpSession], None] = _nothing
        """Told of sessions that a person ended, here or wherever else they are known."""

    def open(self, asker: Asker, caller: Caller) -> McpSession | None:
        """A new session, in the place of the longest idle one if need be; ``None`` when all are in use."""
        return self.adopt("", asker, caller)

    def adopt(self, session_id: str, asker: Asker, caller: Caller, age_s: float = 0.0) -> McpSession | None:
        """A session with an id that its client has already."""
        if len(self._by_id) >= SESSIONS_MAX and not self._make_room(caller):
            return None
        session = McpSession(asker, caller, self._clock(), session_id)
        session.opened -= age_s
        self._by_id[session.id] = self._by_key[session.key] = session
        return session

    def by_key(self, key: str) -> McpSession | None:
        """The session that others know by that key."""
        return self._by_key.get(key)

    def used_keys(self, *, whole: bool) -> list[str]:
        """The keys of all, or of those that were in use since this was last asked."""
        since, self._touched = self._touched, self._clock()
        used = (session for session in self._by_id.values() if session.last_used >= since or not session.is_idle)
        return [session.key for session in (self._by_id.values() if whole else used)]

    def _make_room(self, caller: Caller) -> bool:
        """End the longest idle session, one of the caller's own before those of others."""
        idle = (session for session in self._by_id.values() if session.is_idle)
        longest = min(idle, key=lambda session: (session.caller.id != caller.id, session.last_used), default=None)
        if longest is not None:
            self.end(longest)
        return longest is not None

    def find(self, session_id: bytes, caller: Caller) -> McpSession | None:
        """The session of that id, only for the caller that opened it."""
        session = self._by_id.get(session_id.decode("latin-1"))
        if session is None or session.caller.id != caller.id:
            return None
        session.hear(caller, self._clock())
        return session

    def end(self, session: McpSession) -> None:
        """Forget a session."""
        self._by_id.pop(session.id, None)
        self._by_key.pop(session.key, None)
        session.close()
        self.on_ended(session)

    def _dismiss(self, session: McpSession) -> None:
        self.end(session)
        self.on_dismissed(session)

    def sweep(self, is_current: Callable[[Caller], bool]) -> None:
        """End sessions that idle for too long, and those whose caller may not come in any more."""
        oldest = self._clock() - IDLE_S
        for session in list(self._by_id.values()):
            if (session.last_used < oldest and session.is_idle) or not is_current(session.caller):
                self.end(session)

    def stays(self) -> list[Stay]:
        """All sessions for display, under other ids: the real ones are credentials."""
        return [_stay(session, self._clock(), partial(self._dismiss, session)) for session in self._by_id.values()]

    def tell_changed(self, notices: list[str]) -> None:
        """Tell all of changed lists, those without a stream at their next chance."""
        for session in self._by_id.values():
            for method in notices:
                session.tell_changed(method)

    def streams(self) -> list[StandingStream]:
        """The standing streams of all sessions."""
        return [session.stream for session in self._by_id.values() if session.stream is not None]

    def end_streams(self) -> None:
        """End the standing streams of all sessions."""
        for session in self._by_id.values():
            session.end_stream()

    def close(self) -> None:
        """End all."""
        for session in list(self._by_id.values()):
            self.end(session)


@dataclass(frozen=True, slots=True)
class Listener:
    """A client without a session that has a stream open to hear of changes."""

    request_id: RequestId
    asker: Asker
    caller: Caller
    opened: float
    key: str = field(default_factory=lambda: secrets.token_hex(16))
    news: ClientNews | None = None
    """The resources it wants to hear of."""

    def stay(self, now: float, end: Callable[[], None]) -> Stay:
        """How it looks to people; while it listens it is not idle."""
        return Stay(
            public_id(self.key), client_name(self.asker), self.asker.version, self.caller, now - self.opened, 0, end
        )


def _stay(session: McpSession, now: float, end: Callable[[], None]) -> Stay:
    idle_s = now - session.last_used if session.is_idle else 0.0
    asker, age_s = session.asker, now - session.opened
    return Stay(public_id(session.id), client_name(asker), asker.version, session.caller, age_s, idle_s, end)


def public_id(secret: str) -> str:
    """An id for display, derived from the secret one."""
    return f"mcp-{hashlib.sha256(secret.encode()).hexdigest()[:16]}"


def client_name(asker: Asker) -> str:
    """What a client calls itself."""
    info = asker.info if isinstance(asker.info, Mapping) else {}
    return " ".join(str(info[key])[:NAME_MAX] for key in ("name", "version") if info.get(key))
