"""How much of something may be used, as values; and how it is told when there is more."""

import math
from dataclasses import dataclass

_UNITS = (("d", 86400.0), ("h", 3600.0), ("m", 60.0), ("s", 1.0))


@dataclass(frozen=True, slots=True)
class Rate:
    """At most ``count`` calls in any stretch of ``window_s`` seconds, wherever it begins."""

    count: int
    window_s: float

    @property
    def window_words(self) -> str:
        """The window as it is written: ``1m``, ``500ms``."""
        for unit, seconds in _UNITS:
            if self.window_s % seconds == 0:
                return f"{self.window_s / seconds:.0f}{unit}"
        return f"{self.window_s * 1000:g}ms"

    def __str__(self) -> str:
        return f"{self.count}/{self.window_words}"


@dataclass(frozen=True, slots=True)
class ToolLimits:
    """What the configuration allows of one tool; ``None`` leaves it to what holds for all."""

    rate: Rate | None = None
    server_rate: Rate | None = None
    """What all tools of its server may be called together."""
    parallel: int | None = None
    """How many calls may run on its server at once."""


UNLIMITED = ToolLimits()


@dataclass(frozen=True, slots=True)
class CommonLimits:
    """What holds for all callers and for every server that nothing else is said of."""

    caller_rate: Rate | None = None
    """What one caller may call over all tools."""
    parallel: int = 50
    """How many calls may run at once on one server, and among the native tools."""
    queue: int = 1000
    """How many calls may wait for one server."""


USUAL = CommonLimits()


def retry_after_s(wait_s: float) -> float:
    """A wait as it is told: tenths of a second, never too short, never nothing."""
    return max(1, math.ceil(wait_s * 10)) / 10


def try_again(wait_s: float) -> str:
    """The same in words."""
    told = f"{retry_after_s(wait_s):.1f}".removesuffix(".0")
    return f"Try again in {told} s."
