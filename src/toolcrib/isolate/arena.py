"""Where the self-test takes place: a secret, places to write, and listeners that know whether they were reached."""

import contextlib
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
    forks: int
    """How many processes the probe tries to start; none leaves that question open, it takes the longest."""

    def describe(self) -> dict[str, Any]:
        """What the probe is told to try."""
        return {
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
        }
        bounded = {
            Probe.MEMORY: is_error(told.get("memory")),
            Probe.FILE: is_error(told.get("file")),
            **({Probe.FORK: told.get("fork") != self.forks} if self.forks else {}),
        }
        verdicts = {probe: Verdict.OPEN if was else Verdict.STOPPED for probe, was in reached.items()}
        return verdicts | {probe: Verdict.LIMITED if was else Verdict.OPEN for probe, was in bounded.items()}


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
            forks,
        )


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
