"""The places of one server: a counter while there are any free, then a queue that is fair between callers."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress

from toolcrib.core.errors import RateLimited
from toolcrib.core.limits import Rate, retry_after_s, try_again
from toolcrib.core.requests import Request

PACE_UNKNOWN_S = 1.0
RETRY_MAX_S = 60.0
SMOOTHING = 0.2

Line = OrderedDict["asyncio.Future[None]", str]
"""What waits, in order, and the name it was called by."""


class Gate:
    """Whoever finds ``busy`` below ``places`` adds one and goes in, everybody else waits; whoever comes out takes one
    off and calls ``admit`` if somebody waits. (Written out where it is done: it is done for every call.)

    While somebody waits no place is free, so that nobody can walk past the queue. A place that is given up goes round
    robin to the callers that wait, and within one caller to the call that came first.
    """

    __slots__ = ("_clock", "_lines", "_moved_at", "_pace_s", "_queue_max", "busy", "place", "places", "waiting")

    def __init__(self, place: str, places: int, queue_max: int, clock: Callable[[], float]) -> None:
        self.place, self.places = place, places
        self.busy = self.waiting = 0
        self._queue_max, self._clock = queue_max, clock
        self._lines: OrderedDict[str, Line] = OrderedDict()
        self._moved_at = 0.0
        self._pace_s = 0.0

    def resize(self, places: int) -> None:
        """Have another number of places from now on; who is in stays in."""
        self.places = places
        self.admit()

    def admit(self) -> None:
        """Give the places that are free to those who wait."""
        while self.waiting and self.busy < self.places:
            future = self._next()
            if not future.done():
                self.busy += 1
                self._note_pace()
                future.set_result(None)

    async def wait(self, call: Request) -> None:
        """Wait for a place until there is one; a cancelled wait leaves no trace."""
        self._make_room(call)
        caller, began = call.caller.id, self._clock()
        future = self._join(call, began)
        context, live = call.context, call.context.live
        context.waits_for = f"never ran: {self.place} had no place for it"
        if live is not None:
            live.begin("queue")
        try:
            await future
        except BaseException:
            self._step_out(caller, future)
            raise
        context.waits_for = ""
        context.waited_s += self._clock() - began
        if live is not None:
            live.end("queue")

    def check_room(self, call: Request) -> None:
        """Refuse a call for which there is neither a place nor room in the queue."""
        if self.busy >= self.places and self.waiting >= self._queue_max and self._longer_line(call.caller.id) is None:
            raise self._refusal(call.name)

    def _make_room(self, call: Request) -> None:
        """A full queue takes a caller's call only in place of one of somebody who has more calls in it."""
        if self.waiting < self._queue_max:
            return
        longest = self._longer_line(call.caller.id)
        if longest is None:
            raise self._refusal(call.name)
        future, name = self._lines[longest].popitem()
        if not future.done():
            future.set_exception(self._refusal(name))
        self.waiting -= 1

    def _longer_line(self, caller: str) -> str | None:
        """The caller with the most calls in the queue, if that is at least two more than this one has."""
        longest = max(self._lines, key=lambda name: len(self._lines[name]), default=None)
        own = len(self._lines.get(caller, ()))
        return longest if longest is not None and len(self._lines[longest]) > own + 1 else None

    def _refusal(self, name: str) -> RateLimited:
        wait_s = self._retry_in_s()
        return RateLimited(
            f"{name} was refused: {self.place} has {self.busy} calls under way and {self.waiting} waiting, "
            "which is all it may have.",
            hint=try_again(wait_s),
            details={"limit": "parallel", "retry_after_s": retry_after_s(wait_s)},
        )

    def _retry_in_s(self) -> float:
        """How long the queue takes to empty at the pace it has lately moved."""
        pace_s = max(self._pace_s, self._clock() - self._moved_at) if self._pace_s else PACE_UNKNOWN_S
        return min(RETRY_MAX_S, max(PACE_UNKNOWN_S, pace_s * self.waiting))

    def _join(self, call: Request, now: float) -> "asyncio.Future[None]":
        if not self.waiting:
            self._moved_at = now
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lines.setdefault(call.caller.id, OrderedDict())[future] = call.name
        self.waiting += 1
        return future

    def _step_out(self, caller: str, future: "asyncio.Future[None]") -> None:
        """Out of the queue; a place that was given in the very moment the wait was cancelled goes to the next."""
        line = self._lines.get(caller)
        if line is not None and future in line:
            del line[future]
            self.waiting -= 1
            if not line:
                del self._lines[caller]
        elif future.done() and not future.cancelled() and future.exception() is None:
            self.busy -= 1
            self.admit()

    def _next(self) -> "asyncio.Future[None]":
        """The first call of the caller whose turn it is; its next one has to wait for the others' turns."""
        caller, line = next(iter(self._lines.items()))
        future, _ = line.popitem(last=False)
        self.waiting -= 1
        if line:
            self._lines.move_to_end(caller)
        else:
            del self._lines[caller]
        return future

    def _note_pace(self) -> None:
        now = self._clock()
        self._pace_s += SMOOTHING * (now - self._moved_at - self._pace_s)
        self._moved_at = now


KEYS_MAX = 4096


class MovingWindow:
    """The latest uses under one rate. Only the last ``count`` of them can matter, so only these are kept."""

    __slots__ = ("_uses", "rate")

    def __init__(self, rate: Rate) -> None:
        self.rate = rate
        self._uses: deque[float] = deque(maxlen=rate.count)

    def wait_s(self, now: float) -> float:
        """How long until one more use is within the rate; zero if it is now."""
        uses, rate = self._uses, self.rate
        if len(uses) < rate.count:
            return 0.0
        return max(0.0, uses[0] + rate.window_s - now)

    def left(self, now: float) -> int:
        """How many more uses are within the rate now."""
        return self.rate.count - sum(1 for used in self._uses if used + self.rate.window_s > now)

    def use(self, now: float) -> None:
        """Count one use; asking first is the caller's part."""
        self._uses.append(now)

    def take_back(self, at: float) -> None:
        """Forget one use of that moment: what it was counted for did not happen then."""
        with suppress(ValueError):  # it is so long ago that it does not count any more
            self._uses.remove(at)

    def idle_in_s(self, now: float) -> float:
        """How long until nothing that was counted matters any more."""
        return max(0.0, self._uses[-1] + self.rate.window_s - now) if self._uses else 0.0

    def change(self, rate: Rate) -> None:
        """Go by another rate from now on; what was counted stays counted."""
        if rate != self.rate:
            self.rate, self._uses = rate, deque(self._uses, maxlen=rate.count)


class RateWindows:
    """One window for each key, for a bounded number of keys: those in use are kept, idle ones make room."""

    def __init__(self, rate: Rate, keys_max: int = KEYS_MAX) -> None:
        self.rate = rate
        self._keys_max = keys_max
        self._windows: OrderedDict[Hashable, MovingWindow] = OrderedDict()

    def __len__(self) -> int:
        return len(self._windows)

    def of(self, key: Hashable, now: float) -> MovingWindow | None:
        """The window of a key; ``None`` while all places are taken by others that still count."""
        window = self._windows.get(key)
        if window is None:
            self._drop_idle(now)
            if len(self._windows) >= self._keys_max:
                return None
            window = self._windows[key] = MovingWindow(self.rate)
        self._windows.move_to_end(key)
        return window

    def room_in_s(self, now: float) -> float:
        """How long until a place is free for another key; some are taken."""
        return next(iter(self._windows.values())).idle_in_s(now)

    def _drop_idle(self, now: float) -> None:
        while self._windows and self.room_in_s(now) == 0:
            self._windows.popitem(last=False)


def use_all(windows: Sequence[MovingWindow], now: float) -> MovingWindow | None:
    """Count one use in every window, or in none: then the one that takes longest to have a place is returned."""
    longest_s, full = 0.0, None
    for window in windows:
        wait_s = window.wait_s(now)
        if wait_s > longest_s:
            longest_s, full = wait_s, window
    if full is None:
        for window in windows:
            window.use(now)
    return full
