"""The course of the last hour: the tallies, looked at every ten seconds. Calls themselves are not slowed down by it."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from toolcrib.calls.metrics import Metrics

EVERY_S = 10.0
KEPT_S = 3600.0
MINUTES = 60


@dataclass(frozen=True, slots=True)
class Sample:
    """The sums at one moment."""

    at: float
    executed: int
    failed: int


@dataclass(frozen=True, slots=True)
class Hour:
    """Calls of the last sixty minutes, oldest first."""

    fine: tuple[int, ...]
    failed: tuple[int, ...]

    @property
    def calls(self) -> int:
        """How many there were."""
        return sum(self.fine) + sum(self.failed)

    @property
    def errors(self) -> int:
        """How many of them failed."""
        return sum(self.failed)


@dataclass(slots=True)
class Samples:
    """A ring of samples."""

    metrics: Metrics
    now: Callable[[], float] = time.monotonic
    _kept: deque[Sample] = field(default_factory=lambda: deque(maxlen=int(KEPT_S / EVERY_S) + 1))

    def take(self) -> None:
        """Look at the tallies once."""
        self._kept.append(self._sample())

    async def run(self) -> None:
        """Look at them until somebody ends this."""
        while True:
            self.take()
            await asyncio.sleep(EVERY_S)

    def hour(self) -> Hour:
        """What came in each minute of the last hour, up to this moment."""
        fine, failed = [0] * MINUTES, [0] * MINUTES
        seen = [*self._kept, self._sample()]
        now = seen[-1].at
        for before, after in pairwise(seen):
            place = MINUTES - 1 - int((now - after.at) // 60)
            if place >= 0:
                failed[place] += after.failed - before.failed
                fine[place] += (after.executed - before.executed) - (after.failed - before.failed)
        return Hour(tuple(fine), tuple(failed))

    def _sample(self) -> Sample:
        tallies = self.metrics.tools.values()
        return Sample(self.now(), sum(t.executed for t in tallies), sum(t.failed for t in tallies))
