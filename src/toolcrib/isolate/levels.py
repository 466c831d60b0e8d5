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
    TCP = "tcp"
    UDP = "udp"
    UNIX = "unix"
    ENVIRON = "environ"
    TRACE = "trace"
    SIGNAL = "signal"
    MEMORY = "memory"
    FILE = "file"
    FORK = "fork"


ATTEMPTS: Mapping[Probe, str] = {
    Probe.SECRET: "read a secret file",
    Probe.WRITE: "write outside its directories",
    Probe.CHMOD: "change permissions outside",
    Probe.TCP: "connect over TCP",
    Probe.UDP: "send over UDP",
    Probe.UNIX: "reach a unix socket",
    Probe.ENVIRON: "read toolcrib's environment",
    Probe.TRACE: "trace toolcrib",
    Probe.SIGNAL: "signal toolcrib",
    Probe.MEMORY: "take 1 GiB of memory",
    Probe.FILE: "write an 80 MB file",
    Probe.FORK: "start 200 processes",
}
"""Each probe in words."""

ADDED: Mapping[IsolationLevel, frozenset[Probe]] = {
    IsolationLevel.NONE: frozenset(),
    IsolationLevel.LIMITS: frozenset({Probe.MEMORY, Probe.FILE}),
    IsolationLevel.CONFINED: frozenset(
        {Probe.SECRET, Probe.WRITE, Probe.TCP, Probe.UDP, Probe.UNIX, Probe.ENVIRON, Probe.TRACE}
    ),
    IsolationLevel.ISOLATED: frozenset({Probe.SIGNAL, Probe.CHMOD}),
}
"""What each level promises beyond the one before. The number of processes is promised by none: the kernel counts all
of a user's together, and exempts root."""


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
