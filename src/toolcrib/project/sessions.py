"""Sessions: agents at work in projects.

MCP clients have theirs by connecting. Others are opened over REST, in any project this user has run toolcrib in: a
project that is not the served one gets a Crib of its own, which all its sessions share and which ends with the last.
"""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar

from toolcrib.config.lock import timestamp
from toolcrib.core.access import Caller
from toolcrib.core.clocks import Clock, elapsed
from toolcrib.core.errors import CallerError, RateLimited
from toolcrib.core.events import Emit, Event, Stay
from toolcrib.core.tasks import TaskScope
from toolcrib.core.view import View
from toolcrib.project.known import ProjectPlace
from toolcrib.project.projects import Projects, Workplace, open_workplace

MOST_SESSIONS = 256
MOST_OF_ONE = 32
"""Of one caller, so that nobody takes all the places."""
MOST_PLACES = 8
IDLE_S = 1800.0
SWEEP_S = 30.0
ID_SHOWN = 64

Stays = Callable[[], Sequence[Stay]]
T = TypeVar("T")


def nobody() -> Sequence[Stay]:
    """Where no MCP clients are."""
    return ()


class UnknownSession(CallerError):
    """No session of that id is open."""

    code = "RESOURCE_NOT_FOUND"

    def __init__(self, session: str) -> None:
        super().__init__(f"There is no session {session[:ID_SHOWN]!r}.", hint="It may have ended: open a new one.")


class SessionElsewhere(CallerError):
    """The session was opened at another replica, and stays there."""

    code = "RESOURCE_NOT_FOUND"

    def __init__(self, session: str, there: str, here: str) -> None:
        super().__init__(
            f"Session {session[:ID_SHOWN]!r} was opened at replica {there[:ID_SHOWN]!r}; this is {here!r}.",
            hint="Sessions over REST stay at the replica that opened them: have the balancer send their requests there,"
            " or open a new one. Sessions of MCP clients go on at any replica.",
        )


class ProjectRef(View):
    """The project a session works in."""

    id: str
    name: str


class SessionSummary(View):
    """One agent at work."""

    id: str
    name: str
    kind: Literal["mcp", "rest"]
    """How it came: an MCP client, or opened over REST."""
    project: ProjectRef
    caller: str
    era: str | None
    """The protocol revision of an MCP client."""
    opened_at: str
    last_used: str


@dataclass(slots=True)
class AgentSession:
    """One agent at work."""

    id: str
    name: str
    caller: Caller
    workplace: Workplace
    opened_at: float
    last_used: float
    idle_since: float
    """As ``last_used``, by a clock that nobody sets."""
    since: int = 0
    """Up to where the journal was written when it began."""
    stay: Stay | None = None
    """The MCP client whose session it is; ``None`` for one that was opened over REST."""
    running: int = field(default=0)

    @property
    def kind(self) -> Literal["mcp", "rest"]:
        """How it came."""
        return "rest" if self.stay is None else "mcp"

    def view(self) -> SessionSummary:
        """What can be seen of it."""
        place = self.workplace.place
        return SessionSummary(
            id=self.id,
            name=self.name,
            kind=self.kind,
            project=ProjectRef(place.id, place.name),
            caller=self.caller.id,
            era=self.stay.era if self.stay is not None else None,
            opened_at=_shown(self.opened_at),
            last_used=_shown(self.last_used),
        )


class AgentSessions:
    """All sessions, bounded in number and in idle time."""

    def __init__(
        self,
        projects: Projects,
        emit: Emit,
        stays: Stays = nobody,
        now: Clock = time.time,
        steady: Clock = elapsed,
        replica: str = "",
    ) -> None:
        """Where there are several replicas, ids say at which one a session is."""
        self.projects = projects
        self._replica = replica
        self._emit, self._stays, self._now, self._steady = emit, stays, now, steady
        self._here = Workplace(projects.place, projects.served)
        self._elsewhere: dict[str, Workplace] = {}
        self._by_id: dict[str, AgentSession] = {}
        self._turn = asyncio.Lock()
        self._tasks = TaskScope(lambda name, error: emit(Event(f"{name}.failed", "error", {"error": repr(error)})))
        self._unbroken: set[asyncio.Task[Any]] = set()
        """Openings and closings, which nobody's going away may cut short."""

    def start(self) -> None:
        """Begin to end sessions that nobody uses."""
        self._tasks.spawn(self._sweep_again_and_again(), "sessions.sweep")

    async def _sweep_again_and_again(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            await self.sweep()

    # Looking on

    def all(self) -> list[AgentSession]:
        """Those opened here, then those of MCP clients."""
        return [*self._by_id.values(), *map(self._of_client, self._stays())]

    def find(self, session_id: str) -> AgentSession:
        """The session of that id."""
        found = self._by_id.get(session_id) or next((one for one in self.all() if one.id == session_id), None)
        if found is None:
            raise self._missing(session_id)
        return found

    def _missing(self, session_id: str) -> CallerError:
        there, separator, _ = session_id.removeprefix("s-").rpartition(".")
        if self._replica and separator and there != self._replica:
            return SessionElsewhere(session_id, there, self._replica)
        return UnknownSession(session_id)

    def _new_id(self) -> str:
        place = f"{self._replica}." if self._replica else ""
        return f"s-{place}{secrets.token_hex(12)}"

    def _of_client(self, stay: Stay) -> AgentSession:
        now = self._now()
        opened_at, last_used = now - stay.age_s, now - stay.idle_s
        idle_since = self._steady() - stay.idle_s
        return AgentSession(stay.id, stay.client, stay.caller, self._here, opened_at, last_used, idle_since, stay=stay)

    # Opening and ending

    async def open(self, place: ProjectPlace, name: str, caller: Caller) -> AgentSession:
        """Begin to work in a project; its servers are started in the background."""
        return await self._see_through(self._open(place, name, caller))

    async def _open(self, place: ProjectPlace, name: str, caller: Caller) -> AgentSession:
        async with self._turn:
            self._check_room(caller)
            workplace, now = await self._workplace(place), self._now()
            session = AgentSession(
                self._new_id(), name, caller, workplace, now, now, self._steady(), workplace.journal.last
            )
            session.caller = replace(caller, session=session.id)
            self._by_id[session.id] = session
        self._tasks.spawn(workplace.wake(), "session.start")
        return session

    def _check_room(self, caller: Caller) -> None:
        own = sum(1 for session in self._by_id.values() if session.caller.id == caller.id)
        if own >= MOST_OF_ONE or len(self._by_id) >= MOST_SESSIONS:
            whose = f"{own} sessions of yours" if own >= MOST_OF_ONE else f"{MOST_SESSIONS} sessions"
            raise RateLimited(f"{whose} are open.", hint="End one that is not needed any more.")

    async def _workplace(self, place: ProjectPlace) -> Workplace:
        if place.is_served:
            return self._here
        found = self._elsewhere.get(place.id)
        if found is None:
            if len(self._elsewhere) >= MOST_PLACES:
                raise RateLimited(f"{MOST_PLACES} other projects are open.", hint="End the sessions of one of them.")
            inbox = self.projects.served.crib.inbox
            found = await open_workplace(place, self.projects.builtin, inbox, self._emit)
            self._elsewhere[place.id] = found
        return found

    async def use(self, session_id: str) -> AgentSession:
        """The session of that id, noted as used, in a project that is up to date."""
        session = self.find(session_id)
        session.last_used, session.idle_since = self._now(), self._steady()
        await session.workplace.catch_up()
        return session

    async def end(self, session: AgentSession) -> None:
        """End a session; the last one of a project takes what was opened for it with it."""
        if session.stay is not None:
            session.stay.end()
        elif self._by_id.pop(session.id, None) is not None:
            session.workplace.crib.end_session(session.id)
            await self._see_through(self._close_unused())

    async def sweep(self) -> None:
        """End the sessions nobody has used for long."""
        oldest = self._steady() - IDLE_S
        for session in list(self._by_id.values()):
            if session.idle_since < oldest and not session.running:
                del self._by_id[session.id]
                session.workplace.crib.end_session(session.id)
        await self._see_through(self._close_unused())

    async def _close_unused(self) -> None:
        async with self._turn:
            used = {session.workplace.place.id for session in self._by_id.values()}
            unused = [self._elsewhere.pop(place_id) for place_id in self._elsewhere.keys() - used]
        await asyncio.gather(*(workplace.close() for workplace in unused))

    async def _see_through(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it to its end, whether the one who asked for it stays or not."""
        task = asyncio.ensure_future(work)
        self._unbroken.add(task)
        task.add_done_callback(self._unbroken.discard)
        return await asyncio.shield(task)

    async def close(self) -> None:
        """End all sessions and everything that was opened for them."""
        await self._tasks.close()
        await asyncio.gather(*self._unbroken, return_exceptions=True)
        self._by_id.clear()
        await self._close_unused()
        await self._here.close()


async def working(session: AgentSession, work: Awaitable[T]) -> T:
    """Do something in a session, which is not idle meanwhile."""
    session.running += 1
    try:
        return await work
    finally:
        session.running -= 1


def _shown(at: float) -> str:
    return timestamp(datetime.fromtimestamp(at, UTC))
