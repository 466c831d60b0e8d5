"""What a program may have: grants and limits as values."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from toolcrib.isolate.levels import AUTO, IsolationLevel

MIB, GIB = 1 << 20, 1 << 30


@dataclass(frozen=True, slots=True)
class Limits:
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


WORKER_LIMITS = Limits(memory_bytes=2 * GIB, address_bytes=8 * GIB, cpu_s=600)
"""For a function that runs for one call."""


@dataclass(frozen=True, slots=True)
class Wish:
    """How a program is to be run, as the configuration or its author asks."""

    level: str = IsolationLevel.LIMITS
    """An ``IsolationLevel``, or ``auto``."""
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    network: bool | None = None
    """``None`` when nothing was said, which is no network where that can be kept from it."""
    loopback: tuple[int, ...] = ()
    """Ports of this machine that it may connect to; with a network, all others are refused."""
    limits: Limits = Limits()

    def at(self, level: IsolationLevel) -> "Wish":
        """The wish with its level settled; whoever takes what there is gets no grants where nothing is forbidden."""
        if self.level == AUTO and level.rank < IsolationLevel.CONFINED.rank:
            return replace(self, level=level, read=(), write=(), network=None, loopback=())
        return replace(self, level=level)
