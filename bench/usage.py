"""What processes cost: CPU time, memory, and how much of the machine somebody else was using."""

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Memory:
    rss_mb: float
    largest_mb: float  # the RSS of the largest process
    pss_mb: float  # pages shared between processes counted once
    processes: int


def cpu_ns(pids: Iterable[int]) -> int:
    """CPU time used so far, threads that ended included."""
    return sum(map(_cpu_ns, pids))


def _cpu_ns(pid: int) -> int:
    clock = (~pid << 3) | 2  # Linux: the CPU clock of another process, clock_getcpuclockid(3)
    try:
        return time.clock_gettime_ns(clock)
    except OSError:  # the process ended meanwhile
        return 0


def tree_cpu_ns(pids: Iterable[int]) -> int:
    """CPU time used so far by these processes and by whatever they waited for, which ended."""
    return sum(map(_tree_cpu_ns, pids))


def _tree_cpu_ns(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # the process ended meanwhile
        return 0
    return sum(map(int, fields[11:15])) * TICK_NS  # utime, stime, and both of the children waited for


def memory(pids: list[int]) -> Memory:
    parts = [_rollup(pid) for pid in pids]
    rss_kb = [part.get("Rss", 0) for part in parts]
    pss_kb = [part.get("Pss", 0) for part in parts]
    return Memory(sum(rss_kb) / 1024, max(rss_kb) / 1024, sum(pss_kb) / 1024, len(pids))


def _rollup(pid: int) -> dict[str, int]:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    except OSError:  # the process ended meanwhile
        return {}
    return {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}


class Meter:
    """CPU of a measurement's parts, and the share of the machine that went to anybody else."""

    def __init__(self, own: list[int], behind: list[int]) -> None:
        self.own, self.behind = own, behind
        self.begun = self._read()

    def _read(self) -> tuple[int, int, int, int, int]:
        own, behind, driver = cpu_ns(self.own), cpu_ns(self.behind), cpu_ns([os.getpid()])
        return own, behind, driver, _machine_busy_ns(), time.monotonic_ns()

    def stop(self) -> "Spent":
        own, behind, driver, machine, wall = (now - then for now, then in zip(self._read(), self.begun, strict=True))
        foreign = machine - own - behind - driver
        return Spent(own, behind, max(0.0, foreign / (wall * (os.cpu_count() or 1))))


@dataclass(frozen=True)
class Spent:
    own_ns: int
    behind_ns: int
    foreign_share: float


def _machine_busy_ns() -> int:
    with Path("/proc/stat").open() as stat:
        user, nice, system, _idle, _wait, irq, softirq, steal = map(int, stat.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) * TICK_NS
