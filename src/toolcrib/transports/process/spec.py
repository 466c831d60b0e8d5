"""What to run as a server, within which bounds, and how it ended: plain values."""

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from signal import Signals

from toolcrib.core.errors import SourceUnavailable
from toolcrib.core.kinds import FailureKind


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

    def bounds(self) -> dict[str, object]:
        """As the reaper takes it; paths as the system has them."""
        given = {name: getattr(self, name) for name in self.__slots__}
        rules = [(os.fsencode(path), access) for path, access in self.rules]
        return {**given, "limits": dict(self.limits), "rules": rules, "private": os.fsencode(self.private)}


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


_LASTING = {"exec": FailureKind.COMMAND, "chdir": FailureKind.CONFIGURATION}
"""Steps that fail in the same way until somebody changes something."""


def explain_failure(spec: ProcessSpec, number: int, step: str) -> SourceUnavailable:
    """The error for what the system answered at a step of the start: pipe, fork, chdir, private, confine or exec."""
    command, said = spec.argv[0], os.strerror(number)
    message, hint = f"cannot start {command!r}: {said}.", "Check the command and the limits of the system."
    match step, number:
        case "exec", errno.ENOENT:
            message, hint = _explain_missing(spec, command)
        case "exec", errno.EACCES:
            message, hint = f"not allowed to run {command!r}.", f"Make it executable: chmod +x {command}"
        case "exec", errno.ENOEXEC:
            message = f"{command!r} is no program for this machine."
            hint = "Name its interpreter as the command, or add a #! line."
        case "chdir", errno.ENOENT | errno.EACCES | errno.ENOTDIR:
            message, hint = f"cannot enter the working directory {spec.cwd!r}: {said}.", "Check the server's cwd."
        case "pipe", errno.EMFILE:
            message, hint = "too many open files; each server needs four.", "Raise the limit: ulimit -n 8192"
        case "private", _:
            place = spec.confinement.private if spec.confinement else ""
            message = f"cannot make its private directory {place!r}: {said}."
            hint = "Check TMPDIR and its permissions."
        case "confine", _:
            message = f"the system does not take the bounds of isolation {spec.isolation!r}: {said}."
            hint = "See what it can do: toolcrib doctor --isolation"
    error = refuse(spec, message, hint=hint, number=number)
    if step in _LASTING:
        error.details["failure"] = _LASTING[step]
    return error


def _explain_missing(spec: ProcessSpec, command: str) -> tuple[str, str]:
    if "/" not in command and shutil.which(command, path=spec.env.get("PATH", os.defpath)) is None:
        install = next((hint for names, hint in _INSTALL_HINTS.items() if command in names), "Install it")
        return f"command not found: {command!r}.", f"{install} or give the full path."
    if "/" not in command or Path(spec.cwd or "", command).exists():
        return f"{command!r} cannot run: its interpreter is missing.", "Check the program named in its first line (#!)."
    return f"no such file: {command!r}.", "Check the path; a relative one starts from the server's working directory."


@contextlib.contextmanager
def explained(spec: ProcessSpec) -> Iterator[None]:
    """Turn the system's refusal to give us pipes or processes into an error that says so."""
    try:
        yield
    except OSError as error:
        raise explain_failure(spec, error.errno or 0, "pipe") from error
