"""What is found in another program's file: servers in toolcrib's words, and what was not taken over and why."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from toolcrib.config.model import ServerConfig

MILLISECONDS = 0.001
SECONDS = 1.0
GUESSED = 0.0
"""For files of unknown programs: nobody waits a thousand seconds, or less than one."""


@dataclass(frozen=True, slots=True)
class Dialect:
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
