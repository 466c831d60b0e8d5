"""How toolcrib signs in at a server: the table ``[servers.NAME.oauth]``, and the same in other programs' words."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from toolcrib.config import values as readers
from toolcrib.config.keys import Key, keys_of, prefer
from toolcrib.config.values import Mismatch
from toolcrib.core.kinds import SignInMode


def read_resource(value: object) -> str | bool:
    """The resource that tokens are asked for; false: none is named."""
    if value is False:
        return False
    return readers.address(value)


@dataclass(frozen=True, slots=True)
class OAuthConfig:
    """What a person may have to say for a provider that cannot tell; everything else is found out."""

    mode: Annotated[SignInMode, prefer(readers.one_of(*SignInMode))] = SignInMode.SHARED
    client_id: Annotated[str, prefer(readers.some_text)] = ""
    """Of a client that was registered by hand; empty: by metadata document or registration."""
    client_secret: Annotated[str, prefer(readers.reference)] = ""
    private_key: Annotated[str, prefer(readers.reference)] = ""
    """A reference to a PEM key, or to the path of one: the client proves itself by a signed JWT."""
    issuer: Annotated[str, prefer(readers.address)] = ""
    """The only authorization server to sign in at; empty: the one that the server names."""
    scopes: Annotated[tuple[str, ...], prefer(readers.texts("scopes"))] = ()
    resource: Annotated[str | bool, prefer(read_resource)] = ""
    """What tokens are asked for; empty: the server's own address, false: it is not said."""
    audience: Annotated[str, prefer(readers.some_text)] = ""
    extra: Annotated[Mapping[str, str], prefer(readers.text_map)] = field(default_factory=dict)
    """Further parameters of the authorization request."""
    callback_port: Annotated[int | None, prefer(readers.port)] = None
    """Where the browser comes back to on this machine; ``None``: where toolcrib listens anyway."""
    subject_token: Annotated[str, prefer(readers.reference)] = ""
    """A reference to the token, or to the path of one, that is exchanged for one of this server."""
    subject_token_type: Annotated[str, prefer(readers.some_text)] = ""
    idp: Annotated[str, prefer(readers.address)] = ""
    """The identity provider whose assertion this server's authorization server takes; empty: subject_token is one."""
    idp_client_id: Annotated[str, prefer(readers.some_text)] = ""
    idp_client_secret: Annotated[str, prefer(readers.reference)] = ""


OAUTH_KEYS: Mapping[str, Key] = keys_of(OAuthConfig)
_FOREIGN = {
    "clientId": "client_id",
    "clientSecret": "client_secret",
    "callbackPort": "callback_port",
    "scope": "scopes",
    "scopes": "scopes",
    "audience": "audience",
    "resource": "resource",
}
"""What Claude Code, Gemini, OpenCode, VS Code and others call the same."""


def read_oauth(value: object) -> OAuthConfig:
    """The table as a value; false switches signing in off, a mode alone may stand for the table."""
    if value is False:
        return OAuthConfig(SignInMode.HEADER)
    if isinstance(value, str):
        value = {"mode": value}
    if not isinstance(value, Mapping):
        raise Mismatch('a table such as { client_id = "…" }, a mode, or false', value)
    for name in value:
        if name not in OAUTH_KEYS:
            raise Mismatch("a table whose keys are of " + ", ".join(OAUTH_KEYS), name)
    found = OAuthConfig(**{OAUTH_KEYS[name].field: _read(name, item) for name, item in value.items()})
    _check(found)
    return found


def _read(name: str, item: object) -> Any:
    try:
        return OAUTH_KEYS[name].read(item)
    except Mismatch as mismatch:
        raise Mismatch(mismatch.expected, mismatch.given, (name, *mismatch.at)) from None


def _check(found: OAuthConfig) -> None:
    """Refuse a mode without what it needs."""
    needed = {
        SignInMode.CLIENT_CREDENTIALS: ("client_id",),
        SignInMode.TOKEN_EXCHANGE: ("client_id", "subject_token"),
        SignInMode.IDENTITY_ASSERTION: ("client_id", "subject_token"),
    }.get(found.mode, ())
    for name in needed:
        if not getattr(found, name):
            raise Mismatch(f"given: the mode {found.mode.value!r} needs it", "", (name,))


def read_foreign_oauth(value: object) -> tuple[OAuthConfig | None, list[str]]:
    """What another program's ``oauth`` object says, and what of it was left out; a secret that is written out in such a
    file is not taken over."""
    if value is False:
        return OAuthConfig(SignInMode.HEADER), []
    if not isinstance(value, Mapping):
        return None, []
    said: dict[str, Any] = {}
    left: list[str] = []
    for foreign, name in _FOREIGN.items():
        if (item := value.get(foreign)) in (None, ""):
            continue
        if name == "scopes" and isinstance(item, str):
            item = item.split()
        try:
            said[name] = OAUTH_KEYS[name].read(item)
        except Mismatch:
            left.append(foreign)
    return (OAuthConfig(**said) if said else None), left
