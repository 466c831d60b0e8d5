"""Servers as rows of a table: how each is doing, what it costs, and what to do about it."""

from typing import NamedTuple
from urllib.parse import quote

from msgspec import structs

from toolcrib.core.kinds import ServerState, StepKind
from toolcrib.core.source import Missing
from toolcrib.server.answers import not_found
from toolcrib.server.views.caller import CallerView
from toolcrib.server.views.servers import ServerView
from toolcrib.server.visit import PageRequest
from toolcrib.server.web.words import sentence


class Look(NamedTuple):
    """How the page shows a state: in a person's words, in which colour, and what to do about it."""

    label: str
    tone: str
    todo: str = ""


_LOOKS = {
    ServerState.OK: Look("ready", "good"),
    ServerState.STALE: Look("old listing", "warn", "See why"),
    ServerState.FAILED: Look("failed", "bad", "See why"),
    ServerState.SIGN_IN: Look("sign in", "warn", "Sign in"),
    ServerState.INSTALLING: Look("installing", "info"),
    ServerState.STARTING: Look("starting", "info"),
    ServerState.ASKING: Look("asking", "info"),
    ServerState.NEVER: Look("not asked yet", "quiet", "Ask for its tools"),
    ServerState.HELD: Look("in quarantine", "bad", "See why"),
    ServerState.DISABLED: Look("off", "quiet"),
}
LOOKS = {state: _LOOKS[state] for state in ServerState}  # fails at the start for a state without a look


class StepButton(NamedTuple):
    """The way to the next step for a server."""

    href: str
    label: str
    icon: str
    is_form: bool
    """Whether it is sent as a form, and not followed as a link."""


_STEPS = {
    StepKind.WAIT: ("", "", "", False),
    StepKind.RETRY: ("/refresh", "Try again", "refresh", True),
    StepKind.REPAIR: ("/refresh", "Repair and retry", "refresh", True),
    StepKind.INSTALL: ("/refresh", "Try again", "refresh", True),
    StepKind.EDIT: ("/edit", "Edit", "edit", False),
    StepKind.ACCEPT: ("#held", "Accept …", "shield", False),
    StepKind.ENABLE: ("/enable", "Switch on", "power", True),
    StepKind.LOOK: ("#problems", "See why", "alert", False),
    StepKind.SIGN_IN: ("", "Sign in", "key", False),
}
STEPS = {kind: _STEPS[kind] for kind in StepKind}  # fails at the start for a step without a button


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
    def story(self) -> str:
        """What went wrong and what it wrote last."""
        return sentence(self.trouble.partition(" Try: ")[0])

    @property
    def button(self) -> StepButton | None:
        """What does the next step, if the page can: one button, or one link."""
        if self.next is None:
            return None
        waits_for_its_turn = self.next.kind is StepKind.WAIT and not self.state.is_underway
        to, label, icon, is_form = STEPS[StepKind.RETRY if waits_for_its_turn else self.next.kind]
        if self.next.kind is StepKind.ACCEPT and self.state is not ServerState.HELD:
            return StepButton("/approvals#held", "Review", "shield", is_form=False)
        if self.next.kind is StepKind.SIGN_IN:
            return StepButton(f"/oauth/start/{quote(self.name, safe='')}", label, icon, is_form)
        return StepButton(f"{self.href}{to}", label, icon, is_form) if label else None

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


class MissingRow(NamedTuple):
    """A server whose offers are not in a list, and why."""

    name: str
    href: str
    """Its page; empty for those who may not see it."""
    label: str
    why: str


def missing_rows(view: CallerView) -> list[MissingRow]:
    """The servers of which nothing is known, in the words of their own pages."""
    return [_missing_row(view, found) for found in view.missing()]


def _missing_row(view: CallerView, found: Missing) -> MissingRow:
    seen = view.server(found.server) if view.is_operator else None
    if seen is None:
        return MissingRow(found.server, "", str(found.status), found.reason)
    row = ServerRow(**structs.asdict(seen))
    return MissingRow(row.name, row.href, row.label, sentence(row.cause or found.reason))


def known_row(visit: PageRequest) -> ServerRow:
    """The server an address names."""
    found = visit.view.server(visit.params["name"])
    if found is None:
        raise not_found("server", visit.params["name"], "It may have been removed.")
    return ServerRow(**structs.asdict(found))
