"""Servers as rows of a table: how each is doing, what it costs, and what to do about it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, assert_never
from urllib.parse import quote

from toolcrib.catalog.catalog import Catalog
from toolcrib.catalog.records import ServerShelf
from toolcrib.config.model import ServerConfig
from toolcrib.core.kinds import DiscoveryStatus, ServerState
from toolcrib.crib.crib import Crib
from toolcrib.server.views.servers import runs, state_of


class Look(NamedTuple):
    """How the page shows a state: in a person's words, in which colour, and what to do about it."""

    label: str
    tone: str
    todo: str = ""


def _look(state: ServerState) -> Look:
    match state:
        case ServerState.OK:
            look = Look("ready", "good")
        case ServerState.STALE:
            look = Look("old listing", "warn", "See why")
        case ServerState.FAILED:
            look = Look("failed", "bad", "See why")
        case ServerState.DISABLED:
            look = Look("off", "quiet")
        case ServerState.ASKING:
            look = Look("asking", "info")
        case ServerState.NEVER:
            look = Look("not asked yet", "quiet", "Ask for its tools")
        case ServerState.HELD:
            look = Look("in quarantine", "bad", "See why")
        case _:
            assert_never(state)
    return look


LOOKS = {state: _look(state) for state in ServerState}


@dataclass(frozen=True, slots=True)
class ServerCosts:
    """What the tools of one server come to."""

    tools: int = 0
    tokens: int = 0
    held: int = 0


@dataclass(slots=True)
class Costs:
    """The cost of every server, counted again only when the catalogue has changed."""

    _catalog: Catalog | None = None
    _costs: Mapping[str, ServerCosts] = field(default_factory=dict)

    def of(self, catalog: Catalog) -> Mapping[str, ServerCosts]:
        """By server; native tools are under the empty name."""
        if self._catalog is None or catalog.routes is not self._catalog.routes:
            self._costs, self._catalog = _count(catalog), catalog
        return self._costs


def _count(catalog: Catalog) -> dict[str, ServerCosts]:
    sums: dict[str, list[int]] = {}
    for route in catalog.routes.values():
        found = sums.setdefault(route.server, [0, 0, 0])
        found[0] += 1
        found[1] += route.tokens
        found[2] += bool(route.held)
    return {server: ServerCosts(*found) for server, found in sums.items()}


@dataclass(frozen=True, slots=True)
class ServerRow:
    """One server."""

    name: str
    state: ServerState
    runs: str
    is_command: bool
    description: str
    cost: ServerCosts = ServerCosts()
    last: str = ""
    error: str = ""
    problems: tuple[str, ...] = ()

    @property
    def tone(self) -> str:
        """The colour of its state."""
        return LOOKS[self.state].tone

    @property
    def label(self) -> str:
        """Its state in a person's words."""
        return LOOKS[self.state].label

    @property
    def href(self) -> str:
        """Its page."""
        return f"/servers/{quote(self.name, safe='')}"

    @property
    def trouble(self) -> str:
        """What went wrong, without what the page says anyway."""
        return self.error.removeprefix(f"Server {self.name!r} is not available: ").partition(" Everything else goes")[0]

    @property
    def todo(self) -> str:
        """The next step, if there is one."""
        if self.cost.held:
            return f"Look at {self.cost.held} in quarantine"
        if self.problems and self.state is ServerState.OK:
            return f"{len(self.problems)} tools left out"
        return LOOKS[self.state].todo


def server_rows(crib: Crib, costs: Costs) -> list[ServerRow]:
    """Every configured server, by name."""
    counted = costs.of(crib.catalog)
    enabled = [_enabled(shelf, counted.get(name, ServerCosts())) for name, shelf in crib.shelves.items()]
    disabled = [_row(server, ServerState.DISABLED) for server in crib.disabled.values()]
    return sorted([*enabled, *disabled], key=lambda row: row.name)


def server_row(crib: Crib, costs: Costs, name: str) -> ServerRow | None:
    """One server, if it is configured."""
    if (shelf := crib.shelves.get(name)) is not None:
        return _enabled(shelf, costs.of(crib.catalog).get(name, ServerCosts()))
    return _row(crib.disabled[name], ServerState.DISABLED) if name in crib.disabled else None


def _enabled(shelf: ServerShelf, cost: ServerCosts) -> ServerRow:
    record, config = shelf.record, shelf.config
    return ServerRow(
        config.name,
        state_of(shelf),
        runs(config),
        config.url is None,
        config.description,
        cost,
        record.last_discovery,
        record.error if record.status is DiscoveryStatus.FAILED else "",
        record.problems,
    )


def _row(config: ServerConfig, state: ServerState) -> ServerRow:
    return ServerRow(config.name, state, runs(config), config.url is None, config.description)
