"""What an import would do, decided without touching anything: a comparison of three sides.

One side is what other programs have now, one is what toolcrib's file says now, and one is what was remembered when a
server was taken over. Where only the program changed, its change is taken over; where the user changed toolcrib's file
since, the user's word stands.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Literal

import msgspec

from toolcrib.config.foreign.entry import is_toolcrib
from toolcrib.config.foreign.references import ForeignServer
from toolcrib.config.model import ServerConfig, ToolConfig, config_hash
from toolcrib.config.secrets import with_references
from toolcrib.core.kinds import Policy
from toolcrib.core.names import SERVER_NAME_MAX, to_server_name

_ANY_REFERENCE = re.compile(r"\$\{\w+(?::-[^}]*)?\}")


@dataclass(frozen=True, slots=True)
class FoundAt:
    """Where a server was found: whose file, which entry."""

    client: str
    path: str
    name: str
    scope: str = ""
    line: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class FoundServer:
    """One server with everybody who has it; without a ``server`` it is left out."""

    server: ServerConfig | None
    origins: tuple[FoundAt, ...]
    notes: tuple[str, ...] = ()
    left_out: str = ""

    @property
    def name(self) -> str:
        """What the first program calls it."""
        return self.origins[0].name


def gather(found: Iterable[tuple[FoundAt, ForeignServer]], own_urls: frozenset[str] = frozenset()) -> list[FoundServer]:
    """The servers without repetitions, in the order they were found, without toolcrib itself."""
    gathered: dict[str, FoundServer] = {}
    for place, foreign in found:
        server = foreign.server
        if server is None:
            gathered[f"{len(gathered)}"] = FoundServer(None, (place,), foreign.notes, foreign.left_out)
        elif not is_toolcrib(foreign.name, server, own_urls):
            key = config_hash(server)
            one = FoundServer(server, (place,), foreign.notes)
            gathered[key] = _merged(gathered[key], one) if key in gathered else one
    return list(gathered.values())


def _merged(first: FoundServer, other: FoundServer) -> FoundServer:
    """On if anybody has it on; a tool is off if anybody has it off."""
    if first.server is None or other.server is None:
        return first
    server = replace(
        first.server,
        enabled=first.server.enabled or other.server.enabled,
        tools={**first.server.tools, **_switched_off(other.server)},
        policy=first.server.policy or other.server.policy,
    )
    notes = dict.fromkeys((*first.notes, *other.notes))
    return FoundServer(server, (*first.origins, *other.origins), tuple(notes))


def _switched_off(server: ServerConfig) -> dict[str, ToolConfig]:
    if server.policy == Policy.DISABLE:
        return dict(server.tools)
    return {name: tool for name, tool in server.tools.items() if tool.policy == Policy.DISABLE}


State = Literal["new", "same", "used", "changed", "removed", "edited", "left out"]
"""``used``: the same program or address is served already, with other settings; only who names it gets it, too."""
ACTED_ON: tuple[State, ...] = ("new", "changed", "removed")


class ImportRecord(msgspec.Struct, frozen=True):
    """What was known of a server when it was taken over: its origins, and digests of both sides."""

    origins: tuple[tuple[str, str, str, str], ...]
    """Client, path, name there, scope."""
    found: str
    written: str


@dataclass(frozen=True, slots=True)
class ImportCandidate:
    """One server an import could bring, and what would happen to it."""

    name: str
    state: State
    server: ServerConfig | None = None
    origins: tuple[FoundAt, ...] = ()
    notes: tuple[str, ...] = ()
    reason: str = ""
    before: ServerConfig | None = None
    twin: str = ""
    """The server that is the same, or nearly so."""
    found: ServerConfig | None = field(default=None, repr=False)
    """As it was found, with its secrets, where references stand in their place in ``server``."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What these references stand for, and is not kept yet."""


@dataclass(frozen=True, slots=True)
class Sides:
    """What is compared: the file that is written to, other files that are read, the memory, and what could be read."""

    here: Mapping[str, ServerConfig] = field(default_factory=dict)
    elsewhere: Mapping[str, ServerConfig] = field(default_factory=dict)
    remembered: Mapping[str, ImportRecord] = field(default_factory=dict)
    readable: frozenset[str] = frozenset()
    is_sync: bool = False
    in_use: str = ""
    """The file of another program that is read at present; its servers keep their names."""


def digest(server: ServerConfig) -> str:
    """All of a server but its name, as SHA-256."""
    hidden = ("name", "origin", "line")
    values = {part.name: getattr(server, part.name) for part in fields(server) if part.name not in hidden}
    return hashlib.sha256(msgspec.json.encode(values, order="sorted")).hexdigest()


def plan(gathered: Iterable[FoundServer], sides: Sides) -> list[ImportCandidate]:
    """What would be done with each server, what was taken over before first."""
    left = list(gathered)
    known = [candidate for name in sides.remembered for candidate in _known(name, left, sides)]
    taken = {*sides.here, *sides.elsewhere, *(candidate.name for candidate in known)}
    return [*known, *_unknown(left, sides, taken)]


def _known(name: str, left: list[FoundServer], sides: Sides) -> Iterator[ImportCandidate]:
    """A server that was taken over before; what it matches leaves the list."""
    memory, mine = sides.remembered[name], sides.here.get(name)
    matches = [one for one in left if any(_key(origin) in memory.origins for origin in one.origins)]
    if mine is None and not sides.is_sync:
        return
    for match in matches:
        left.remove(match)
    if matches:
        now = next((one for one in matches if one.server and digest(one.server) == memory.found), matches[0])
        yield _compared(name, now, mine, memory)
    elif mine is not None and sides.is_sync and all(path in sides.readable for _, path, _, _ in memory.origins):
        yield _gone(name, mine, memory)


def _compared(name: str, now: FoundServer, mine: ServerConfig | None, memory: ImportRecord) -> ImportCandidate:
    server = replace(now.server, name=name) if now.server else None
    candidate = ImportCandidate(name, "same", server, now.origins, now.notes, before=mine)
    if mine is None:
        return replace(candidate, state="left out", reason="you removed it here")
    if server is None:
        return replace(candidate, state="left out", reason=f"what it has become there cannot be used: {now.left_out}")
    if digest(server) == memory.found or digest(server) == digest(mine):
        return candidate
    if digest(mine) == memory.written:
        return replace(candidate, state="changed")
    return replace(candidate, state="edited", reason="it changed there, but you changed it here, too; yours stays")


def _gone(name: str, mine: ServerConfig, memory: ImportRecord) -> ImportCandidate:
    origins = tuple(FoundAt(*origin) for origin in memory.origins)
    if digest(mine) == memory.written:
        return ImportCandidate(name, "removed", None, origins, before=mine)
    reason = "it was removed there, but you changed it here; yours stays"
    return ImportCandidate(name, "edited", None, origins, reason=reason, before=mine)


def _unknown(left: Iterable[FoundServer], sides: Sides, taken: set[str]) -> Iterator[ImportCandidate]:
    served = [*sides.elsewhere.items(), *sides.here.items()]
    existing = {config_hash(server): name for name, server in served}
    starting = {launch_of(server): name for name, server in served}
    offered: dict[tuple[str, str], str] = {}
    for one in sorted(left, key=lambda one: all(origin.path != sides.in_use for origin in one.origins)):
        if one.server is None:
            yield ImportCandidate(to_server_name(one.name), "left out", None, one.origins, one.notes, one.left_out)
        elif twin := existing.get(config_hash(one.server)):
            yield ImportCandidate(twin, "same", one.server, one.origins, twin=twin)
        else:
            launch = launch_of(one.server)
            twin = starting.get(launch) or offered.get((launch, to_server_name(one.name)), "")
            name = _free_name(one, taken)
            taken.add(name)
            offered.setdefault((launch, to_server_name(one.name)), name)
            server = replace(one.server, name=name)
            yield ImportCandidate(name, "used" if twin else "new", server, one.origins, one.notes, twin=twin)


def launch_of(server: ServerConfig) -> str:
    """What is started, or reached: the same for the same program and arguments, whatever its secrets are called."""
    bare = with_references(server, lambda _name, _value: "SECRET")
    written = msgspec.json.encode([bare.command, bare.args, bare.cwd, (bare.url or "").rstrip("/")])
    return _ANY_REFERENCE.sub("${SECRET}", written.decode())


def _free_name(one: FoundServer, taken: set[str]) -> str:
    wanted = to_server_name(one.name)
    client = to_server_name(one.origins[0].client)
    candidates = [wanted, _joined(wanted, client), *(_joined(wanted, str(number)) for number in range(2, 1000))]
    return next(name for name in candidates if name not in taken)


def _joined(name: str, end: str) -> str:
    return f"{name[: SERVER_NAME_MAX - len(end) - 1].rstrip('_')}_{end}"


def _key(origin: FoundAt) -> tuple[str, str, str, str]:
    return origin.client, origin.path, origin.name, origin.scope


def remember(candidate: ImportCandidate, written: ServerConfig) -> ImportRecord:
    """What to know of a server from now on."""
    found = digest(candidate.found or candidate.server or written)
    return ImportRecord(tuple(_key(origin) for origin in candidate.origins), found, digest(written))
