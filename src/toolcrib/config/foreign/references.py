"""References of other programs, brought into the one form toolcrib knows: ``${NAME}`` of the environment."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from toolcrib.config.model import ServerConfig
from toolcrib.core.patterns import lazy_pattern

MILLISECONDS = 0.001
SECONDS = 1.0
GUESSED = 0.0
"""For files of unknown programs: nobody waits a thousand seconds, or less than one."""


@dataclass(frozen=True, slots=True)
class ForeignDialect:
    """What must be known of a program to understand its entries."""

    timeout_unit_s: float = MILLISECONDS
    """What one unit of a bare ``timeout`` lasts."""
    shell_references: bool = False
    """Whether ``$X`` and ``%X%`` are references everywhere, not only where they are the whole value."""
    folder: str = ""
    """The project a file belongs to; ``${workspaceFolder}`` stands for it."""
    platform: str = "linux"
    inputs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What the program asks its user for, by id."""


@dataclass(frozen=True, slots=True)
class ForeignServer:
    """One server of another program; without a ``server`` it is left out, and ``left_out`` says why."""

    name: str
    server: ServerConfig | None = None
    notes: tuple[str, ...] = ()
    left_out: str = ""
    scope: str = ""
    """The only project folder it is for; empty for everywhere."""
    line: int | None = None


Note = Callable[[str], None]

_REFERENCE = lazy_pattern(
    r"""\$\{(?P<braced>[^{}]*)\}
    |\{\{(?P<template>[^{}]*)\}\}
    |\{(?P<kind>env|file):(?P<inner>[^{}]*)\}
    |(?<![\w$%])\$(?P<shell>[A-Za-z_]\w*)
    |%(?P<percent>[A-Za-z_]\w*)%""",
    re.VERBOSE,
)
_BARE = lazy_pattern(r"(?P<scheme>(?:Bearer |Basic |token )?)(?:\$(?P<shell>[A-Za-z_]\w*)|%(?P<percent>[A-Za-z_]\w*)%)")
_VARIABLE = lazy_pattern(r"(?:env:)?([A-Za-z_]\w*)(:-[^{}]*)?")
_HOME_PARTS = {
    "userHome": "${HOME}",
    "user_home": "${HOME}",
    "HOME": "${HOME}",
    "DESKTOP": "${HOME}/Desktop",
    "DOCUMENTS": "${HOME}/Documents",
    "DOWNLOADS": "${HOME}/Downloads",
    "pathSeparator": "/",
    "/": "/",
}
_FOLDERS = ("workspaceFolder", "workspaceRoot", "cwd")


class ForeignReferences:
    """The references of one server; ``missing`` says what keeps it from being started as it is."""

    def __init__(self, server: str, dialect: ForeignDialect) -> None:
        self._server, self._dialect = server, dialect
        self.notes: list[str] = []
        self.missing: list[str] = []

    def translate(self, value: str, *, whole: bool = False) -> str:
        """``value`` with its references in our form; ``whole`` where ``$X`` counts when nothing else is there."""
        if not self._dialect.shell_references and whole and (bare := _BARE.fullmatch(value)):
            return f"{bare['scheme']}${{{bare['shell'] or bare['percent']}}}"
        return _REFERENCE.sub(self._one, value)

    def _one(self, match: re.Match[str]) -> str:
        if name := match["shell"] or match["percent"]:
            return f"${{{name}}}" if self._dialect.shell_references else match.group()
        if match["template"] is not None:
            return self._hold(match.group(), "only the program it comes from can fill it in")
        if match["kind"] == "env":
            return f"${{{match['inner']}}}"
        if match["kind"] == "file":
            return self._hold(match.group(), "toolcrib reads no secrets from files; write ${NAME} instead")
        return self._braced(match["braced"], match.group())

    def _braced(self, inside: str, written: str) -> str:
        kind, _, rest = inside.partition(":")
        if kind == "input" or inside.startswith("user_config."):
            return self._input(rest if kind == "input" else inside.partition(".")[2])
        if kind in ("file", "command"):
            return self._hold(written, "toolcrib reads no files and runs no commands for it; write ${NAME} instead")
        if inside in _HOME_PARTS:
            return _HOME_PARTS[inside]
        if inside in _FOLDERS or inside == "workspaceFolderBasename":
            return self._folder(inside, written)
        if inside == "__dirname":
            return self._unpacked()
        return self._variable(inside, written)

    def _variable(self, inside: str, written: str) -> str:
        if match := _VARIABLE.fullmatch(inside):
            return f"${{{match[1]}{match[2] or ''}}}"
        return self._hold(written, "toolcrib does not know what it stands for")

    def _folder(self, inside: str, written: str) -> str:
        if not self._dialect.folder:
            return self._hold(written, "no project folder is known for it; write the path")
        folder = self._dialect.folder
        return PurePath(folder).name if inside.endswith("Basename") else folder

    def _unpacked(self) -> str:
        variable = f"{to_variable(self._server)}_DIR"
        self.missing.append(f"unpack the bundle and set {variable} to its folder")
        return f"${{{variable}}}"

    def _input(self, name: str) -> str:
        asked = self._dialect.inputs.get(name, {})
        variable = to_variable(name)
        described = str(asked.get("description") or asked.get("title") or name)
        if asked.get("type") == "command":
            self._note(f"{variable} came from a command, which toolcrib does not run. Set it yourself: {described}")
        else:
            self._note(f"Set {variable}: {described}")
        return f"${{{variable}{_default(asked)}}}"

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text if text.endswith((".", "?", "!")) else f"{text}.")

    def _hold(self, written: str, reason: str) -> str:
        text = f"replace {written}: {reason}"
        if text not in self.missing:
            self.missing.append(text)
        return written


def to_variable(name: str) -> str:
    """The environment variable for what another program calls ``name``."""
    variable = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").upper()
    return variable if variable[:1].isalpha() else f"INPUT_{variable}".rstrip("_")


def _default(asked: object) -> str:
    if not isinstance(asked, dict) or asked.get("password") or asked.get("sensitive"):
        return ""
    default = asked.get("default")
    is_plain = isinstance(default, str | int | float) and not isinstance(default, bool)
    return f":-{default}" if is_plain and default != "" and "}" not in str(default) else ""
