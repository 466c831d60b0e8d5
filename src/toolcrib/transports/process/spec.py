"""What to run as a server, within which bounds, and how it ended: plain values."""

import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from signal import Signals

from toolcrib.core.errors import SourceUnavailable


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
    """The seccomp program that has the reaper asked about every connection; none leaves them alone."""
    ports: tuple[int, ...] = ()
    """Where on this machine it may connect to, if the reaper is asked."""
    capabilities: int | None = None
    """What is left of root's powers, as a mask; ``None`` leaves all."""
    private: str = ""
    """A directory, made for the server alone and removed once nothing of it is left."""

    def fields(self) -> list[str]:
        """As the reaper reads it."""
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


_INSTALL_HINTS = {
    ("npx", "npm", "node"): "Install Node.js",
    ("uvx", "uv"): "Install uv",
    ("docker",): "Install Docker",
    ("python", "python3"): "Install Python",
    ("bun", "bunx"): "Install Bun",
    ("deno",): "Install Deno",
}


def refuse(spec: ProcessSpec, message: str, *, hint: str = "", number: int = 0) -> SourceUnavailable:
    """The error for a server that does not start."""
    details = {"phase": "start", "command": spec.argv[0] if spec.argv else "", "errno": number}
    return SourceUnavailable(message, hint=hint, details=details)


def explain_failure(spec: ProcessSpec, number: int, step: str) -> SourceUnavailable:
    """The error for what the system answered at a step of the start: pipe, fork, chdir, private, confine or exec."""
    explain = _EXPLANATIONS.get((step, number)) or _STEPS.get(step, _explain_otherwise)
    message, hint = explain(spec, number)
    return refuse(spec, message, hint=hint, number=number)


@contextlib.contextmanager
def explained(spec: ProcessSpec) -> Iterator[None]:
    """Turn the system's refusal to give us pipes or processes into an error that says so."""
    try:
        yield
    except OSError as error:
        raise explain_failure(spec, error.errno or 0, "pipe") from error


def _explain_missing(spec: ProcessSpec, _number: int) -> tuple[str, str]:
    command = spec.argv[0]
    if "/" not in command and shutil.which(command, path=spec.env.get("PATH", os.defpath)) is None:
        install = next((hint for names, hint in _INSTALL_HINTS.items() if command in names), "Install it")
        return f"command not found: {command!r}.", f"{install} or give the full path."
    if "/" not in command or Path(spec.cwd or "", command).exists():
        return f"{command!r} cannot run: its interpreter is missing.", "Check the program named in its first line (#!)."
    return f"no such file: {command!r}.", "Check the path; a relative one starts from the server's working directory."


def _explain_forbidden(spec: ProcessSpec, _number: int) -> tuple[str, str]:
    return f"not allowed to run {spec.argv[0]!r}.", f"Make it executable: chmod +x {spec.argv[0]}"


def _explain_format(spec: ProcessSpec, _number: int) -> tuple[str, str]:
    return f"{spec.argv[0]!r} is no program for this machine.", "Name its interpreter as the command, or add a #! line."


def _explain_directory(spec: ProcessSpec, number: int) -> tuple[str, str]:
    return f"cannot enter the working directory {spec.cwd!r}: {os.strerror(number)}.", "Check the server's cwd."


def _explain_descriptors(_spec: ProcessSpec, _number: int) -> tuple[str, str]:
    return "too many open files; each server needs four.", "Raise the limit: ulimit -n 8192"


def _explain_private(spec: ProcessSpec, number: int) -> tuple[str, str]:
    place = spec.confinement.private if spec.confinement else ""
    return f"cannot make its private directory {place!r}: {os.strerror(number)}.", "Check TMPDIR and its permissions."


def _explain_confine(spec: ProcessSpec, number: int) -> tuple[str, str]:
    message = f"the system does not take the bounds of isolation {spec.isolation!r}: {os.strerror(number)}."
    return message, "See what it can do: toolcrib doctor --isolation"


def _explain_otherwise(spec: ProcessSpec, number: int) -> tuple[str, str]:
    return f"cannot start {spec.argv[0]!r}: {os.strerror(number)}.", "Check the command and the limits of the system."


_EXPLANATIONS: dict[tuple[str, int], Callable[[ProcessSpec, int], tuple[str, str]]] = {
    ("exec", errno.ENOENT): _explain_missing,
    ("exec", errno.EACCES): _explain_forbidden,
    ("exec", errno.ENOEXEC): _explain_format,
    ("chdir", errno.ENOENT): _explain_directory,
    ("chdir", errno.EACCES): _explain_directory,
    ("chdir", errno.ENOTDIR): _explain_directory,
    ("pipe", errno.EMFILE): _explain_descriptors,
}
_STEPS: dict[str, Callable[[ProcessSpec, int], tuple[str, str]]] = {
    "private": _explain_private,
    "confine": _explain_confine,
}
