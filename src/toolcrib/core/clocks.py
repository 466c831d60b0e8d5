"""Clocks: how much time passed is told by one that only runs on, what time it is by one that people may set.

The wall clock jumps: somebody sets it, a time server corrects it, a machine starts in 1970. Durations never go by it.
Where something ends at a moment, ``Moments`` sees to it that it does not begin again because the clock was set back.
"""

import time
from collections.abc import Callable

Clock = Callable[[], float]

DRIFT_S = 1.0
"""By how much a wall clock may be corrected without that being a jump."""
BELIEVED_S = 600.0
"""How long a wall clock must have been ahead before it counts as right."""


def elapsed() -> float:
    """Seconds that only run on, also while the machine sleeps, where the system can tell."""
    return time.monotonic() if _BOOT is None else time.clock_gettime(_BOOT)


_BOOT: int | None = getattr(time, "CLOCK_BOOTTIME", None)


class Moments:
    """The time of the wall clock, but never earlier than it was once and the time that passed since.

    A clock that is set forward is believed at once: what ends by then has ended. If it is set right again soon, that
    was a mistake and is forgotten; otherwise nothing would ever be valid again.
    """

    def __init__(self, wall: Clock = time.time, steady: Clock = elapsed) -> None:
        self._wall, self._steady = wall, steady
        self._offset = wall() - steady()
        """What the wall clock is ahead of the steady one, as far as it is believed for good."""
        self._jump: tuple[float, float] | None = None
        """An offset that is greater, and since when it is seen."""

    def __call__(self) -> float:
        """Seconds since 1970."""
        steady = self._steady()
        offset = self._wall() - steady
        if offset - self._offset > DRIFT_S:
            self._weigh(offset, steady)
            return steady + offset
        self._jump = None
        self._offset = max(self._offset, offset)
        return steady + self._offset

    def _weigh(self, offset: float, steady: float) -> None:
        """Believe an offset for good once it, or a greater one, has lasted."""
        first, since = self._jump or (offset, steady)
        if offset < first - DRIFT_S:
            first, since = offset, steady
        self._jump = first, since
        if steady - since >= BELIEVED_S:
            self._offset, self._jump = first, None
