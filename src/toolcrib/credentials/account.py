"""What is kept of an account at a server, and whose it is."""

import hashlib

import msgspec

from toolcrib.core.kinds import SignInMode
from toolcrib.credentials.oauth import AuthorizationServer, OAuthClient, TokenSet

OWNER = "owner"
"""Whose account it is where somebody on this machine signs in, or the holder of the owner's token."""
LOCAL = frozenset({"local", "owner", ""})


class Account(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept of one account at one server."""

    server: str
    url: str
    user: str
    provider: AuthorizationServer
    client: OAuthClient
    tokens: TokenSet
    obtained_at: float
    """By the wall clock."""
    signed_in_at: float
    resource: str = ""
    asked: tuple[str, ...] = ()
    """The scopes that were asked for, whatever was granted."""
    who: str = ""
    """What the authorization server calls whoever signed in, if it says."""
    error: str = ""
    """Why it cannot be used any more, in the authorization server's own words."""

    @property
    def ends_at(self) -> float | None:
        """When the access token ends; ``None``: when it is refused."""
        return None if self.tokens.life_s is None else self.obtained_at + self.tokens.life_s


def account_name(server: str, url: str, user: str) -> str:
    """Under which an account is kept: a server of the same name at another address is another one."""
    place = hashlib.sha256(url.encode()).hexdigest()[:16]
    return f"account:{server}:{place}:{user}"


def user_of(mode: SignInMode, caller: str) -> str:
    """Whose account a caller uses."""
    return OWNER if mode is not SignInMode.PER_USER or caller in LOCAL else caller
