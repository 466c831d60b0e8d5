"""A clock that moves when it is told to."""


class ManualClock:
    """Called like ``time.perf_counter``; shows the same moment until it is advanced."""

    def __init__(self, now_s: float = 0.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        """The moment it shows."""
        return self.now_s

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now_s += seconds
