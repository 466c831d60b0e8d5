"""What a process and all below it do, as the kernel counts it: whether they work, and which programs they are."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PROC = Path("/proc")
CPU_FIELDS = slice(11, 15)
"""Of a ``stat`` line, behind the name: ticks in user and kernel mode, its own and those of children that ended."""


@dataclass(frozen=True, slots=True)
class TreeLook:
    """One look at a process and everything below it; two that differ mean that something moved in between."""

    work: frozenset[tuple[int, bytes, bytes]] = frozenset()
    """Of each process: its id, the processor time it took, and what it read and wrote (files, pipes and sockets)."""
    commands: tuple[str, ...] = field(default=(), compare=False)
    """The command lines, the first process first."""
    tasks: frozenset[str] = field(default=frozenset(), compare=False)
    """What npm says that it runs there (``npm_lifecycle_event``)."""


def look_at(pid: int) -> TreeLook | None:
    """What the tree below a process does now; ``None`` where the system does not tell."""
    if not (PROC / str(pid) / "stat").exists():
        return None
    pids = list(_tree(pid))
    work = frozenset((one, _cpu(one), _read(one, "io")) for one in pids)
    commands = tuple(_read(one, "cmdline").replace(b"\0", b" ").decode(errors="replace").strip() for one in pids)
    return TreeLook(work, commands, frozenset(task for one in pids[1:] if (task := _task(one))))


def _tree(pid: int) -> Iterator[int]:
    yield pid
    for thread in _listed(pid):
        for child in _read(pid, f"task/{thread}/children").split():
            yield from _tree(int(child))


def _listed(pid: int) -> list[str]:
    try:
        return [entry.name for entry in (PROC / str(pid) / "task").iterdir()]
    except OSError:
        return []


def _cpu(pid: int) -> bytes:
    return b" ".join(_read(pid, "stat").rpartition(b")")[2].split()[CPU_FIELDS])


def _task(pid: int) -> str:
    name = b"npm_lifecycle_event="
    found = next((entry for entry in _read(pid, "environ").split(b"\0") if entry.startswith(name)), name)
    return found.removeprefix(name).decode(errors="replace")


def _read(pid: int, name: str) -> bytes:
    """A file of a process; empty if it has ended, or if it may not be read."""
    try:
        return (PROC / str(pid) / name).read_bytes()
    except OSError:
        return b""
