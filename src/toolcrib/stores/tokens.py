"""Tokens that callers of the HTTP door present: made here, shown once, kept as digests.

Whatever cannot be read for certain lets nobody in: damaged text, a field of a later version, a copy that is too old.
"""

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Literal, Protocol

import msgspec

from toolcrib.core.access import Caller, Grants
from toolcrib.core.errors import CallerError
from toolcrib.core.tool import SecurityLevel

PREFIX = "tc_"
SECRET_BYTES = 32
KNOWN_MAX = 1024
NAME_MAX = 64
_NOBODY = "0" * 64
EARLY_S = 86_400.0
"""By how much a clock may be behind the one a token was made by. Further behind, nobody knows when it ends."""

TokenKind = Literal["token", "agent"]
TokenState = Literal["active", "expired", "revoked"]


class Token(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One token as it is kept; times are seconds since 1970."""

    id: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{12}\Z")]
    name: str
    sha256: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
    created: float
    level: SecurityLevel
    kind: TokenKind = "token"
    servers: tuple[str, ...] = ("*",)
    tools: tuple[str, ...] = ("*",)
    capabilities: tuple[str, ...] | None = None
    """``None``: tools may need whatever they need."""
    expires: float | None = None
    revoked: float | None = None

    @property
    def grants(self) -> Grants:
        """What its holder may reach."""
        capabilities = None if self.capabilities is None else frozenset(self.capabilities)
        return Grants(self.level, self.servers, self.tools, capabilities)

    @property
    def caller(self) -> Caller:
        """Its holder."""
        return Caller(f"token:{self.id}", self.kind, self.grants)

    def state(self, now: float) -> TokenState:
        """Whether it works."""
        if self.revoked is not None:
            return "revoked"
        begins, ends = self.span
        return "active" if begins <= now < ends else "expired"

    @property
    def span(self) -> tuple[float, float]:
        """From when until when it works; one that expires does not work long before it was made: a clock that was set
        back must not make it last for years."""
        return (float("-inf"), float("inf")) if self.expires is None else (self.created - EARLY_S, self.expires)


@dataclass(frozen=True, slots=True)
class TokenWish:
    """What a new token is to be."""

    name: str
    grants: Grants
    kind: TokenKind = "token"
    lifetime_s: float | None = None
    """``None``: it does not expire."""


class NoSuchToken(CallerError):
    """No token has that name or id."""

    code = "RESOURCE_NOT_FOUND"

    def __init__(self, wanted: str) -> None:
        super().__init__(f"No active token is called {wanted!r}.", hint="See `toolcrib tokens ls`.")


class TokenBook(Protocol):
    """Where tokens are kept; whatever cannot be trusted raises, and lets nobody in."""

    def read(self) -> tuple[Token, ...]:
        """Every token there is or was."""

    def create(self, wish: TokenWish) -> tuple[Token, str]:
        """A new token, and the text its holder sends: it cannot be had again."""

    def revoke(self, name_or_id: str) -> Token:
        """End a token for good; it stays on record, so that the door does not open when the last one is gone."""

    def identify(self, presented: bytes) -> Caller | None:
        """Who holds this token, if it is one of ours and works."""

    def is_active(self, token_id: str) -> bool:
        """Whether a token still works; not while that cannot be known."""

    def has_ended(self, token_id: str) -> bool:
        """Whether a token works no more by the last that was known: reason enough to see its holder off."""

    def names(self) -> dict[str, str]:
        """The name of every token there is or was, by its id; of none while that cannot be known."""

    async def follow(self) -> None:
        """Keep up with changes that others make, for as long as somebody serves; returns if that takes nothing."""


@dataclass(frozen=True, slots=True)
class Known:
    """The tokens as they were at one moment, ready to recognise them by."""

    by_id: dict[str, Token] = field(default_factory=dict)
    _seen: dict[bytes, tuple[Caller, float, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, tokens: Iterable[Token]) -> "Known":
        """These tokens."""
        return cls({token.id: token for token in tokens})

    def identify(self, presented: bytes, now: float) -> Caller | None:
        """Who holds this token, if it is among them and works."""
        seen = self._seen.get(presented)
        if seen is None:
            seen = self._recognise(presented, now)
        return seen[0] if seen is not None and seen[1] <= now < seen[2] else None

    def is_active(self, token_id: str, now: float) -> bool:
        """Whether a token works."""
        token = self.by_id.get(token_id)
        return token is not None and token.state(now) == "active"

    def names(self) -> dict[str, str]:
        """Their names, by id."""
        return {token.id: token.name for token in self.by_id.values()}

    def _recognise(self, presented: bytes, now: float) -> tuple[Caller, float, float] | None:
        token_id, secret = _split(presented)
        token = self.by_id.get(token_id)
        matches = hmac.compare_digest(token.sha256 if token else _NOBODY, _digest(secret))
        if token is None or not matches or token.state(now) != "active":
            return None
        if len(self._seen) >= KNOWN_MAX:
            self._seen.clear()
        seen = self._seen[presented] = token.caller, *token.span
        return seen


def make_token(wish: TokenWish, now: float) -> tuple[Token, str]:
    """A token as it is kept, and the text its holder sends."""
    token_id, secret = secrets.token_hex(6), secrets.token_urlsafe(SECRET_BYTES)
    grants = wish.grants
    if grants.level is None:
        raise CallerError("A token needs a level.", hint="Choose read_only, write, admin or system.")
    token = Token(
        id=token_id,
        name=_checked_name(wish.name),
        sha256=_digest(secret.encode()),
        created=now,
        level=grants.level,
        kind=wish.kind,
        servers=grants.servers,
        tools=grants.tools,
        capabilities=None if grants.capabilities is None else tuple(sorted(grants.capabilities)),
        expires=None if wish.lifetime_s is None else now + wish.lifetime_s,
    )
    return token, f"{PREFIX}{token_id}_{secret}"


def _split(presented: bytes) -> tuple[str, bytes]:
    prefix, _, rest = presented.partition(b"_")
    token_id, _, secret = rest.partition(b"_")
    return (token_id.decode("latin-1"), secret) if prefix == b"tc" else ("", secret)


def _digest(secret: bytes) -> str:
    return hashlib.sha256(secret).hexdigest()


def _checked_name(name: str) -> str:
    if not name.strip() or len(name) > NAME_MAX or not name.isprintable():
        raise CallerError(
            f"{name[:NAME_MAX]!r} cannot be the name of a token.",
            hint=f"Use 1 to {NAME_MAX} printable characters, such as the name of the program that gets it.",
        )
    return name


def refuse_namesake(kept: Iterable[Token], name: str, now: float) -> None:
    """Refuse a name that is in use; one whose token has ended is free again."""
    if any(token.name == name and token.state(now) == "active" for token in kept):
        raise CallerError(
            f"There is a token called {name!r} already.",
            hint=f"Revoke it with `toolcrib tokens revoke {name}`, or choose another name.",
        )


def find_named(kept: Iterable[Token], wanted: str) -> Token:
    """The token of that id, else the one of that name; names of revoked ones do not count."""
    alive = [token for token in kept if token.revoked is None]
    for found in (token for token in alive if token.id == wanted):
        return found
    for found in (token for token in reversed(alive) if token.name == wanted):
        return found
    raise NoSuchToken(wanted)
