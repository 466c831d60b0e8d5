"""Tokens that callers of the HTTP door present: made here, shown once, kept as digests in a file of the user.

Whatever cannot be read for certain lets nobody in: a damaged file, one that others may write, a field of a later
version.
"""

import hashlib
import hmac
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from toolcrib.core.access import Caller, Grants
from toolcrib.core.errors import CallerError, ConfigError
from toolcrib.core.tool import SecurityLevel
from toolcrib.stores.files import discard_leftovers, locked, read_text, replace_text

PREFIX = "tc_"
SECRET_BYTES = 32
KNOWN_MAX = 1024
NAME_MAX = 64
_NOBODY = "0" * 64
_OTHERS_MAY_WRITE = 0o022

TokenKind = Literal["token", "agent"]
TokenState = Literal["active", "expired", "revoked"]
_Stamp = tuple[int, int, int]


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
        return "active" if self.expires is None or now < self.expires else "expired"


class _Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the file holds."""

    version: Literal[1] = 1
    tokens: tuple[Token, ...] = ()


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


class TokenFile:
    """The tokens of one file, shared between processes; a change counts from the next question on."""

    def __init__(self, path: Path, now: Callable[[], float]) -> None:
        self.path = path
        self._file = str(path)
        self._now = now
        self._stamp: _Stamp | None = None
        self._by_id: dict[str, Token] = {}
        self._known: dict[bytes, tuple[Caller, float]] = {}
        self._problem: ConfigError | None = None

    def read(self) -> tuple[Token, ...]:
        """Every token there is or was; a file that cannot be trusted is an error."""
        text = read_text(self.path)
        if text is None:
            return ()
        _check_owner(self.path)
        try:
            kept = msgspec.json.decode(text, type=_Kept).tokens
        except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
            raise _damaged(self.path, str(error)) from None
        if len({token.id for token in kept}) != len(kept):
            raise _damaged(self.path, "two tokens have the same id")
        return kept

    def create(self, wish: TokenWish) -> tuple[Token, str]:
        """A new token, and the text its holder sends: it cannot be had again."""
        now = self._now()
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
        self._change(lambda kept: (*_without_namesake(kept, token.name, now), token))
        return token, f"{PREFIX}{token_id}_{secret}"

    def revoke(self, name_or_id: str) -> Token:
        """End a token for good; it stays in the file, so that the door does not open when the last one is gone."""
        now = self._now()
        revoked: list[Token] = []

        def end(kept: tuple[Token, ...]) -> tuple[Token, ...]:
            found = _named(kept, name_or_id)
            revoked.append(msgspec.structs.replace(found, revoked=now))
            return tuple(revoked[0] if token is found else token for token in kept)

        self._change(end)
        return revoked[0]

    def identify(self, presented: bytes) -> Caller | None:
        """Who holds this token, if it is one of ours and works; raises while the file cannot be trusted."""
        self._look()
        known = self._known.get(presented)
        if known is None:
            known = self._recognise(presented)
        if known is None or self._now() >= known[1]:
            return None
        return known[0]

    def is_active(self, token_id: str) -> bool:
        """Whether a token still works; not while the file cannot be trusted."""
        with suppress(ConfigError):
            self._look()
            token = self._by_id.get(token_id)
            return token is not None and token.state(self._now()) == "active"
        return False

    def names(self) -> dict[str, str]:
        """The name of every token there is or was, by its id; of none while the file cannot be trusted."""
        with suppress(ConfigError):
            self._look()
            return {token.id: token.name for token in self._by_id.values()}
        return {}

    def _recognise(self, presented: bytes) -> tuple[Caller, float] | None:
        token_id, secret = _split(presented)
        token = self._by_id.get(token_id)
        matches = hmac.compare_digest(token.sha256 if token else _NOBODY, _digest(secret))
        if token is None or not matches or token.state(self._now()) != "active":
            return None
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        known = self._known[presented] = token.caller, float("inf") if token.expires is None else token.expires
        return known

    def _look(self) -> None:
        """Read again if the file has changed."""
        stamp = _stamp_of(self._file)
        if stamp != self._stamp:
            self._known.clear()
            self._by_id, self._problem = {}, None
            self._stamp = stamp
            try:
                self._by_id = {token.id: token for token in self.read()}
            except ConfigError as error:
                self._problem = error
        if self._problem is not None:
            raise self._problem.with_traceback(None)

    def _change(self, change: Callable[[tuple[Token, ...]], tuple[Token, ...]]) -> None:
        _make_private(self.path)
        with locked(self.path):
            text = msgspec.json.format(msgspec.json.encode(_Kept(tokens=change(self.read())))).decode()
            discard_leftovers(self.path)
            with suppress(FileNotFoundError):
                self.path.chmod(0o600)
            replace_text(self.path, text + "\n", 0o600)


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


def _without_namesake(kept: tuple[Token, ...], name: str, now: float) -> tuple[Token, ...]:
    """Refuse a name that is in use; one whose token has ended is free again."""
    if any(token.name == name and token.state(now) == "active" for token in kept):
        raise CallerError(
            f"There is a token called {name!r} already.",
            hint=f"Revoke it with `toolcrib tokens revoke {name}`, or choose another name.",
        )
    return kept


def _named(kept: tuple[Token, ...], wanted: str) -> Token:
    """The token of that id, else the one of that name; names of revoked ones do not count."""
    alive = [token for token in kept if token.revoked is None]
    for found in (token for token in alive if token.id == wanted):
        return found
    for found in (token for token in reversed(alive) if token.name == wanted):
        return found
    raise NoSuchToken(wanted)


def _make_private(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise ConfigError(f"Tokens cannot be kept: {error.strerror}.", where=str(path)) from error


def _check_owner(path: Path) -> None:
    """Whoever can write the file can let anybody in."""
    try:
        status = path.stat()
    except OSError as error:
        raise ConfigError(f"The tokens cannot be read: {error.strerror}.", where=str(path)) from error
    if status.st_uid not in (0, os.geteuid()) or status.st_mode & _OTHERS_MAY_WRITE:
        raise ConfigError(
            "Others may write the file of tokens, so it is not used.",
            where=str(path),
            hint=f"Look at what is in it, then run `chmod 600 {path}`.",
        )


def _damaged(path: Path, reason: str) -> ConfigError:
    return ConfigError(
        f"The file of tokens is damaged: {reason}.",
        where=str(path),
        hint="Nobody is let in by it. Put a good copy in its place, or remove it and create the tokens anew.",
    )


def _stamp_of(path: str) -> _Stamp | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - a plain stat is most of the cost of recognising a token
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
