"""How soon a server is asked that says its tools changed."""

CHANGE_PAUSE_S = 0.2
"""So that a burst of changes is answered once."""
LONGEST_S = 30.0
CALM_S = 1.0


class ChangePauses:
    """The pause before each server is asked; for one that says so all the time it doubles, up to half a minute."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, float]] = {}
        """Per server, when it last said so, and how long the pause was then."""

    def next_s(self, server: str, now: float) -> float:
        """How long to wait from ``now`` on."""
        said_at, pause_s = self._last.get(server, (now, 0.0))
        is_restless = pause_s > 0 and now - said_at < 2 * pause_s + CALM_S
        pause_s = min(2 * pause_s, LONGEST_S) if is_restless else CHANGE_PAUSE_S
        self._last[server] = now, pause_s
        return pause_s

    def forget(self, server: str) -> None:
        """It is gone, or another one has its name."""
        self._last.pop(server, None)
