"""Where the self-test takes place: a secret, places to write, and listeners that know whether they were reached."""

import contextlib
import ctypes
import hashlib
import os
import secrets
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from toolcrib.isolate.levels import Probe

UNTOUCHED = 0o600
IPC_PRIVATE, IPC_CREATE, IPC_REMOVE = 0, 0o1000, 0
SHARED_BYTES = 4096


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
        reached = {
            Probe.SECRET: told.get("secret") == self.secret,
            Probe.WRITE: (self.home / "outside").exists(),
            Probe.CHMOD: (self.home / "target").stat().st_mode & 0o777 != UNTOUCHED,
            Probe.TCP: was_called(self.tcp),
            Probe.UDP: has_mail(self.udp),
            Probe.UNIX: was_called(self.unix) or has_mail(self.datagrams),
            Probe.ENVIRON: not apart and is_ours(told.get("environ")),
            Probe.SIGNAL: not apart and not is_error(told.get("signal")),
            Probe.TRACE: not apart and not is_error(told.get("trace")),
            Probe.PRLIMIT: not apart and not is_error(told.get("prlimit")),
            Probe.PRIORITY: not apart and told.get("priority") != [],
            Probe.NAMES: not is_error(told.get("names")),
            Probe.WATCH: not is_error(told.get("watch")),
            Probe.FANOTIFY: not is_error(told.get("fanotify")),
            Probe.SHARED: told.get("shared") == self.secret or not is_error(told.get("shared")),
            Probe.QUEUE: not is_error(told.get("queue")),
        }
        bounded = {
            Probe.MEMORY: is_error(told.get("memory")),
            Probe.FILE: is_error(told.get("file")),
            Probe.RAISE: is_error(told.get("raise")),
            **({Probe.FORK: told.get("fork") != self.forks} if self.forks else {}),
        }
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
