"""Sessions of handshake-era clients over HTTP: what must be remembered between their requests."""

import secrets
from collections.abc import Callable

from toolcrib.doors.mcp.questions import Questions
from toolcrib.transports.http_server import Exchange
from toolcrib.wire.jsonrpc import RequestId
from toolcrib.wire.server import Asker
from toolcrib.wire.sse import encode_event

SESSIONS_MAX = 10_000
IDLE_S = 1800.0


class Session:
    """One client between ``initialize`` and DELETE."""

    __slots__ = ("asker", "caller_id", "id", "last_used", "questions", "running", "stream")

    def __init__(self, asker: Asker, caller_id: str, now: float) -> None:
        self.id = secrets.token_urlsafe(24)
        self.asker, self.caller_id, self.last_used = asker, caller_id, now
        self.questions = Questions()
        self.running: dict[RequestId, Callable[[], None]] = {}
        """How to call off each request that is being worked on."""
        self.stream: Exchange | None = None

    def tell(self, message: bytes) -> None:
        """Send a message on the client's standing stream, if it opened one."""
        if self.stream is not None and self.stream.streaming:
            self.stream.write(encode_event(message))

    def end_stream(self) -> None:
        """End the standing stream, if the client opened one."""
        if self.stream is not None and self.stream.streaming:
            self.stream.end()
        self.stream = None

    def close(self) -> None:
        """End the stream and whatever still runs."""
        self.end_stream()
        for cancel in list(self.running.values()):
            cancel()


class Sessions:
    """All sessions, bounded in number and in idle time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._by_id: dict[str, Session] = {}
        self._clock = clock

    def open(self, asker: Asker, caller_id: str) -> Session | None:
        """A new session, ``None`` when there are too many."""
        if len(self._by_id) >= SESSIONS_MAX:
            self.sweep()
        if len(self._by_id) >= SESSIONS_MAX:
            return None
        session = Session(asker, caller_id, self._clock())
        self._by_id[session.id] = session
        return session

    def find(self, session_id: bytes, caller_id: str) -> Session | None:
        """The session of that id, only for the caller that opened it."""
        session = self._by_id.get(session_id.decode("latin-1"))
        if session is None or session.caller_id != caller_id:
            return None
        session.last_used = self._clock()
        return session

    def end(self, session: Session) -> None:
        """Forget a session."""
        self._by_id.pop(session.id, None)
        session.close()

    def sweep(self) -> None:
        """End sessions that idle for too long."""
        oldest = self._clock() - IDLE_S
        for session in list(self._by_id.values()):
            if session.last_used < oldest and session.stream is None and not session.running:
                self.end(session)

    def tell_all(self, message: bytes) -> None:
        """Send a message to every client that listens."""
        for session in self._by_id.values():
            session.tell(message)

    def end_streams(self) -> None:
        """End the standing streams of all sessions."""
        for session in self._by_id.values():
            session.end_stream()

    def close(self) -> None:
        """End all."""
        for session in list(self._by_id.values()):
            self.end(session)
