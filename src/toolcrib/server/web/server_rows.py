"""Servers as rows of a table: how each is doing, what it costs, and what to do about it."""

from typing import NamedTuple, assert_never
from urllib.parse import quote

from msgspec import structs

from toolcrib.core.kinds import ServerState
from toolcrib.server.answers import not_found
from toolcrib.server.views.caller import CallerView
from toolcrib.server.views.servers import ServerView
from toolcrib.server.visit import PageRequest


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


class ServerRow(ServerView):
    """One server with the words of the page."""

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
        return (
            (self.error or "")
            .removeprefix(f"Server {self.name!r} is not available: ")
            .partition(" Everything else goes")[0]
        )

    @property
    def todo(self) -> str:
        """The next step, if there is one."""
        if self.held:
            return f"Look at {len(self.held)} in quarantine"
        if self.problems and self.state is ServerState.OK:
            return f"{len(self.problems)} tools left out"
        return LOOKS[self.state].todo


def server_rows(view: CallerView) -> list[ServerRow]:
    """Every server, by name."""
    return [ServerRow(**structs.asdict(server)) for server in view.servers()]


def known_row(visit: PageRequest) -> ServerRow:
    """The server an address names."""
    found = visit.view.server(visit.params["name"])
    if found is None:
        raise not_found("server", visit.params["name"], "It may have been removed.")
    return ServerRow(**structs.asdict(found))
