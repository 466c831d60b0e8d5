"""The owner's token, given by a flag or the environment, or made at the first start; and where all others are kept."""

import ipaddress
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from toolcrib.config.model import Config
from toolcrib.config.sections import AuthConfig
from toolcrib.core.errors import ConfigError, remedy_of
from toolcrib.crib.backend import find_backend
from toolcrib.stores.access_tokens import TokenBook
from toolcrib.stores.files import locked, make_directory, read_text, replace_text, sync_directory
from toolcrib.stores.paths import Environment, state_directory

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


def asks_for_token(config: Config, env: Mapping[str, str], now: Callable[[], float]) -> bool:
    """Whether clients of a toolcrib that serves this need a token."""
    return is_needed(config, given_token(None, env), find_backend(config, Environment(env=env)).tokens(now))


def is_needed(config: Config, given: FoundToken | None, kept: TokenBook) -> bool:
    """Whether clients need a token. Ended and expired ones count as well: ending the last must not open the door."""
    if config.auth_mode != "auto":
        return config.auth_mode == "required"
    is_open = is_loopback(config.host) and config.oauth == "off"
    return bool(not is_open or given or has_issuer(config.auth) or kept.read())


def has_issuer(auth: AuthConfig) -> bool:
    """Whether JWTs are wanted; half of what that needs is an error."""
    needed = {"issuer": auth.issuer, "audience": auth.audience, "jwks": auth.jwks}
    missing = [name for name, value in needed.items() if not value]
    if missing and len(missing) < len(needed):
        raise ConfigError(f"[auth] lacks {' and '.join(missing)}.", hint="JWTs need issuer, audience and jwks.")
    return not missing
