"""Moving windows: exact counts of what happened lately. Pure: the time comes in."""

from collections import OrderedDict, deque
from collections.abc import Hashable, Sequence
from contextlib import suppress

from toolcrib.core.limits import Rate

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


class Windows:
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
        """How long until a place is free for another key."""
        return next(iter(self._windows.values())).idle_in_s(now) if self._windows else 0.0

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
