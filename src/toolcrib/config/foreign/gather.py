"""Many files, one list: the same server found in several programs is one server with several origins."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from toolcrib.config.foreign.found import ForeignServer
from toolcrib.config.foreign.itself import is_toolcrib
from toolcrib.config.model import ServerConfig, ToolConfig, config_hash


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server was found: whose file, which entry."""

    client: str
    path: str
    name: str
    scope: str = ""
    line: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Gathered:
    """One server with everybody who has it; without a ``server`` it is left out."""

    server: ServerConfig | None
    origins: tuple[Place, ...]
    notes: tuple[str, ...] = ()
    left_out: str = ""

    @property
    def name(self) -> str:
        """What the first program calls it."""
        return self.origins[0].name


def gather(found: Iterable[tuple[Place, ForeignServer]], own_urls: frozenset[str] = frozenset()) -> list[Gathered]:
    """The servers without repetitions, in the order they were found, without toolcrib itself."""
    gathered: dict[str, Gathered] = {}
    for place, foreign in found:
        server = foreign.server
        if server is None:
            gathered[f"{len(gathered)}"] = Gathered(None, (place,), foreign.notes, foreign.left_out)
        elif not is_toolcrib(foreign.name, server, own_urls):
            key = config_hash(server)
            one = Gathered(server, (place,), foreign.notes)
            gathered[key] = _merged(gathered[key], one) if key in gathered else one
    return list(gathered.values())


def _merged(first: Gathered, other: Gathered) -> Gathered:
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
    return Gathered(server, (*first.origins, *other.origins), tuple(notes))


def _switched_off(server: ServerConfig) -> dict[str, ToolConfig]:
    if server.policy == "disable":
        return dict(server.tools)
    return {name: tool for name, tool in server.tools.items() if tool.policy == "disable"}
