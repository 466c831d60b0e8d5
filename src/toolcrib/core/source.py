"""Everything that offers something: it can list, and it can answer requests."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from toolcrib.core.kinds import DiscoveryStatus, LinkState
from toolcrib.core.offers import Offer, Tool
from toolcrib.core.requests import Request, Result


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

    @property
    def offers(self) -> tuple[Offer, ...]:
        """All of it; the tools themselves where there is nothing else, so that they can be compared by identity."""
        return (*self.tools, *self.others) if self.others else self.tools


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


class ServerSource(Source, Protocol):
    """A source that lives elsewhere: it is connected to, lost and found again."""

    def adopt(self, listing: Listing) -> None:
        """Take over what an earlier discovery found, without connecting."""

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
