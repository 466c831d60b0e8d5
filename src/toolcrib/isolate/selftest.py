"""The self-test: a probe runs at every level and really tries; a level counts only if it keeps all its promises."""

import asyncio
import contextlib
import ctypes
import hashlib
import json
import os
import secrets
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from toolcrib.core.errors import SourceUnavailable
from toolcrib.core.kinds import IsolationLevel
from toolcrib.isolate.levels import MIB, IsolationWanted, Probe, ResourceLimits, promises
from toolcrib.isolate.plan import Host, confine
from toolcrib.isolate.run import run_once
from toolcrib.transports.process.spawn import Spawner
from toolcrib.transports.process.spec import ProcessSpec

UNTOUCHED = 0o600
IPC_PRIVATE, IPC_CREATE, IPC_REMOVE = 0, 0o1000, 0
SHARED_BYTES = 4096
BY_WORD = (Probe.NAMES, Probe.WATCH, Probe.FANOTIFY, Probe.SHARED, Probe.QUEUE)
"""What only the probe itself can tell; no error is success."""
ON_US = (Probe.SIGNAL, Probe.TRACE, Probe.PRLIMIT)
"""The same of what it does to our process, whose number is another's where it counts processes by itself."""
BOUNDED = (Probe.MEMORY, Probe.FILE, Probe.RAISE)


class Verdict(StrEnum):
    """What came of one attempt."""

    STOPPED = "stopped"
    LIMITED = "limited"
    OPEN = "open"


@dataclass(slots=True)
class Arena:
    """One place for one run of the probe."""

    home: Path
    secret: str
    tcp: socket.socket
    udp: socket.socket
    unix: socket.socket
    datagrams: socket.socket
    shared: int
    """Memory that holds the secret, by its number; -1 where the system has none."""
    queue: int
    forks: int
    """How many processes the probe tries to start; none leaves that question open, it takes the longest."""

    def describe(self, *, network: bool) -> dict[str, Any]:
        """What the probe is told to try."""
        return {
            "network": network,
            "shared": self.shared,
            "queue": self.queue,
            "secret": str(self.home / "secret"),
            "outside": str(self.home / "outside"),
            "target": str(self.home / "target"),
            "open": str(self.home / "open"),
            "tcp": self.tcp.getsockname(),
            "udp": self.udp.getsockname(),
            "unix": self.unix.getsockname(),
            "unix_datagram": self.datagrams.getsockname(),
            "parent": os.getpid(),
            "forks": self.forks,
        }

    def judge(self, told: Mapping[str, Any]) -> dict[Probe, Verdict]:
        """What was stopped: seen from here where that is possible, otherwise by the probe's own word."""
        apart = is_apart(told.get("pids"))
        succeeded = {probe: not is_error(told.get(probe)) for probe in (*BY_WORD, *ON_US, *BOUNDED)}
        reached = {
            Probe.SECRET: told.get("secret") == self.secret,
            Probe.WRITE: (self.home / "outside").exists(),
            Probe.CHMOD: (self.home / "target").stat().st_mode & 0o777 != UNTOUCHED,
            Probe.TCP: was_called(self.tcp),
            Probe.UDP: has_mail(self.udp),
            Probe.UNIX: was_called(self.unix) or has_mail(self.datagrams),
            Probe.ENVIRON: not apart and is_ours(told.get("environ")),
            Probe.PRIORITY: not apart and told.get("priority") != [],
            **{probe: not apart and succeeded[probe] for probe in ON_US},
            **{probe: succeeded[probe] for probe in BY_WORD},
        }
        bounded = {probe: not succeeded[probe] for probe in BOUNDED}
        if self.forks:
            bounded[Probe.FORK] = told.get("fork") != self.forks
        verdicts = {probe: Verdict.OPEN if was else Verdict.STOPPED for probe, was in reached.items()}
        return verdicts | {probe: Verdict.LIMITED if was else Verdict.OPEN for probe, was in bounded.items()}

    def judge_network(self, told: Mapping[str, Any]) -> dict[Probe, Verdict]:
        """What was stopped of what a network must not open."""
        reached = {
            Probe.LOCAL: was_called(self.tcp),
            Probe.LOCAL_UDP: has_mail(self.udp),
            Probe.UNIX: was_called(self.unix) or has_mail(self.datagrams),
            Probe.NETLINK: told.get("netlink") != [],
        }
        return {probe: Verdict.OPEN if was else Verdict.STOPPED for probe, was in reached.items()}


@contextlib.contextmanager
def open_arena(temporary: Path, forks: int) -> Iterator[Arena]:
    """A fresh arena; nothing of it stays."""
    home = Path(tempfile.mkdtemp(prefix="toolcrib-arena-", dir=temporary))
    with contextlib.ExitStack() as undo:
        undo.callback(shutil.rmtree, home, ignore_errors=True)
        secret = secrets.token_hex(16)
        (home / "secret").write_text(secret)
        (home / "open").mkdir()
        (home / "target").touch()
        for name in ("secret", "target"):
            (home / name).chmod(UNTOUCHED)
        stream, datagram = socket.SOCK_STREAM, socket.SOCK_DGRAM
        yield Arena(
            home,
            secret,
            undo.enter_context(listen(socket.AF_INET, stream, ("127.0.0.1", 0))),
            undo.enter_context(listen(socket.AF_INET, datagram, ("127.0.0.1", 0))),
            undo.enter_context(listen(socket.AF_UNIX, stream, str(home / "stream.sock"))),
            undo.enter_context(listen(socket.AF_UNIX, datagram, str(home / "datagram.sock"))),
            undo.enter_context(share(secret)),
            undo.enter_context(open_queue()),
            forks,
        )


@contextlib.contextmanager
def share(text: str) -> Iterator[int]:
    """Shared memory with a text in it, for as long as this lasts; it is gone even if we are killed."""
    library = ctypes.CDLL(None)
    number = library.shmget(IPC_PRIVATE, ctypes.c_size_t(SHARED_BYTES), IPC_CREATE | UNTOUCHED)
    if number < 0:
        yield number
        return
    library.shmat.restype = ctypes.c_void_p
    at = library.shmat(number, None, 0)
    library.shmctl(number, IPC_REMOVE, None)  # once nobody is attached
    ctypes.memmove(at, text.encode() + b"\0", len(text) + 1)
    try:
        yield number
    finally:
        library.shmdt(ctypes.c_void_p(at))


@contextlib.contextmanager
def open_queue() -> Iterator[int]:
    """A queue for messages, for as long as this lasts."""
    library = ctypes.CDLL(None)
    number = library.msgget(IPC_PRIVATE, IPC_CREATE | UNTOUCHED)
    try:
        yield number
    finally:
        library.msgctl(number, IPC_REMOVE, None)


def listen(family: int, kind: int, address: Any) -> socket.socket:
    """A socket that waits to be reached."""
    listener = socket.socket(family, kind)
    listener.bind(address)
    if kind == socket.SOCK_STREAM:
        listener.listen()
    listener.setblocking(False)
    return listener


def was_called(listener: socket.socket) -> bool:
    """Whether somebody connected."""
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def has_mail(listener: socket.socket) -> bool:
    """Whether a datagram arrived."""
    try:
        return bool(listener.recv(16))
    except BlockingIOError:
        return False


def is_ours(digest: object) -> bool:
    """Whether an environment that the probe could read is ours; if we cannot tell, it is."""
    try:
        return digest == hashlib.sha256(Path("/proc/self/environ").read_bytes()).hexdigest()
    except OSError:
        return not is_error(digest)


def is_apart(pids: object) -> bool:
    """Whether the probe counts processes in a namespace of its own, where our number is nobody or somebody else."""
    try:
        ours = str(Path("/proc/self/ns/pid").readlink())
    except OSError:  # no Linux
        return False
    return isinstance(pids, str) and pids != ours and not is_error(pids)


def is_error(told: object) -> bool:
    """Whether an attempt failed."""
    return isinstance(told, str) and told.startswith("error: ")


LEVEL_LIMIT_S = 20.0
OUTPUT_MAX = 64 * 1024
MEMORY_BYTES, FILE_BYTES = 512 * MIB, 64 * MIB
SPARE_PROCESSES = 100
FORKS = 200
_PROGRAM = Path(__file__).with_name("probe.py")


@dataclass(frozen=True, slots=True)
class Trial:
    """What the probe got away with at one level."""

    verdicts: Mapping[Probe, Verdict] = field(default_factory=dict)
    missing: str = ""
    """Why the level could not be tried at all."""

    def broken(self, level: IsolationLevel) -> frozenset[Probe]:
        """The promises of the level that were not kept."""
        kept = (Verdict.STOPPED, Verdict.LIMITED)
        return frozenset(probe for probe in promises(level) if self.verdicts.get(probe) not in kept)


@dataclass(frozen=True, slots=True)
class Proof:
    """What was measured on this machine, by level."""

    trials: Mapping[IsolationLevel, Trial]

    @property
    def proven(self) -> IsolationLevel:
        """The highest level that kept its promises."""
        return max((level for level in IsolationLevel if self.holds(level)), key=lambda level: level.rank)

    def holds(self, level: IsolationLevel) -> bool:
        """Whether a level kept its promises here."""
        if level is IsolationLevel.NONE:
            return True
        trial = self.trials.get(level)
        return trial is not None and not trial.missing and not trial.broken(level)

    def why_not(self, level: IsolationLevel) -> str:
        """What keeps a level from being proven; empty if nothing does."""
        trial = self.trials.get(level, Trial(missing="it was not tested"))
        broken = ", ".join(sorted(trial.broken(level)))
        return trial.missing or (f"the self-test could still get at: {broken}" if broken else "")


async def measure(spawner: Spawner, host: Host) -> Proof:
    """Try every level that promises anything, one after the other, as fast as that can be done."""
    levels = [level for level in IsolationLevel if promises(level)]
    return Proof({level: await try_level(spawner, host, level) for level in levels})


async def measure_all(spawner: Spawner, host: Host) -> Proof:
    """Try everything at every level, for people who want to see it."""
    return Proof({level: await try_level(spawner, host, level, forks=FORKS) for level in IsolationLevel})


async def try_level(spawner: Spawner, host: Host, level: IsolationLevel, *, forks: int = 0) -> Trial:
    """Run the probe at one level."""
    missing = _unavailable(host, level)
    if missing:
        return Trial(missing=missing)
    with open_arena(host.temporary, forks) as arena:
        try:
            async with asyncio.timeout(LEVEL_LIMIT_S):
                without = arena.judge(await _ask(spawner, await _prepared(arena, host, level, network=False)))
                with_ = arena.judge_network(await _ask(spawner, await _prepared(arena, host, level, network=True)))
        except (SourceUnavailable, TimeoutError, ValueError) as error:
            return Trial(missing=str(error) or "the probe did not come to an end")
    # What is open either way is open.
    return Trial({**with_, **without, Probe.UNIX: max(without[Probe.UNIX], with_[Probe.UNIX], key=_is_open)})


def _is_open(verdict: Verdict) -> bool:
    return verdict is Verdict.OPEN


def _unavailable(host: Host, level: IsolationLevel) -> str:
    if not hasattr(os, "fork"):
        return "programs cannot be started under a keeper here; it needs Linux or macOS"
    if level.rank >= IsolationLevel.CONFINED.rank and not host.is_linux:
        return "it needs Linux"
    if level is IsolationLevel.ISOLATED and host.bwrap is None:
        return "bubblewrap (bwrap) is not installed"
    return ""


async def _prepared(arena: Arena, host: Host, level: IsolationLevel, *, network: bool) -> ProcessSpec:
    """The probe at one level, with limits that it can run into without doing harm."""
    tasks = await asyncio.to_thread(_count_tasks)  # looks at every process of the machine
    processes = tasks + SPARE_PROCESSES if tasks else None
    limits = ResourceLimits(memory_bytes=MEMORY_BYTES, file_bytes=FILE_BYTES, processes=processes)
    read = (str(_PROGRAM),) if level.rank >= IsolationLevel.CONFINED.rank else ()
    argv = (sys.executable, "-I", "-S", "-E", str(_PROGRAM), json.dumps(arena.describe(network=network)))
    spec = ProcessSpec(argv, {"PATH": os.defpath}, stop_grace_s=0.0, kill_grace_s=0.0)
    return confine(spec, IsolationWanted(level, read=read, network=network or None, limits=limits), host)


def _count_tasks() -> int:
    """How many processes and threads of this user run now, as the kernel counts them; 0 where that cannot be seen."""
    user, count = os.getuid(), 0
    for entry in Path("/proc").glob("[0-9]*/task"):
        try:
            count += len(list(entry.iterdir())) if entry.stat().st_uid == user else 0
        except OSError:
            continue
    return count


async def _ask(spawner: Spawner, spec: ProcessSpec) -> dict[str, Any]:
    """What the probe tells; raises ``ValueError`` if it could not run."""
    finished = await run_once(spawner, spec, b"", OUTPUT_MAX)
    try:
        told: dict[str, Any] = json.loads(finished.output)
    except ValueError:
        said = finished.stderr[-1] if finished.stderr else str(finished.exit)
        raise ValueError(f"the probe could not run: {said}") from None
    return told
