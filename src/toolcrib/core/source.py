"""Everything that offers something: it can list, and it can answer requests."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from toolcrib.core.access import Caller
from toolcrib.core.kinds import DiscoveryStatus, LinkState, Share
from toolcrib.core.names import URI_MAX, join_name, to_public
from toolcrib.core.offers import Offer, OfferKind, Tool
from toolcrib.core.requests import Request, Result

ListPage = tuple[str, tuple[str, ...]]
"""A page of a source's list: the cursor that leads to it, empty for the first, and the names on it in their order."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What a source offers right now."""

    tools: tuple[Tool, ...]
    ttl_s: float | None = None
    """How long the source itself says this holds; ``None`` when it does not say."""
    problems: tuple[str, ...] = ()
    """What was left out, and why."""
    era: str = ""
    """The protocol revision the source was found to speak; empty for native sources."""
    others: tuple[Offer, ...] = ()
    """Resources, resource templates and prompts."""
    instructions: str = ""
    """How the source says it wants to be used, for a model."""
    features: tuple[str, ...] = ()
    """What it can do besides: ``completions``, ``logging``, ``subscribe``, ``tasks``."""
    quiet: tuple[Tool, ...] = ()
    """Tools that can be called and are not listed."""
    pages: Mapping[OfferKind, tuple[ListPage, ...]] = field(default_factory=dict, compare=False)
    """How it lists each kind itself."""
    asks: bool = False
    """Whether it was seen to ask something that nobody could be asked, because several callers shared it."""

    @property
    def offers(self) -> tuple[Offer, ...]:
        """All of it; the tools themselves where there is nothing else, so that they can be compared by identity."""
        return (*self.tools, *self.others, *self.quiet) if self.others or self.quiet else self.tools


class HandedLinks:
    """The URIs that results spoke of, as clients see them, and which server each is of: a resource that no list
    contains can be read by whoever was handed the link.

    What a server hands to a caller has a room of its own: however much that is, it costs no other server's links.
    """

    ROOM = 256 * 1024
    """Characters of what one server handed to one caller; the oldest make room."""
    ROOMS = 200

    def __init__(self, *, prefix: bool = True) -> None:
        self._prefix = prefix
        self._rooms: dict[tuple[str, str], _Room] = {}

    def hand_out(self, caller: str, server: str, uri: str) -> str:
        """The URI as that caller sees it, noted."""
        if len(uri) <= URI_MAX:
            room = self._rooms.pop((caller, server), None) or _Room()
            room.put(join_name(server, uri) if self._prefix else uri, self.ROOM)
            self._rooms[caller, server] = room
            if len(self._rooms) > self.ROOMS:
                del self._rooms[next(iter(self._rooms))]
        return to_public(server, uri) if self._prefix else uri

    def owner(self, caller: str, name: str) -> str:
        """The server that handed a resource out to the caller, by toolcrib's name for it; empty if none did."""
        rooms = self._rooms.items()
        return next((server for (who, server), room in rooms if who == caller and name in room.names), "")


class _Room:
    """What one server handed to one caller, the oldest first."""

    __slots__ = ("names", "taken")

    def __init__(self) -> None:
        self.names: dict[str, None] = {}
        self.taken = 0

    def put(self, name: str, most: int) -> None:
        if self.names.pop(name, name) is None:
            self.taken -= len(name)
        self.names[name] = None
        self.taken += len(name)
        while self.taken > most:
            oldest = next(iter(self.names))
            del self.names[oldest]
            self.taken -= len(oldest)


class Source(Protocol):
    """A place offers come from: native functions, an MCP server, the knowledge base, a program's own."""

    @property
    def name(self) -> str:
        """The prefix of what it offers; empty for what is in this process."""

    async def list_offers(self) -> Listing:
        """Ask for what it offers; connects or starts what is needed."""

    async def answer(self, call: Request) -> Result:
        """Answer a request (``call.kind`` says what is asked) for what it listed; a tool's failure is a result, failure
        to reach it an exception."""

    def on_change(self, listener: Callable[[], None]) -> None:
        """Have ``listener`` called when what it offers changed."""

    async def close(self) -> None:
        """Let go of everything; safe to call twice."""


class LocalSource(Source, Protocol):
    """A source whose tools are known without asking."""

    @property
    def listing(self) -> Listing:
        """The tools right now."""

    def register(self, function: Callable[..., Any], /) -> Tool:
        """Add a tool."""

    def unregister(self, name: str) -> bool:
        """Remove a tool; whether there was one."""

    async def ailing(self) -> Mapping[str, str]:
        """The tools whose own health check fails, and why."""


class ClientSide(NamedTuple):
    """What a client says of itself, and how it is told something that it did not ask for."""

    info: Mapping[str, Any]
    capabilities: Mapping[str, Any]
    tell: Callable[[str, Mapping[str, Any]], None] | None = None


class ServerSide(NamedTuple):
    """What a server says of itself."""

    info: Mapping[str, Any]
    capabilities: Mapping[str, Any]


class Lane(NamedTuple):
    """Whose process or session of a server it is; both empty: that of all callers."""

    caller: str = ""
    session: str = ""


MAIN_LANE = Lane()


@dataclass(frozen=True, slots=True)
class LaneStatus:
    """How one caller's process or session of a server is doing."""

    caller: str
    session: str
    """Not the id of the session, which is a credential, but what it can be told apart by."""
    state: LinkState
    pid: int | None
    restarts: int
    idle_s: float
    """For how long nobody has used it."""
    error: str


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """How a server is doing right now."""

    state: LinkState
    era: str = ""
    pid: int | None = None
    restarts: int = 0
    error: str = ""
    stdout_noise: int = 0
    isolation: str = ""
    """How far its process is kept from the rest; empty when there is none, or none was started yet."""
    server_info: Mapping[str, Any] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    doing: str = ""
    """What it is busy with before it is connected, in one line."""
    since: float = 0.0
    """When it came to be in that state, by the wall clock; zero when nobody knows."""
    attempt: int = 0
    """Which attempt to connect is under way, or failed last; zero once it is connected."""
    share: Share = Share.ALL
    """Who shares one process or session of it."""
    share_reason: str = ""
    lanes: tuple[LaneStatus, ...] = ()
    """The processes or sessions that not all callers share."""
    lanes_max: int = 0


class ServerSource(Source, Protocol):
    """A source that lives elsewhere: it is connected to, lost and found again."""

    def adopt(self, listing: Listing) -> None:
        """Take over what an earlier discovery found, without connecting."""

    def on_update(self, listener: Callable[[Lane, str], None]) -> None:
        """Have ``listener`` called with the URI of a watched resource that changed, and the lane it changed in."""

    async def watch(self, uris: frozenset[str], lane: Lane = MAIN_LANE) -> None:
        """Be told when one of these resources changes in a lane, and of no other; raises what the source says against
        it."""

    def lane_of(self, caller: Caller) -> Lane:
        """The lane that requests of a caller go by."""

    def end_session(self, session: str) -> None:
        """A client's session is over: close what only that session used."""

    def roots_changed(self, caller: Caller) -> None:
        """A client says that the directories changed which it lets servers work in."""

    def on_asking(self, listener: Callable[[], None]) -> None:
        """Have ``listener`` called when it asks something, and nobody can tell which of several callers it means."""

    def on_installing(self, listener: Callable[[bool], None]) -> None:
        """Have ``listener`` called when its command begins to fetch what it runs, and when that is over."""

    def on_trouble(self, listener: Callable[[], None]) -> None:
        """Have ``listener`` called after each failed attempt to connect."""

    def forgive(self) -> None:
        """Try again at the next need, whatever happened before."""

    def status(self) -> SourceStatus:
        """How it is doing."""

    def log_lines(self, count: int) -> Sequence[str]:
        """The last lines the server wrote to stderr."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A server whose tools are not in the list because nobody knows them yet, or any more."""

    server: str
    status: DiscoveryStatus
    reason: str
