"""Tokens that callers of the HTTP door present: made here, shown once, kept as digests.

Whatever cannot be read for certain lets nobody in: damaged text, a field of a later version, a copy that is too old.
"""

import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, Protocol

import msgspec

from toolcrib.core.access import Caller, Grants
from toolcrib.core.errors import CallerError, ConfigError, remedy_of
from toolcrib.core.offers import SecurityLevel
from toolcrib.stores.files import (
    Stamp,
    check_private,
    discard_leftovers,
    locked,
    make_directory,
    read_text,
    replace_text,
    stamp_of,
    sync_directory,
)
from toolcrib.stores.paths import state_directory, witness_directory

PREFIX = "tc_"
SECRET_BYTES = 32
KNOWN_MAX = 1024
NAME_MAX = 64
_NOBODY = "0" * 64
EARLY_S = 86_400.0
"""By how much a clock may be behind the one a token was made by. Further behind, nobody knows when it ends."""

TokenKind = Literal["token", "agent", "person"]
"""Whether a program holds it, an agent, or a person, who signs in with it."""
TokenState = Literal["active", "expired", "revoked"]


class AccessToken(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
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
class NewToken:
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

    def read(self) -> tuple[AccessToken, ...]:
        """Every token there is or was."""

    def create(self, wish: NewToken) -> tuple[AccessToken, str]:
        """A new token, and the text its holder sends: it cannot be had again."""

    def revoke(self, name_or_id: str) -> AccessToken:
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
class TokenIndex:
    """The tokens as they were at one moment, ready to recognise them by."""

    by_id: dict[str, AccessToken] = field(default_factory=dict)
    _seen: dict[bytes, tuple[Caller, float, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, tokens: Iterable[AccessToken]) -> "TokenIndex":
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


def make_token(wish: NewToken, now: float) -> tuple[AccessToken, str]:
    """A token as it is kept, and the text its holder sends."""
    token_id, secret = secrets.token_hex(6), secrets.token_urlsafe(SECRET_BYTES)
    grants = wish.grants
    if grants.level is None:
        raise CallerError("A token needs a level.", hint="Choose read_only, write, admin or system.")
    token = AccessToken(
        id=token_id,
        name=check_name(wish.name),
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


def check_name(name: str) -> str:
    """The name, if a token can be called so."""
    if not name.strip() or len(name) > NAME_MAX or not name.isprintable():
        raise CallerError(
            f"{name[:NAME_MAX]!r} cannot be the name of a token.",
            hint=f"Use 1 to {NAME_MAX} printable characters, such as the name of the program that gets it.",
        )
    return name


def refuse_namesake(kept: Iterable[AccessToken], name: str, now: float) -> None:
    """Refuse a name that is in use; one whose token has ended is free again."""
    if any(token.name == name and token.state(now) == "active" for token in kept):
        raise CallerError(
            f"There is a token called {name!r} already.",
            hint=f"Revoke it with `toolcrib tokens revoke {name}`, or choose another name.",
        )


def find_named(kept: Iterable[AccessToken], wanted: str) -> AccessToken:
    """The token of that id, else the one of that name; names of revoked ones do not count."""
    alive = [token for token in kept if token.revoked is None]
    for found in (token for token in alive if token.id == wanted):
        return found
    for found in (token for token in reversed(alive) if token.name == wanted):
        return found
    raise NoSuchToken(wanted)


TOKENS_NAME = "tokens.json"
NOTE_NAME = "tokens-are-asked-for"
NOTE = "toolcrib asks for tokens, because one was made. To end that, run `toolcrib tokens reset`.\n"
_UNSEEN: Stamp = (-1,) * 3


class _Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the file holds."""

    version: Literal[1] = 1
    tokens: tuple[AccessToken, ...] = ()


class TokenFile:
    """The tokens of one file, shared between processes; a change counts from the next question on."""

    def __init__(self, path: Path, now: Callable[[], float], note: Path | None = None) -> None:
        """``note`` is where is noted that there are tokens; without one, a file that is gone had none."""
        self.path, self._note = path, note
        self._file = str(path)
        self._now = now
        self._stamp: Stamp | None = _UNSEEN
        self._known = TokenIndex()
        self._problem: ConfigError | None = None

    def read(self) -> tuple[AccessToken, ...]:
        """Every token there is or was; a file that cannot be trusted is an error."""
        text = read_text(self.path)
        if text is None:
            return self._none("gone")
        check_private(self.path, "tokens")
        try:
            kept = msgspec.json.decode(text, type=_Kept).tokens
        except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
            raise _damaged(self.path, str(error)) from None
        if len({token.id for token in kept}) != len(kept):
            raise _damaged(self.path, "two tokens have the same id")
        return kept or self._none("empty")

    def create(self, wish: NewToken) -> tuple[AccessToken, str]:
        """A new token, and the text its holder sends: it cannot be had again."""
        now = self._now()
        token, text = make_token(wish, now)
        with self._changing() as kept:
            refuse_namesake(kept, token.name, now)
            kept.append(token)
        return token, text

    def revoke(self, name_or_id: str) -> AccessToken:
        """End a token for good; it stays in the file, so that the door does not open when the last one is gone."""
        with self._changing() as kept:
            found = find_named(kept, name_or_id)
            revoked = msgspec.structs.replace(found, revoked=self._now())
            kept[kept.index(found)] = revoked
        return revoked

    def identify(self, presented: bytes) -> Caller | None:
        """Who holds this token, if it is one of ours and works; raises while the file cannot be trusted."""
        return self._look().identify(presented, self._now())

    def is_active(self, token_id: str) -> bool:
        """Whether a token still works; not while the file cannot be trusted."""
        with suppress(ConfigError):
            return self._look().is_active(token_id, self._now())
        return False

    def has_ended(self, token_id: str) -> bool:
        """Whether a token works no more; so it is while the file cannot be trusted."""
        return not self.is_active(token_id)

    def names(self) -> dict[str, str]:
        """The name of every token there is or was, by its id; of none while the file cannot be trusted."""
        with suppress(ConfigError):
            return self._look().names()
        return {}

    def reset(self) -> None:
        """End all tokens and forget that there were any, so that none is asked for."""
        with locked(self.path):
            for path in (self.path, self._note):
                if path is not None and path.exists():
                    path.unlink()
                    sync_directory(path.parent)

    def _none(self, how: str) -> tuple[AccessToken, ...]:
        """No tokens; where some were made, that is an error."""
        if self._note is None or not self._note.exists():
            return ()
        raise ConfigError(
            f"Tokens were made, but their file is {how}, so nobody is let in.",
            where=str(self.path),
            hint="Put it back, or run `toolcrib tokens reset` to end all tokens and begin anew.",
        )

    async def follow(self) -> None:
        """Nothing to do: every question looks at the file."""

    def _look(self) -> TokenIndex:
        """The tokens, read again if the file has changed."""
        stamp = stamp_of(self._file)
        if stamp != self._stamp:
            self._known, self._problem = TokenIndex(), None
            self._stamp = stamp
            try:
                self._known = TokenIndex.of(self.read())
            except ConfigError as error:
                self._problem = error
        if self._problem is not None:
            raise self._problem.with_traceback(None)
        return self._known

    @contextmanager
    def _changing(self) -> Iterator[list[AccessToken]]:
        """What is kept, while nobody else can change it; what becomes of it is written when the block ends well."""
        _make_private(self.path)
        with locked(self.path):
            kept = list(self.read())
            yield kept
            text = msgspec.json.format(msgspec.json.encode(_Kept(tokens=tuple(kept)))).decode()
            discard_leftovers(self.path)
            with suppress(FileNotFoundError):
                self.path.chmod(0o600)
            replace_text(self.path, text + "\n", 0o600)
            # Last, for a note without tokens would keep everybody out; and a token in its file closes the door as well.
            with suppress(ConfigError, OSError):
                if self._note is not None:
                    _make_private(self._note)
                    replace_text(self._note, NOTE, 0o600)


def token_file(env: Mapping[str, str], now: Callable[[], float]) -> TokenFile:
    """The tokens of this user."""
    return TokenFile(state_directory(env) / TOKENS_NAME, now, witness_directory(env) / NOTE_NAME)


def _make_private(path: Path) -> None:
    try:
        make_directory(path.parent, 0o700)
    except OSError as error:
        raise ConfigError(
            f"Tokens cannot be kept: {error.strerror}.", where=str(path), hint=remedy_of(error)
        ) from error


def _damaged(path: Path, reason: str) -> ConfigError:
    return ConfigError(
        f"The file of tokens is damaged: {reason}.",
        where=str(path),
        hint="Nobody is let in by it. Put back a good copy, or run `toolcrib tokens reset` and create the tokens anew.",
    )
