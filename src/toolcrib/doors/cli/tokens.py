"""The owner's token, given by a flag or the environment, or made at the first start; and where all others are kept."""

import ipaddress
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from toolcrib.core.errors import ConfigError
from toolcrib.stores.paths import state_directory

VARIABLE = "TOOLCRIB_TOKEN"
SHORTEST = 16


@dataclass(frozen=True, slots=True)
class Token:
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


def given_token(flag: str | None, env: Mapping[str, str]) -> Token | None:
    """The token somebody chose, if anybody did."""
    for value, origin in ((flag, "--token"), (env.get(VARIABLE), VARIABLE)):
        if value:
            return _checked(Token(value, origin))
    return None


def _checked(token: Token) -> Token:
    if len(token.value) < SHORTEST or not token.value.isascii() or any(map(str.isspace, token.value)):
        raise ConfigError(
            f"The token given by {token.origin} is too weak.",
            hint=f"Use at least {SHORTEST} ASCII characters without spaces, for example from `openssl rand -hex 32`.",
        )
    return token


def token_path(env: Mapping[str, str]) -> Path:
    """Where the token of this user is kept."""
    return state_directory(env) / "token"


def kept_token(path: Path) -> Token:
    """The token of the file, made if there is none; nobody else may read it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _make(path)
        path.chmod(0o600)
        return _checked(Token(path.read_text().strip(), str(path)))
    except OSError as error:
        raise ConfigError(
            f"The token cannot be kept: {error.strerror}.", where=str(path), hint=f"Set {VARIABLE} instead."
        ) from error


def _make(path: Path) -> None:
    """Write a new token beside and link it into place, so that two starts at once agree on one."""
    if path.exists():
        return
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_urlsafe(32) + "\n")
    try:
        os.link(draft, path)
    except FileExistsError:
        return
    finally:
        draft.unlink()
