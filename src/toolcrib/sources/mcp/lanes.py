"""The processes or sessions of one server that not all callers share: one for each caller, or each session of a client.

Each is a ``Supervisor`` of its own. They are opened when they are needed, limited in number, and closed when they idle,
when their session ends, or when somebody else needs the room.
"""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from toolcrib.config.model import ServerConfig
from toolcrib.config.sharing import lanes_of, sharing_of
from toolcrib.core.access import Caller
from toolcrib.core.errors import RateLimited
from toolcrib.core.kinds import LinkState, Share
from toolcrib.core.limits import retry_after_s, try_again
from toolcrib.core.source import MAIN_LANE, Lane, LaneStatus, SourceStatus
from toolcrib.core.tasks import TaskScope
from toolcrib.sources.mcp.supervise import Supervisor
from toolcrib.wire import eras

KEPT_S = 15.0
"""A lane that was used this lately is in use: whoever works in it is only thinking."""
ROOTS_PAUSE_S = 0.1
RETRY_S = 1.0
"""When to try again if all lanes are busy, and nobody can tell for how long."""


@dataclass(frozen=True, slots=True)
class LaneLimits:
    """How many lanes there may be, and how long one may idle."""

    most: int = 8
    idle_timeout_s: float = 600.0

    @property
    def most_of_one(self) -> int:
        """How many a single caller may have, so that some are left for others."""
        return self.most - self.most // 4


Ready = Callable[[], Awaitable[None]]
MakeLane = Callable[[Lane, Ready], Supervisor]
"""Makes the supervisor of a lane, which waits for what it is given before each attempt to connect."""


class Lanes:
    """The lanes of one server, by whose they are."""

    def __init__(self, server: ServerConfig, make: MakeLane) -> None:
        self.server = server.name
        self._config, self._make = server, make
        self.limits = LaneLimits(lanes_of(server), server.idle_timeout_s)
        self.asks = False
        """Whether the server asked something while several callers shared it."""
        self.sharing = sharing_of(server)
        """Who shares the server, and why."""
        self._loop = asyncio.get_running_loop()
        self._open: dict[Lane, Supervisor] = {}
        self._touched: dict[Lane, float] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._owed_roots: set[Lane] = set()
        """Where it is about to be told that a client's roots changed."""
        self._tasks = TaskScope(self._failed)
        self._sweeper: asyncio.TimerHandle | None = None
        self.prepare: Callable[[Lane, Supervisor], None] = _leave
        """Gives a new lane what the source wants to hear from it, and what is known of the server."""

    def note_asking(self) -> None:
        """The server asked something while several callers shared it."""
        self.asks = True
        self.sharing = sharing_of(self._config, asks=True)

    def lane_of(self, caller: Caller) -> Lane:
        """Whose lane a caller uses; clients without a session use the one of their caller."""
        return Lane(caller.id, caller.session if self.sharing.share is Share.SESSION else "")

    def of(self, caller: Caller) -> Supervisor:
        """The lane of a caller, opened if there is none."""
        return self.need(self.lane_of(caller))

    def need(self, lane: Lane) -> Supervisor:
        """The lane, opened if there is none; refused if there is no room for it."""
        found = self._open.get(lane)
        if found is None:
            self._make_room(lane.caller)
            found = self._open[lane] = self._make(lane, self._wait_for_room)
            self.prepare(lane, found)
            self._sweep_later(self.limits.idle_timeout_s)
        self._touched[lane] = self._loop.time()
        return found

    def _make_room(self, caller: str) -> None:
        """Close the lane that was longest idle, of whoever has most of them, if there are as many as there may be."""
        held = Counter(lane.caller for lane in self._open)
        is_own = held[caller] >= self.limits.most_of_one
        if not is_own and len(self._open) < self.limits.most:
            return
        near = [lane for lane in self._open if lane.caller == caller or not is_own]
        idle = [lane for lane in near if self._open[lane].is_idle and self._idle_s(lane) >= KEPT_S]
        if not idle:
            raise self._refusal(near, held[caller] if is_own else 0)
        self._retire(min(idle, key=lambda lane: (-held[lane.caller], -self._idle_s(lane))))

    def _refusal(self, near: list[Lane], own: int) -> RateLimited:
        waits = [KEPT_S - self._idle_s(lane) for lane in near if self._open[lane].is_idle]
        wait_s = max(RETRY_S, min(waits, default=RETRY_S))
        whose = f"this caller has {own} of them, the most that one may have" if own else "all of them are in use"
        return RateLimited(
            f"Each caller or session has a process or session of its own on server {self.server!r}, and {whose}.",
            hint=f"{try_again(wait_s)} Or raise `lanes` of this server, which is {self.limits.most}.",
            details={"server": self.server, "limit": "lanes", "retry_after_s": retry_after_s(wait_s)},
        )

    async def _wait_for_room(self) -> None:
        """Before a lane connects: one that had to make room for it has ended, with all its processes."""
        while self._closing and len(self._open) + len(self._closing) > self.limits.most:
            await asyncio.wait(self._closing, return_when=asyncio.FIRST_COMPLETED)

    def _idle_s(self, lane: Lane) -> float:
        return self._loop.time() - max(self._touched[lane], self._open[lane].last_used)

    def _retire(self, lane: Lane) -> None:
        """Forget a lane, and have it closed."""
        self._touched.pop(lane, None)
        task = self._tasks.spawn(self._open.pop(lane).close(), f"close-lane-{self.server}")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def end_session(self, session: str) -> None:
        """Close what only this session used."""
        for lane in [lane for lane in self._open if session and lane.session == session]:
            self._retire(lane)

    def _sweep_later(self, wait_s: float) -> None:
        if self.limits.idle_timeout_s > 0 and self._sweeper is None:
            self._sweeper = self._loop.call_later(wait_s, self._sweep)

    def _sweep(self) -> None:
        """Close the lanes that nobody has used for long."""
        self._sweeper = None
        limit_s = self.limits.idle_timeout_s
        for lane, supervisor in list(self._open.items()):
            if supervisor.is_idle and self._idle_s(lane) >= limit_s:
                self._retire(lane)
        if self._open:
            self._sweep_later(max(1.0, limit_s - max(map(self._idle_s, self._open))))

    async def watch(self, lane: Lane, uris: frozenset[str]) -> None:
        """Be told of these resources in a lane; one that is gone has nothing to forget."""
        if uris or lane in self._open:
            await self.need(lane).watch(uris)

    def turn_to_handshake(self) -> None:
        """Speak the handshake era in all of them."""
        for supervisor in self._open.values():
            supervisor.turn_to_handshake()

    def roots_changed(self, main: Supervisor, lane: Lane) -> None:
        """Tell a server of the handshake era that a client's roots changed, soon and once for many changes."""
        if "roots" in self._config.relay and lane not in self._owed_roots:
            self._owed_roots.add(lane)
            self._loop.call_later(ROOTS_PAUSE_S, self._tell_roots, main, lane)

    def _tell_roots(self, main: Supervisor, lane: Lane) -> None:
        self._owed_roots.discard(lane)
        supervisor = main if lane == MAIN_LANE else self._open.get(lane)
        link = supervisor.use() if supervisor is not None else None
        if supervisor is not None and link is not None and not eras.is_modern(supervisor.remembered):
            link.tell("notifications/roots/list_changed", b"{}")

    def forgive(self) -> None:
        """Try again at the next need, in all of them."""
        for supervisor in self._open.values():
            supervisor.forgive()

    def status(self, main: SourceStatus) -> SourceStatus:
        """How the server is doing: its main lane, and the others, the one that was used last first."""
        sharing = self.sharing
        opened = tuple(self._status_of(lane, self._open[lane]) for lane in sorted(self._open, key=self._idle_s))
        is_used = main.state is LinkState.IDLE and any(lane.state is LinkState.CONNECTED for lane in opened)
        return replace(
            main,
            state=LinkState.CONNECTED if is_used else main.state,
            restarts=main.restarts + sum(lane.restarts for lane in opened),
            share=sharing.share,
            share_reason=sharing.reason,
            lanes=opened,
            lanes_max=0 if sharing.share is Share.ALL else self.limits.most,
        )

    def _status_of(self, lane: Lane, supervisor: Supervisor) -> LaneStatus:
        now = supervisor.status()
        idle_s = self._idle_s(lane) if supervisor.is_idle else 0.0
        return LaneStatus(lane.caller, shown_session(lane), now.state, now.pid, now.restarts, idle_s, now.error)

    def log_lines(self, count: int) -> list[str]:
        """The last lines that each wrote to stderr, with whose lane it was."""
        return [
            f"[{lane.caller}] {supervisor.hide_secrets(line)}"
            for lane, supervisor in self._open.items()
            for line in list(supervisor.remains().stderr)[-count:]
        ]

    async def close(self) -> None:
        """Close all of them."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        supervisors, self._open = list(self._open.values()), {}
        await asyncio.gather(*(supervisor.close() for supervisor in supervisors), *self._closing)
        await self._tasks.close()

    def _failed(self, name: str, error: BaseException) -> None:
        """Nothing: the supervisor has told of it."""


def shown_session(lane: Lane) -> str:
    """What the lanes of one caller can be told apart by: the ids of sessions are credentials."""
    return hashlib.sha256(lane.session.encode()).hexdigest()[:8] if lane.session else ""


def _leave(lane: Lane, supervisor: Supervisor) -> None:
    """The default preparation: none."""
