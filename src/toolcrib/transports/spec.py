"""What to run as a server, and how it ended: plain values."""

from collections.abc import Mapping
from dataclasses import dataclass
from signal import Signals


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """What to run: the environment is complete, nothing is added to it."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str | None = None
    stop_grace_s: float = 2.0
    """How long the server may take to end by itself once its stdin is closed."""
    kill_grace_s: float = 2.0
    """How long after that, and after being asked to end, it may take until it is killed."""


@dataclass(frozen=True, slots=True)
class ExitReport:
    """How a server ended: its exit code, or the negative number of the signal that killed it."""

    code: int

    def __str__(self) -> str:
        return f"exit code {self.code}" if self.code >= 0 else f"killed by {_name_signal(-self.code)}"


def _name_signal(number: int) -> str:
    return Signals(number).name if number in set(Signals) else f"signal {number}"
