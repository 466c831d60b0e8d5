"""One open way to an MCP server: questions in, raw results out, whatever the transport."""

import re
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec
from msgspec import Raw

from toolcrib.core.call import SILENT, BackChannel
from toolcrib.core.errors import RemoteError
from toolcrib.sources.redactor import NO_SECRETS, Redactor
from toolcrib.wire.jsonrpc import decode_error

CLIENT_NAME = "toolcrib"
UNREADABLE_ENDS = 256
_ID = re.compile(rb'"id"\s*:\s*(\d{1,15})\b')
SILENCE_COUNTS_S = 1.0
"""A question given up sooner says nothing about the server: somebody changed their mind."""
UNREACHABLE = frozenset({"resolve", "connect", "tls"})
"""The phases of an HTTP request in which nothing has reached the server yet."""


def _ignore(line: str) -> None:
    """Nobody wants to hear it."""


class Question(msgspec.Struct):
    """One request to a server."""

    id: int
    method: str
    params: bytes
    name: str = ""
    """What the stateless era mirrors into the ``Mcp-Name`` header."""
    headers: Sequence[tuple[bytes, bytes]] = ()
    channel: BackChannel = SILENT
    version: str = ""
    """The revision the request is made in; empty while it is still being negotiated by a handshake."""
    sent: bool = False
    """Set by the link once the request may have reached the server."""


@dataclass(frozen=True, slots=True)
class LinkEvents:
    """What a link tells its owner on its own account; all are called on the event loop and never wait."""

    tools_changed: Callable[[], None]
    lost: Callable[[], None]
    noise: Callable[[str], None] = _ignore
    """A line that is no message; at most one a second."""
    redactor: Redactor = NO_SECRETS
    """Takes the secrets out of whatever the server says, before the link itself looks at it."""


@dataclass(frozen=True, slots=True)
class Remains:
    """What can be said of a server's process or connection, also after trouble."""

    pid: int | None = None
    exit_code: int | None = None
    stderr: Sequence[str] = ()
    noise_count: int = 0
    noise: Sequence[str] = ()
    heard_at: float = 0.0
    isolation: str = ""
    """When the last message came, by the event loop's clock; zero before the first one."""


class Link(Protocol):
    """A connection to one server."""

    discover_patience_s: float
    """How long a server may take to answer a first question it need not know; one on a pipe may just ignore it."""

    @property
    def is_open(self) -> bool:
        """Whether a question can be sent."""

    @property
    def is_busy(self) -> bool:
        """Whether somebody waits for an answer."""

    def new_id(self) -> int:
        """An id no other question of this link has."""

    async def ask(self, question: Question) -> Raw:
        """The raw result; a server's error answer is a ``RemoteError``, a lost connection ``ConnectionLost``."""

    def tell(self, method: str, params: bytes) -> None:
        """Send a notification, without waiting for it to arrive."""

    def agree(self, version: str) -> None:
        """Speak ``version`` from now on."""

    def listen(self, params: bytes) -> None:
        """Have the server tell of changed tools, in the way of the agreed revision; never fails the caller."""

    def remains(self) -> Remains:
        """What the server left to look at."""

    async def close(self) -> None:
        """End it; safe to call twice."""


async def bury(link: Link | None) -> Remains:
    """Close a link that failed and keep what it left behind."""
    if link is None:
        return Remains()
    remains = link.remains()
    await link.close()
    after = link.remains()
    return after if after.exit_code is not None else remains


@dataclass(slots=True)
class Silence:
    """Questions given up one after another over one link, with nothing heard in between."""

    count: int = 0
    last_at: float = 0.0
    """When the last of them was given up."""

    def note(self, asked_at: float, now: float, heard_at: float) -> None:
        """One more was given up; questions asked side by side count as one."""
        if now - asked_at < SILENCE_COUNTS_S:
            return
        if heard_at > asked_at:
            self.count = 0
        elif asked_at >= self.last_at:
            self.count = self.count + 1 if heard_at <= self.last_at else 1
            self.last_at = now

    def lasts(self, heard_at: float) -> bool:
        """Whether something was given up and nothing heard since."""
        return self.count > 0 and heard_at <= self.last_at


def names_request(message: bytes, pending: Container[int]) -> set[int]:
    """Which requests under way a message that cannot be read as a whole may be the answer to, by its two ends."""
    ends = message[:UNREADABLE_ENDS] + b" " + message[-UNREADABLE_ENDS:]
    return {request_id for found in _ID.findall(ends) if (request_id := int(found)) in pending}


def to_remote_error(raw: Raw | bytes) -> RemoteError:
    """A server's error answer as an exception that keeps its code, words and data."""
    body = decode_error(raw)
    return RemoteError(body.code, body.message or "The server answered with an error.", data=body.data)
