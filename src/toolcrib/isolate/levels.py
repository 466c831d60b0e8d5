"""The levels of isolation, what each one promises, and whether that is enough."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from toolcrib.core.kinds import AUTO, IsolationChoice, IsolationLevel
from toolcrib.core.offers import SecurityLevel


class Probe(StrEnum):
    """What a hostile program would try, with words for it; the self-test tries each of it for real."""

    attempt: str

    def __new__(cls, value: str, attempt: str = "") -> "Probe":
        """A text like any other of its kind, which says in words what it stands for."""
        probe = str.__new__(cls, value)
        probe._value_ = value
        probe.attempt = attempt
        return probe

    SECRET = "secret", "read a secret file"
    WRITE = "write", "write outside its directories"
    CHMOD = "chmod", "change permissions outside"
    NAMES = "names", "see whether a file outside exists"
    WATCH = "watch", "watch names outside (inotify)"
    FANOTIFY = "fanotify", "watch or hold files (fanotify)"
    TCP = "tcp", "connect over TCP"
    UDP = "udp", "send over UDP"
    UNIX = "unix", "reach a unix socket, with a network too"
    LOCAL = "local", "with a network: connect to toolcrib or others on this machine"
    LOCAL_UDP = "local_udp", "with a network: send UDP to this machine"
    NETLINK = "netlink", "with a network: open netlink, raw or packet sockets"
    ENVIRON = "environ", "read toolcrib's environment"
    TRACE = "trace", "trace toolcrib"
    SIGNAL = "signal", "signal toolcrib"
    PRLIMIT = "prlimit", "change toolcrib's limits (prlimit)"
    PRIORITY = "priority", "change toolcrib's priority or processors"
    SHARED = "shared", "read others' shared memory (SysV)"
    QUEUE = "queue", "reach others' message queues (SysV)"
    MEMORY = "memory", "take 1 GiB of memory"
    FILE = "file", "write an 80 MB file"
    RAISE = "raise", "raise its own limits"
    FORK = "fork", "start 200 processes"


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


def shortfall(level: SecurityLevel, has: IsolationLevel, minimum: Mapping[SecurityLevel, IsolationLevel]) -> str:
    """Why a tool of this security level may not run at the isolation it has; empty if it may."""
    needed = IsolationLevel(minimum.get(level, IsolationLevel.NONE))
    if has.rank >= needed.rank:
        return ""
    return (
        f"Tools of level {level.value!r} must run at isolation {needed.value!r} or higher, but this one runs at "
        f'{has.value!r}. Set isolation = "{needed.value}" for its server, or change minimum under [isolation]; '
        "`toolcrib doctor --isolation` shows what this machine can do."
    )


MIB, GIB = 1 << 20, 1 << 30


@dataclass(frozen=True, slots=True)
class ResourceLimits:
    """The most a program may use; ``None`` sets no limit. The defaults are far above what ordinary servers need."""

    memory_bytes: int | None = 4 * GIB
    """Of its data, not of its address space: Node reserves many times what it uses."""
    address_bytes: int | None = None
    file_bytes: int | None = 4 * GIB
    open_files: int | None = 4096
    cpu_s: int | None = None
    processes: int | None = None
    """Counted over all processes of the user; root is not held to it."""

    def numbers(self) -> Mapping[int, int]:
        """As the ``resource`` module numbers them; cores are never dumped, they hold what was in memory."""
        import resource

        wanted = {
            resource.RLIMIT_CORE: 0,
            resource.RLIMIT_DATA: self.memory_bytes,
            resource.RLIMIT_AS: self.address_bytes,
            resource.RLIMIT_FSIZE: self.file_bytes,
            resource.RLIMIT_NOFILE: self.open_files,
            resource.RLIMIT_CPU: self.cpu_s,
            resource.RLIMIT_NPROC: self.processes,
        }
        return {number: most for number, most in wanted.items() if most is not None}


WORKER_LIMITS = ResourceLimits(memory_bytes=2 * GIB, address_bytes=8 * GIB, cpu_s=600)
"""For a function that runs for one call."""


@dataclass(frozen=True, slots=True)
class IsolationWanted:
    """How a program is to be run, as the configuration or its author asks."""

    level: IsolationChoice = IsolationLevel.LIMITS
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    network: bool | None = None
    """``None`` when nothing was said, which is no network where that can be kept from it."""
    loopback: tuple[int, ...] = ()
    """Ports of this machine that it may connect to; with a network, all others are refused."""
    limits: ResourceLimits = ResourceLimits()

    def at(self, level: IsolationLevel) -> "IsolationWanted":
        """The wish with its level settled; whoever takes what there is gets no grants where nothing is forbidden."""
        if self.level == AUTO and level.rank < IsolationLevel.CONFINED.rank:
            return replace(self, level=level, read=(), write=(), network=None, loopback=())
        return replace(self, level=level)
