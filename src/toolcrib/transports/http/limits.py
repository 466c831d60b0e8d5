"""What one client may take from a server, who may stay when there are too many, and what all connections share."""

import heapq
import ipaddress
import resource
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from toolcrib.transports.http.guard import RequestGuard
from toolcrib.transports.http.message import Exchange, HttpRequest, Refusal


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Bytes, seconds and connections; the defaults suit a server that strangers can reach."""

    head_bytes: int = 32 * 1024
    body_bytes: int = 4 * 1024 * 1024
    head_s: float = 10
    body_idle_s: float = 15
    body_total_s: float = 60
    keep_alive_s: float = 75
    write_idle_s: float = 60
    """How long a client may leave what we write unread."""
    linger_s: float = 5
    """How much longer a refused client is listened to, so that it reads the refusal instead of a reset."""
    linger_bytes: int = 32 * 1024 * 1024
    connections: int = 1000
    sweep_s: float = 1
    """How often times are checked; nothing ends later than its limit, but up to this much earlier."""

    @property
    def raw_body_bytes(self) -> int:
        """The most bytes a body may take on the wire: framing of chunks is not content, but is not free either."""
        return 2 * self.body_bytes + 1024 * 1024


BODY_TOO_LARGE = Refusal(413, "HTTP_BODY_TOO_LARGE", "The body is larger than this server takes.")
BODY_TOO_SLOW = Refusal(408, "HTTP_BODY_TOO_SLOW", "The body did not arrive in time.")
CLOSING = Refusal(503, "HTTP_CLOSING", "This connection is being closed.")
HEAD_TOO_LARGE = Refusal(431, "HTTP_HEADERS_TOO_LARGE", "The headers are larger than this server takes.")
HEAD_TOO_SLOW = Refusal(408, "HTTP_HEADERS_TOO_SLOW", "The headers did not arrive in time.")
OLD_CODING = Refusal(400, "HTTP_BAD_REQUEST", "HTTP/1.0 has no Transfer-Encoding; send Content-Length, or HTTP/1.1.")
TOO_MANY = Refusal(
    503, "HTTP_TOO_MANY_CONNECTIONS", "All connections are taken. Try again later.", ((b"retry-after", b"5"),)
)
UNKNOWN_CODING = Refusal(501, "HTTP_UNKNOWN_CODING", "Of the transfer codings, only `chunked` is understood.")
UNKNOWN_EXPECTATION = Refusal(
    417, "HTTP_UNKNOWN_EXPECTATION", "Of the expectations, only `100-continue` is understood."
)
UNKNOWN_METHOD = Refusal(501, "HTTP_UNKNOWN_METHOD", "That is not a method of HTTP.")


FILES_KEPT = 256  # descriptors left for everything that is not a connection
SPARE_PLACES = 100  # refused clients that are still told so; those beyond are dropped without a word
BATCH = 20  # one look over all connections makes room for a twentieth of them, so that a flood pays for few looks

LINGERING, SILENT, IN_HEAD, KEPT_ALIVE, JUST_CAME, IN_BODY = range(6)
"""Who makes room, first to last: refused, sent nothing, slow with a head, between requests, new, slow with a body."""

Address = str | bytes


class Guest(Protocol):
    """A connection, as far as its place is concerned."""

    def waits(self) -> tuple[int, float] | None:
        """What it does instead of being served, and since when; ``None`` while a request is being answered."""

    def abort(self) -> None:
        """Drop the connection."""

    def stop(self) -> None:
        """Finish what is under way and take nothing more."""

    def check_time(self, now: float) -> None:
        """Act on whatever has taken too long."""


class Places:
    """The connections of one server, and who of them makes room for others."""

    def __init__(self, most: int) -> None:
        self.most = min(most, _descriptors())
        self.taken: dict[Guest, Address] = {}
        """By the order they came in."""
        self._silent: dict[Guest, None] = {}
        self._per_address: Counter[Address] = Counter()

    def take(self, guest: Guest, peer: object) -> bool:
        """Give ``guest`` a place, at the cost of others if need be; false when nobody can make room."""
        address = address_of(peer)
        self.taken[guest] = address
        self._silent[guest] = None
        self._per_address[address] += 1
        if len(self._silent) > max(1, self.most // 2):
            self._drop(next(iter(self._silent)))
        is_over_share = self._per_address[address] > self._share(address)
        if is_over_share:
            self._make_room(guest, address)
        elif len(self.taken) > self.most:
            self._make_room(guest, None)
        return len(self.taken) <= self.most and self._per_address[address] <= self._share(address)

    @property
    def are_overrun(self) -> bool:
        """Whether there are too many even to be told so."""
        return len(self.taken) > self.most + SPARE_PLACES

    def hear(self, guest: Guest) -> None:
        """``guest`` has sent its first bytes."""
        self._silent.pop(guest, None)

    def leave(self, guest: Guest) -> None:
        """Give the place back; doing so twice is once."""
        address = self.taken.pop(guest, None)
        if address is None:
            return
        self._silent.pop(guest, None)
        self._per_address[address] -= 1
        if not self._per_address[address]:
            del self._per_address[address]

    def _share(self, address: Address) -> int:
        """How many places one address may have; on this machine everybody has the same one, so it may have all."""
        return self.most if address == "" else max(1, self.most * 3 // 4)

    def _make_room(self, newcomer: Guest, address: Address | None) -> None:
        """Drop the least deserving, of ``address`` alone where that has too many."""
        crowded = self.most // 2
        waiting = [
            (self._per_address[place] <= crowded, *found, number, guest)
            for number, (guest, place) in enumerate(self.taken.items())
            if guest is not newcomer and (address is None or place == address) and (found := guest.waits()) is not None
        ]
        chosen = heapq.nsmallest(max(1, self.most // BATCH), waiting)
        for position, (_, kind, _, _, guest) in enumerate(chosen):
            if kind < IN_BODY or not position:
                self._drop(guest)

    def _drop(self, guest: Guest) -> None:
        self.leave(guest)
        guest.abort()


def address_of(peer: object) -> Address:
    """Whom a connection counts for: its IPv4 address or IPv6 network; empty for this machine."""
    if not isinstance(peer, tuple) or not peer:
        return ""
    try:
        address = ipaddress.ip_address(str(peer[0]).partition("%")[0])
    except ValueError:
        return str(peer[0])
    address = getattr(address, "ipv4_mapped", None) or address
    if address.is_loopback:
        return ""
    return address.packed[:8] if address.version == 6 else str(address)


def _descriptors() -> int:
    """How many connections this process can have open without running out of file descriptors."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1_000_000 if soft == resource.RLIM_INFINITY else max(16, soft - FILES_KEPT)


Handler = Callable[[HttpRequest, Exchange], None]


@dataclass(slots=True, eq=False)
class ConnectionSettings:
    """One server, as its connections see it."""

    routes: Mapping[bytes, Handler]
    fallback: Handler
    guard: RequestGuard
    limits: HttpLimits
    places: Places
    now: float = 0.0
    stopping: bool = False
    when_empty: Callable[[], None] | None = None
