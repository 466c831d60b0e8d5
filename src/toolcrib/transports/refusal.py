"""Why a server could not be started, in words that say what to check."""

import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from toolcrib.core.errors import SourceUnavailable
from toolcrib.transports.spec import ProcessSpec

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
