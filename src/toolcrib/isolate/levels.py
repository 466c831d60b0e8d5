"""The levels of isolation, what each one promises, and whether that is enough."""

from collections.abc import Mapping
from enum import StrEnum

from toolcrib.core.tool import SecurityLevel


class IsolationLevel(StrEnum):
    """How far a program is kept from the rest; each level includes those before it."""

    NONE = "none"
    LIMITS = "limits"
    CONFINED = "confined"
    ISOLATED = "isolated"

    @property
    def rank(self) -> int:
        """How far, from 0; what counts when levels are compared."""
        return _RANKS[self]


_RANKS = {level: rank for rank, level in enumerate(IsolationLevel)}

AUTO = "auto"
"""The highest level that is proven here, at least ``limits``."""
WORDS = (*IsolationLevel, AUTO)


class Probe(StrEnum):
    """What a hostile program would try; the self-test tries each of it for real."""

    SECRET = "secret"  # noqa: S105
    WRITE = "write"
    CHMOD = "chmod"
    NAMES = "names"
    WATCH = "watch"
    FANOTIFY = "fanotify"
    TCP = "tcp"
    UDP = "udp"
    UNIX = "unix"
    LOCAL = "local"
    LOCAL_UDP = "local_udp"
    NETLINK = "netlink"
    ENVIRON = "environ"
    TRACE = "trace"
    SIGNAL = "signal"
    PRLIMIT = "prlimit"
    PRIORITY = "priority"
    SHARED = "shared"
    QUEUE = "queue"
    MEMORY = "memory"
    FILE = "file"
    RAISE = "raise"
    FORK = "fork"


ATTEMPTS: Mapping[Probe, str] = {
    Probe.SECRET: "read a secret file",
    Probe.WRITE: "write outside its directories",
    Probe.CHMOD: "change permissions outside",
    Probe.NAMES: "see whether a file outside exists",
    Probe.WATCH: "watch names outside (inotify)",
    Probe.FANOTIFY: "watch or hold files (fanotify)",
    Probe.TCP: "connect over TCP",
    Probe.UDP: "send over UDP",
    Probe.UNIX: "reach a unix socket, with a network too",
    Probe.LOCAL: "with a network: connect to toolcrib or others on this machine",
    Probe.LOCAL_UDP: "with a network: send UDP to this machine",
    Probe.NETLINK: "with a network: open netlink, raw or packet sockets",
    Probe.ENVIRON: "read toolcrib's environment",
    Probe.TRACE: "trace toolcrib",
    Probe.SIGNAL: "signal toolcrib",
    Probe.PRLIMIT: "change toolcrib's limits (prlimit)",
    Probe.PRIORITY: "change toolcrib's priority or processors",
    Probe.SHARED: "read others' shared memory (SysV)",
    Probe.QUEUE: "reach others' message queues (SysV)",
    Probe.MEMORY: "take 1 GiB of memory",
    Probe.FILE: "write an 80 MB file",
    Probe.RAISE: "raise its own limits",
    Probe.FORK: "start 200 processes",
}
"""Each probe in words."""

ADDED: Mapping[IsolationLevel, frozenset[Probe]] = {
    IsolationLevel.NONE: frozenset(),
    IsolationLevel.LIMITS: frozenset({Probe.MEMORY, Probe.FILE, Probe.RAISE}),
    IsolationLevel.CONFINED: frozenset({
        Probe.SECRET, Probe.WRITE, Probe.WATCH, Probe.FANOTIFY,
        Probe.TCP, Probe.UDP, Probe.UNIX, Probe.LOCAL, Probe.NETLINK,
        Probe.ENVIRON, Probe.TRACE, Probe.PRLIMIT, Probe.PRIORITY, Probe.SHARED, Probe.QUEUE,
    }),
    IsolationLevel.ISOLATED: frozenset({Probe.SIGNAL, Probe.CHMOD, Probe.NAMES}),
}  # fmt: skip
"""What each level promises beyond the one before."""

UNPROMISED = frozenset({Probe.FORK, Probe.LOCAL_UDP})
"""What no level promises. The kernel counts all of a user's processes together, and exempts root; and where a datagram
goes stands in memory, where a filter cannot look."""


def promises(level: IsolationLevel) -> frozenset[Probe]:
    """Everything a level promises to stop or to limit."""
    return frozenset(probe for lower, added in ADDED.items() if lower.rank <= level.rank for probe in added)


def shortfall(level: SecurityLevel, has: IsolationLevel, minimum: Mapping[str, str]) -> str:
    """Why a tool of this security level may not run at the isolation it has; empty if it may."""
    needed = IsolationLevel(minimum.get(level, IsolationLevel.NONE))
    if has.rank >= needed.rank:
        return ""
    return (
        f"Tools of level {level.value!r} must run at isolation {needed.value!r} or higher, but this one runs at "
        f'{has.value!r}. Set isolation = "{needed.value}" for its server, or change minimum under [isolation]; '
        "`toolcrib doctor --isolation` shows what this machine can do."
    )
