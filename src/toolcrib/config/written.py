"""What a person wrote, with the line of every key, so that every complaint can point at its place."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from toolcrib.config.model import Origin
from toolcrib.core.errors import ConfigError

KeyPath = tuple[str, ...]

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Written:
    """The values of one file, and where in it they stand."""

    where: str
    root: Any
    lines: Mapping[KeyPath, int] = field(default_factory=dict)
    repeated: tuple[tuple[KeyPath, int], ...] = ()
    """Keys that were written again, with the line of the repetition."""

    def line(self, path: KeyPath) -> int | None:
        """The line of a key, or of the closest key around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path)

    def origin(self, path: KeyPath) -> Origin:
        """The place of a key as a value."""
        return Origin(self.where, self.line(path))

    def error(self, path: KeyPath, message: str, hint: str = "") -> ConfigError:
        """A complaint about what stands at ``path``."""
        return ConfigError(message, where=self.where, line=self.line(path), hint=hint)

    def under(self, path: KeyPath) -> dict[KeyPath, int]:
        """The lines of all keys below ``path``, named from there."""
        size = len(path)
        return {key[size:]: line for key, line in self.lines.items() if key[:size] == path and len(key) > size}


def dotted(path: KeyPath) -> str:
    """A path as TOML writes it: ``servers.time.tools."kb.search"``."""
    return ".".join(part if _BARE_KEY.fullmatch(part) else f'"{part}"' for part in path)
