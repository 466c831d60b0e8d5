"""What to run as a server, within which bounds, and how it ended: plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from signal import Signals


@dataclass(frozen=True, slots=True)
class Confinement:
    """What a child gives up before it becomes the server; Linux only, but for the limits."""

    limits: Mapping[int, int] = field(default_factory=dict)
    """Resource, as the ``resource`` module numbers it → the most there may be of it."""
    umask: int | None = None
    handled: tuple[int, int, int] = (0, 0, 0)
    """Landlock: kinds of access to files and to the network, and scopes, that are forbidden unless a rule allows."""
    rules: tuple[tuple[str, int], ...] = ()
    """Paths, and what may be done with them and all below; one that does not exist is passed over."""
    filter: bytes = b""
    """The seccomp program."""
    filter_fd: int | None = None
    """The descriptor from which the command itself reads the filter; ``None`` puts it on before the command."""
    connect_filter: bytes = b""
    """The seccomp program that has the keeper asked about every connection; none leaves them alone."""
    ports: tuple[int, ...] = ()
    """Where on this machine it may connect to, if the keeper is asked."""
    capabilities: int | None = None
    """What is left of root's powers, as a mask; ``None`` leaves all."""
    private: str = ""
    """A directory, made for the server alone and removed once nothing of it is left."""

    def fields(self) -> list[str]:
        """As the keeper reads it."""
        limits = [f"limit={number}:{most}" for number, most in self.limits.items()]
        rules = [f"rule={access}:{path}" for path, access in self.rules]
        landlock = "landlock=" + ":".join(map(str, self.handled))
        filter_fd = [] if self.filter_fd is None else [f"filter_fd={self.filter_fd}"]
        umask = [] if self.umask is None else [f"umask={self.umask:o}"]
        powers = [] if self.capabilities is None else [f"capabilities={self.capabilities}"]
        ports = ",".join(map(str, self.ports))
        connect = [f"connect={ports}:{self.connect_filter.hex()}"] if self.connect_filter else []
        bounds = [*limits, *rules, landlock, f"filter={self.filter.hex()}", *filter_fd, *umask, *powers, *connect]
        return [*bounds, f"private={self.private}"]


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
    confinement: Confinement | None = None
    isolation: str = "none"
    """What the confinement comes to, for people."""


@dataclass(frozen=True, slots=True)
class ExitReport:
    """How a server ended: its exit code, or the negative number of the signal that killed it."""

    code: int

    def __str__(self) -> str:
        return f"exit code {self.code}" if self.code >= 0 else f"killed by {_name_signal(-self.code)}"


def _name_signal(number: int) -> str:
    return Signals(number).name if number in set(Signals) else f"signal {number}"
