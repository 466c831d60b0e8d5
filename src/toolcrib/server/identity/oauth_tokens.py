"""Tokens of connected clients: an access token is signed and says itself what it grants; a refresh token works once.

An access token needs no look at what is kept but whether its connection was revoked, so every replica knows it at once.
A refresh token carries a signature as well: one that was good once and is not any more is recognised for what it is, a
copy in the wrong hands, without keeping a list of all there ever were.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Callable

import msgspec

from toolcrib.core.access import Caller, Grants
from toolcrib.core.offers import SecurityLevel
from toolcrib.stores.access_tokens import TokenBook
from toolcrib.stores.connections import ConnectedClient, ConnectionBook

ACCESS_PREFIX = "tco_"
REFRESH_PREFIX = "tcr_"
ACCESS_S = 3600.0
EARLY_S = 600.0
"""By how much the clock of a replica may be behind the one that made a token."""
LONGEST = 8 * 1024
KNOWN_MAX = 1024
TAG_DIGITS = 32
CALLER_KIND = "oauth"
OWNER_USER = "owner@page"


class AccessClaims(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What an access token says."""

    connection: str
    user: str
    level: SecurityLevel
    servers: tuple[str, ...]
    tools: tuple[str, ...]
    capabilities: tuple[str, ...] | None
    resource: str
    made: float
    ends: float

    @property
    def caller(self) -> Caller:
        """Who comes with it: an agent, whatever its person may do."""
        capabilities = None if self.capabilities is None else frozenset(self.capabilities)
        grants = Grants(self.level, self.servers, self.tools, capabilities)
        return Caller(f"{CALLER_KIND}:{self.connection}", "agent", grants, audience=self.resource)


_claims = msgspec.json.Decoder(AccessClaims)


def make_access_token(connection: ConnectedClient, key: bytes, now: float) -> str:
    """An access token for a connected client."""
    claims = AccessClaims(
        connection.id,
        connection.user,
        connection.level,
        connection.servers,
        connection.tools,
        connection.capabilities,
        connection.resource,
        now,
        now + ACCESS_S,
    )
    body = _to_text(msgspec.json.encode(claims))
    return f"{ACCESS_PREFIX}{body}.{_to_text(_sign(key, b'access ' + body.encode()))}"


def read_access_token(presented: bytes, key: bytes) -> AccessClaims | None:
    """What an access token says, if we signed it; whether it still counts is for the caller to look at."""
    body, _, signature = presented.removeprefix(ACCESS_PREFIX.encode()).partition(b".")
    right = _to_text(_sign(key, b"access " + body)).encode()
    if not key or len(presented) > LONGEST or not hmac.compare_digest(right, signature):
        return None
    try:
        return _claims.decode(base64.urlsafe_b64decode(body + b"=" * (-len(body) % 4)))
    except (msgspec.MsgspecError, binascii.Error, ValueError):
        return None


def make_refresh_token(connection_id: str, key: bytes) -> str:
    """A refresh token of a connection."""
    secret = f"{connection_id}_{secrets.token_hex(24)}"
    return f"{REFRESH_PREFIX}{secret}_{_tag(key, secret)}"


def connection_of(refresh_token: str, key: bytes) -> str | None:
    """The connection a refresh token was made for, if we made it, whether or not it still works."""
    secret, _, tag = refresh_token.removeprefix(REFRESH_PREFIX).rpartition("_")
    is_ours = refresh_token.startswith(REFRESH_PREFIX) and len(refresh_token) <= LONGEST and refresh_token.isascii()
    if not key or not is_ours or not hmac.compare_digest(tag, _tag(key, secret)):
        return None
    return secret.partition("_")[0]


def _tag(key: bytes, secret: str) -> str:
    return _sign(key, b"refresh " + secret.encode()).hex()[:TAG_DIGITS]


def _sign(key: bytes, text: bytes) -> bytes:
    return hmac.new(key, text, hashlib.sha256).digest()


def _to_text(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


class ConnectedCallers:
    """Recognises connected clients by their access tokens."""

    def __init__(self, book: ConnectionBook, users: TokenBook, now: Callable[[], float]) -> None:
        self.book, self.users, self._now = book, users, now
        self._seen: dict[bytes, tuple[AccessClaims, Caller, bytes]] = {}

    def identify(self, presented: bytes) -> Caller | None:
        """Who sends this token, if it counts now; raises while nobody knows what was revoked."""
        key = self.book.look().key
        seen = self._seen.get(presented)
        if seen is None or seen[2] != key:
            claims = read_access_token(presented, key)
            if claims is None:
                return None
            seen = self._remember(presented, claims, key)
        claims, caller, _ = seen
        is_timely = claims.made - EARLY_S <= self._now() < claims.ends
        return caller if is_timely and self.is_current(caller) and self.is_user(claims.user) else None

    def is_current(self, caller: Caller) -> bool:
        """Whether a connected client was not revoked; raises while nobody knows."""
        connection_id = caller.id.partition(":")[2]
        connection = self.book.look().connections.get(connection_id)
        # One that is not known was made by another replica a moment ago: all that are revoked are known.
        return connection is None or (connection.revoked is None and self.is_user(connection.user))

    def is_user(self, user: str) -> bool:
        """Whether somebody may still let clients in, and those they let in may stay."""
        kind, _, token_id = user.partition(":")
        return user == OWNER_USER or (kind == "token" and not self.users.has_ended(token_id))

    def _remember(self, presented: bytes, claims: AccessClaims, key: bytes) -> tuple[AccessClaims, Caller, bytes]:
        if len(self._seen) >= KNOWN_MAX:
            self._seen.clear()
        seen = self._seen[presented] = claims, claims.caller, key
        return seen


def is_person(caller: Caller) -> bool:
    """Whether a caller may let clients in: the owner, or somebody who was invited."""
    return caller.id == OWNER_USER or caller.kind == "person"
