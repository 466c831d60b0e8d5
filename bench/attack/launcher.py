"""``python launcher.py STALLS_FILE toolcrib-arguments...``: toolcrib as it is, with a meter in its event loop.

The meter notes how long the loop did not turn although its thread had a processor: time spent waiting for one is the
machine's, not toolcrib's.
"""

import asyncio
import ctypes
import signal
import sys
from pathlib import Path

import uvloop

PR_SET_PDEATHSIG = 1
TICK_S = 0.005
WORTH_A_LOOK_S = 0.01


class StallMeter:
    """Writes down each longest gap, as milliseconds, when it happens; starts anew when the file is taken away."""

    def __init__(self, loop: asyncio.AbstractEventLoop, file: Path) -> None:
        self._loop, self._file, self._longest_s = loop, file, 0.0
        self._at, self._waited_s = loop.time(), waited_for_processor_s()
        loop.call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        at, waited_s = self._loop.time(), waited_for_processor_s()
        gap_s = at - self._at - TICK_S - (waited_s - self._waited_s)
        self._at, self._waited_s = at, waited_s
        if gap_s > WORTH_A_LOOK_S and not self._file.exists():
            self._longest_s = 0.0
        if gap_s > max(self._longest_s, WORTH_A_LOOK_S):
            self._longest_s = gap_s
            self._file.write_text(f"{gap_s * 1000:.1f}")
        self._loop.call_later(TICK_S, self._tick)


def waited_for_processor_s() -> float:
    """How long this thread was ready to run while others did."""
    return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9


def main() -> int:
    """Run toolcrib with the meter in every loop it makes; it ends with whoever attacks it, even if that is killed."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    file = Path(sys.argv[1])
    make = uvloop.new_event_loop

    def metered() -> asyncio.AbstractEventLoop:
        loop = make()
        loop.call_soon(lambda: StallMeter(loop, file))
        return loop

    uvloop.new_event_loop = metered
    sys.argv = ["toolcrib", *sys.argv[2:]]
    from toolcrib.__main__ import main as run

    return run() or 0


if __name__ == "__main__":
    raise SystemExit(main())
