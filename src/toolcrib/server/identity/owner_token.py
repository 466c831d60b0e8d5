"""The owner's token, given by a flag or the environment, or made at the first start; and where all others are kept."""

import ipaddress
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from toolcrib.core.errors import ConfigError, remedy_of
from toolcrib.stores.files import locked, make_directory, read_text, replace_text, sync_directory
from toolcrib.stores.paths import state_directory

VARIABLE = "TOOLCRIB_TOKEN"
SHORTEST = 16
MADE = 43
"""How long a token is that toolcrib made."""


@dataclass(frozen=True, slots=True)
class FoundToken:
    """A token, and where a person finds it."""

    value: str
    origin: str


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def given_token(flag: str | None, env: Mapping[str, str]) -> FoundToken | None:
    """The token somebody chose, if anybody did."""
    for value, origin in ((flag, "--token"), (env.get(VARIABLE), VARIABLE)):
        if value:
            return _checked(FoundToken(value, origin))
    return None


def _checked(token: FoundToken, shortest: int = SHORTEST) -> FoundToken:
    is_long = len(token.value) >= shortest and token.value.isascii()
    if not is_long or " " in token.value or not token.value.isprintable():
        raise ConfigError(
            f"The token given by {token.origin} is too weak.",
            hint=f"Use at least {SHORTEST} ASCII characters without spaces, for example from `openssl rand -hex 32`.",
        )
    return token


def token_path(env: Mapping[str, str]) -> Path:
    """Where the token of this user is kept."""
    return state_directory(env) / "token"


def kept_token(path: Path) -> FoundToken:
    """The token of the file, made if there is none; nobody else may read it."""
    try:
        make_directory(path.parent, 0o700)
        with locked(path):
            if not path.exists():
                replace_text(path, secrets.token_urlsafe(32) + "\n", 0o600)
        path.chmod(0o600)
        sync_directory(path.parent)  # whoever is told the token relies on it
    except OSError as error:
        message, hint = f"The token cannot be kept: {error.strerror}.", f"{remedy_of(error)} Or set {VARIABLE}."
        raise ConfigError(message, where=str(path), hint=hint) from error
    try:
        return _checked(FoundToken((read_text(path) or "").strip(), str(path)), MADE)
    except ConfigError as error:
        hint = "Remove the file: the next start makes another token, which programs with the old one have to be told."
        raise ConfigError(
            f"The token of this file cannot be used. {error.message}", where=str(path), hint=hint
        ) from None
