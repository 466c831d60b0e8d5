"""What is sent to add or change a server: the keys of toolcrib.toml in camelCase, and who may set which."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from toolcrib.config.masks import MASK
from toolcrib.config.merge import merge
from toolcrib.config.model import ServerConfig
from toolcrib.config.parse import parse_server
from toolcrib.doors.http.answers import Problem
from toolcrib.doors.rest.shapes import LevelWord, PolicyWord

ServerName = Annotated[str, Meta(pattern="^[a-z][a-z0-9_]*$", max_length=64)]
Address = Annotated[str, Meta(pattern=r"^(https?://|\$\{)")]
Duration = float | str
PLACE = "the request"

TIMES = frozenset({"call_timeout", "discovery_timeout", "idle_timeout"})
HARMLESS = frozenset({"description", "enabled", "policy", "rate", "parallel"}) | TIMES
"""What somebody may set who reaches no further than ``admin``; of a new server, its address as well."""
CONNECTION = frozenset({"url", "headers"})


class NewServer(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """A server to add: a ``command`` to start, or a ``url`` to reach."""

    name: ServerName
    command: str | None = None
    args: list[str] | None = None
    env: dict[str, str] | None = None
    cwd: str | None = None
    url: Address | None = None
    headers: dict[str, str] | None = None
    description: str | None = None
    enabled: bool | None = None
    policy: PolicyWord | None = None
    level: LevelWord | None = None
    rate: str | None = None
    parallel: int | None = None
    call_timeout: Duration | None = None
    discovery_timeout: Duration | None = None
    idle_timeout: Duration | None = None
    user: bool = False
    """Write it into the user's file, not the project's."""

    def table(self) -> dict[str, Any]:
        """What was given, by the keys of the file."""
        found = {key: getattr(self, key) for key in self.__struct_fields__ if key not in ("name", "user")}
        return {key: value for key, value in found.items() if value is not None}

    def to_config(self) -> ServerConfig:
        """The server; what a file could not say either is an error in the same words."""
        return merge(parse_server(self.name, self.table(), PLACE)).servers[self.name]


class ServerChange(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """What to change: keys that are left out stay, ``null`` takes one out; ``env`` and ``headers`` entry by entry."""

    command: str | UnsetType | None = UNSET
    args: list[str] | UnsetType | None = UNSET
    env: dict[str, str | None] | UnsetType | None = UNSET
    cwd: str | UnsetType | None = UNSET
    url: Address | UnsetType | None = UNSET
    headers: dict[str, str | None] | UnsetType | None = UNSET
    description: str | UnsetType | None = UNSET
    enabled: bool | UnsetType | None = UNSET
    policy: PolicyWord | UnsetType | None = UNSET
    level: LevelWord | UnsetType | None = UNSET
    rate: str | UnsetType | None = UNSET
    parallel: int | UnsetType | None = UNSET
    call_timeout: Duration | UnsetType | None = UNSET
    discovery_timeout: Duration | UnsetType | None = UNSET
    idle_timeout: Duration | UnsetType | None = UNSET

    def table(self) -> dict[str, Any]:
        """What was given, by the keys of the file."""
        found = {key: getattr(self, key) for key in self.__struct_fields__}
        return {key: value for key, value in found.items() if value is not UNSET}


def refuse_masks(table: Mapping[str, Any]) -> None:
    """Stop a value that was read masked and is sent back."""
    if any(MASK in text for text in _texts(table)):
        raise Problem(422, "TOOL_INVALID_INPUT", f"{MASK} stands for a value that is not shown; leave it out.")


def needs_system(table: Mapping[str, Any], *, is_new: bool) -> bool:
    """Whether only somebody may set this who may reach everything.

    A reference takes its value from toolcrib's own environment, and the address of a known server decides who gets
    its secrets; a level says who may use its tools.
    """
    keys = HARMLESS | CONNECTION if is_new else HARMLESS
    return not keys.issuperset(table) or any("${" in text for text in _texts(table))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
