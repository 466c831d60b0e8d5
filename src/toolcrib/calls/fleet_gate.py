"""The places of one server when all replicas share them: the queue is this replica's own, the places are not."""

import asyncio
from collections import deque
from collections.abc import Callable

from toolcrib.calls.gate import Gate
from toolcrib.core.call import ToolCall
from toolcrib.core.coordination import Coordination
from toolcrib.core.errors import CoordinationUnavailable

ASK_AGAIN_S = 1.0
PASS_ON_S = 0.1
"""How long a place may go from hand to hand within a replica before the others have their turn."""


class FleetGate(Gate):
    """A gate whose ``places`` are the tickets this replica holds at the moment.

    Whoever finds nobody waiting asks the fleet itself. Everybody else waits in the fair queue of this replica, for
    which one task stands in the line of the fleet; it lives for as long as somebody waits.
    """

    __slots__ = ("_fleet", "_name", "_runner", "_tickets", "most")

    def __init__(self, fleet: Coordination, server: str, most: int, queue_max: int, clock: Callable[[], float]) -> None:
        super().__init__(f"server {server!r}", 0, queue_max, clock)
        self.most = most
        self._fleet, self._name = fleet, f"server {server}"
        self._tickets: deque[tuple[str, float]] = deque()
        self._runner: asyncio.Task[None] | None = None

    def resize(self, places: int) -> None:
        """Have another number of places over all replicas from now on; who is in stays in."""
        self.most = places

    def check_room(self, call: ToolCall) -> None:
        """Refuse a call for which there is no room in the queue, if it would have to join it."""
        if self.waiting >= max(1, self._queue_max) and self._longer_line(call.caller.id) is None:
            raise self._refusal(call.name)

    async def enter(self, call: ToolCall) -> None:
        """Take a place, at once or after waiting for it."""
        if not self.waiting:
            ticket = await self._fleet.take_place(self._name, self.most)
            if ticket is not None:
                self._hold(ticket)
                self.busy += 1
                return
        if self._runner is None:
            self._runner = asyncio.get_running_loop().create_task(self._run(), name=f"places of {self.place}")
        await self.wait(call)

    def leave(self) -> None:
        """Pass a place on to the next who waits here, or give it back; never waits."""
        self.busy -= 1
        if self.waiting and self._clock() - self._tickets[0][1] < PASS_ON_S:
            self.admit()
        self._return_spare()

    async def _run(self) -> None:
        """Bring tickets to those who wait, until nobody does."""
        try:
            while self.waiting:
                ticket = await self._fleet.take_place(self._name, self.most)
                if ticket is None:
                    await self._fleet.on_free(self._name, ASK_AGAIN_S)
                else:
                    self._hold(ticket)
                    self.admit()
                    self._return_spare()
        except CoordinationUnavailable as error:
            self._refuse_all(error)
        finally:
            if self._runner is asyncio.current_task():
                self._runner = None

    def _hold(self, ticket: str) -> None:
        self._tickets.append((ticket, self._clock()))
        self.places += 1

    def _return_spare(self) -> None:
        while self.places > self.busy:
            self.places -= 1
            self._fleet.give_back(self._name, self._tickets.popleft()[0])

    def _refuse_all(self, error: CoordinationUnavailable) -> None:
        while self.waiting:
            future = self._next()
            if not future.done():
                future.set_exception(CoordinationUnavailable(error.message, hint=error.hint, details=error.details))

    def _step_out(self, caller: str, future: "asyncio.Future[None]") -> None:
        super()._step_out(caller, future)
        self._return_spare()
        if not self.waiting and self._runner is not None:
            self._runner.cancel()
            self._runner = None
