"""What is asked of an authorization server: to know a client, to give tokens, to take them back.

Who toolcrib is to one is settled in this order: a client that a person registered, a metadata document that it can
fetch, registering there (RFC 7591); where none of it works, a person has to register one.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import msgspec

from toolcrib.config.oauth import OAuthConfig
from toolcrib.config.references import resolve
from toolcrib.core.errors import SourceUnavailable
from toolcrib.core.kinds import SignInMode
from toolcrib.credentials.discovery import OutwardRequests, ServerDiscovery, is_loopback
from toolcrib.credentials.oauth import (
    ACCESS_TOKEN,
    EXCHANGE_GRANT,
    ID_JAG,
    ID_TOKEN,
    JWT_GRANT,
    AuthorizationServer,
    IssuerRefused,
    OAuthClient,
    TokenSet,
    is_document,
    method_to_register,
    prove_client,
    read_tokens,
    refusal,
)
from toolcrib.credentials.vault import Vault, secret_file

CLIENT_NAME = "toolcrib"
CLIENT_DOCUMENT = "/.well-known/toolcrib-client.json"
FORM, JSON = b"application/x-www-form-urlencoded", b"application/json"
CREATED = (200, 201)


@dataclass(frozen=True, slots=True)
class TokenWish:
    """What a token is to be good for."""

    resource: str = ""
    """Empty: it is not said."""
    scopes: tuple[str, ...] = ()
    audience: str = ""

    def fields(self) -> dict[str, str]:
        """As parameters of a request."""
        said = {"resource": self.resource, "scope": " ".join(self.scopes), "audience": self.audience}
        return {name: value for name, value in said.items() if value}


class Issuer:
    """One authorization server, as one client asks it."""

    def __init__(self, server: AuthorizationServer, out: OutwardRequests, now: Callable[[], float]) -> None:
        self.server, self._out, self.now = server, out, now

    async def redeem(self, client: OAuthClient, code: str, verifier: str, wish: TokenWish) -> TokenSet:
        """Tokens for a code; the scopes were asked for before."""
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": client.redirect_uri,
            "code_verifier": verifier,
            **TokenWish(wish.resource).fields(),
        }
        return await self._tokens(client, fields, "the token request", wish.scopes)

    async def refresh(self, client: OAuthClient, token: str, wish: TokenWish) -> TokenSet:
        """New tokens; where the server does not give a new refresh token, the old one goes on."""
        fields = {"grant_type": "refresh_token", "refresh_token": token, **TokenWish(wish.resource).fields()}
        found = await self._tokens(client, fields, "the renewal", wish.scopes)
        return found if found.refresh_token else msgspec.structs.replace(found, refresh_token=token)

    async def for_client(self, client: OAuthClient, wish: TokenWish) -> TokenSet:
        """A token of the client's own."""
        fields = {"grant_type": "client_credentials", **wish.fields()}
        return await self._tokens(client, fields, "the token request", wish.scopes)

    async def exchange(self, client: OAuthClient, subject: str, kind: str, wish: TokenWish) -> TokenSet:
        """A token for another one (RFC 8693)."""
        fields = {
            "grant_type": EXCHANGE_GRANT,
            "subject_token": subject,
            "subject_token_type": kind or ACCESS_TOKEN,
            **wish.fields(),
        }
        return await self._tokens(client, fields, "the token exchange", wish.scopes)

    async def assert_identity(self, client: OAuthClient, subject: str, kind: str, wish: TokenWish) -> str:
        """An assertion of who somebody is, for another authorization server (the wish's audience)."""
        fields = {
            "grant_type": EXCHANGE_GRANT,
            "requested_token_type": ID_JAG,
            "subject_token": subject,
            "subject_token_type": kind or ID_TOKEN,
            **wish.fields(),
        }
        return (await self._tokens(client, fields, "the identity assertion", (), ID_JAG)).access_token

    async def for_assertion(self, client: OAuthClient, assertion: str, wish: TokenWish) -> TokenSet:
        """A token for an assertion (RFC 7523)."""
        fields = {"grant_type": JWT_GRANT, "assertion": assertion, **wish.fields()}
        return await self._tokens(client, fields, "the token request", wish.scopes)

    async def revoke_all(self, client: OAuthClient, tokens: TokenSet) -> str:
        """Have all tokens of an account end; what the server has against it."""
        if not self.server.revocation_endpoint:
            return "it has no way to end tokens early"
        try:
            for token in filter(None, (tokens.refresh_token, tokens.access_token)):
                await self.revoke(client, token)
        except SourceUnavailable as error:
            return error.message
        return ""

    async def revoke(self, client: OAuthClient, token: str) -> None:
        """Have a token end (RFC 7009); raises if the server does not say that it did."""
        url = self.server.revocation_endpoint
        proof, headers = prove_client(client, self.server, self.now())
        body = urlencode({"token": token, **proof}).encode()
        response = await self._out.post(url, body, headers, FORM)
        if response.status != 200:
            raise refusal(response.body, response.status, self.server.issuer, "the revocation")

    async def register(self, redirect_uri: str, scopes: Sequence[str]) -> OAuthClient:
        """Register toolcrib as a client (RFC 7591)."""
        issuer, url = self.server.issuer, self.server.registration_endpoint
        said = {**client_document(redirect_uri, scopes), "token_endpoint_auth_method": method_to_register(self.server)}
        response = await self._out.post(url, msgspec.json.encode(said), (), JSON)
        if response.status not in CREATED:
            raise refusal(response.body, response.status, issuer, "the registration", hint=ASK)
        try:
            found = msgspec.json.decode(response.body, type=_Registered)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise IssuerRefused(issuer, "the registration", "its answer is none", hint=ASK) from None
        return OAuthClient(
            found.client_id,
            found.client_secret or "",
            found.token_endpoint_auth_method or "",
            float(found.client_secret_expires_at or 0),
            redirect_uri,
            tuple(scopes),
        )

    async def _tokens(
        self, client: OAuthClient, fields: Mapping[str, str], step: str, asked: Sequence[str], kind: str = ""
    ) -> TokenSet:
        issuer = self.server.issuer
        if not self.server.token_endpoint:
            raise IssuerRefused(issuer, "discovery", "it names no token endpoint")
        proof, headers = prove_client(client, self.server, self.now())
        body = urlencode({**fields, **proof}).encode()
        response = await self._out.post(self.server.token_endpoint, body, headers, FORM)
        if response.status != 200:
            raise refusal(response.body, response.status, issuer, step)
        return read_tokens(response.body, issuer, step, asked=asked, kind=kind)


class _Registered(msgspec.Struct):
    client_id: str
    client_secret: str | None = None
    token_endpoint_auth_method: str | None = None
    client_secret_expires_at: float | None = None


ASK = "Register a client there by hand, and set client_id (and client_secret) under [servers.NAME.oauth]."


def client_document(redirect_uri: str, scopes: Sequence[str] = (), client_id: str = "") -> dict[str, object]:
    """What toolcrib says of itself, at registration or at an address of its own."""
    is_native = is_loopback(urlsplit(redirect_uri).hostname or "")
    said: dict[str, object] = {
        "client_name": CLIENT_NAME,
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": "native" if is_native else "web",
    }
    if client_id:
        said["client_id"] = client_id
    return {**said, "scope": " ".join(scopes)} if scopes else said


def read_reference(written: str, env: Mapping[str, str], place: str) -> str:
    """What a reference leads to: the text itself, or that of the file it names."""
    text = resolve(written, env, field=place)
    return secret_file(Path(text)) if text.startswith("/") else text


def configured_client(config: OAuthConfig, env: Mapping[str, str], redirect_uri: str = "") -> OAuthClient | None:
    """The client that a person registered, if one is configured."""
    if not config.client_id:
        return None
    secret = resolve(config.client_secret, env, field="oauth.client_secret") if config.client_secret else ""
    key = read_reference(config.private_key, env, "oauth.private_key") if config.private_key else ""
    return OAuthClient(config.client_id, secret, redirect_uri=redirect_uri, private_key=key, is_configured=True)


def registration_name(issuer: str, redirect_uri: str) -> str:
    """Under which a registration is kept: one for each issuer and way back."""
    return f"client:{hashlib.sha256(f'{issuer} {redirect_uri}'.encode()).hexdigest()[:32]}"


async def forget_registration(vault: Vault, client: OAuthClient, error: SourceUnavailable) -> None:
    """Register anew the next time, if an issuer says that it does not know the client (any more)."""
    if isinstance(error, IssuerRefused) and error.error == "invalid_client":
        await vault.remove(registration_name(error.details["issuer"], client.redirect_uri))


async def bind_client(vault: Vault, config: OAuthConfig, url: str, issuer: str) -> None:
    """Hold a client that a person registered to the issuer it was first used with: a server that names another one
    later gets neither its name nor its secret. An ``issuer`` that is configured has the last word."""
    is_portable = is_document(config.client_id) and not (config.client_secret or config.subject_token)
    if not config.client_id or config.issuer or is_portable:
        return
    name = f"issuer:{hashlib.sha256(f'{url} {config.client_id}'.encode()).hexdigest()[:32]}"
    known = await vault.get(name, str)
    if known is None:
        await vault.put(name, issuer)
    elif known != issuer:
        words = f"the client {config.client_id!r} was registered at {known}, and the server now names this one"
        hint = "If that is right, register a client there, and set `issuer` and `client_id`."
        raise IssuerRefused(issuer, "discovery", words, hint=hint)


async def obtain(
    config: OAuthConfig, env: Mapping[str, str], issuer: Issuer, wish: TokenWish, out: OutwardRequests
) -> TokenSet:
    """A token that nobody has to sign in for, in the way that is configured."""
    client = configured_client(config, env)
    if client is None:
        raise IssuerRefused(issuer.server.issuer, "client authentication", "no client_id is configured", hint=ASK)
    match config.mode:
        case SignInMode.TOKEN_EXCHANGE:
            subject = read_reference(config.subject_token, env, "oauth.subject_token")
            return await issuer.exchange(client, subject, config.subject_token_type, wish)
        case SignInMode.IDENTITY_ASSERTION:
            return await issuer.for_assertion(client, await _asserted(config, env, issuer, wish, out), wish)
        case _:
            return await issuer.for_client(client, wish)


async def _asserted(
    config: OAuthConfig, env: Mapping[str, str], issuer: Issuer, wish: TokenWish, out: OutwardRequests
) -> str:
    """The identity provider's word for who calls, made for this server's authorization server; without one, what is
    configured is that word."""
    subject = read_reference(config.subject_token, env, "oauth.subject_token")
    if not config.idp:
        return subject
    at = OutwardRequests(config.idp, out.network, config.idp)
    provider = Issuer(await ServerDiscovery(config.idp, at).server(config.idp), at, issuer.now)
    secret = resolve(config.idp_client_secret, env, field="oauth.idp_client_secret") if config.idp_client_secret else ""
    client = OAuthClient(config.idp_client_id or config.client_id, secret)
    for_issuer = TokenWish(wish.resource, wish.scopes, issuer.server.issuer)
    return await provider.assert_identity(client, subject, config.subject_token_type, for_issuer)


def is_transient(error: SourceUnavailable) -> bool:
    """Whether what was asked for may still be had: nobody answered, or the server itself is in trouble."""
    if not isinstance(error, IssuerRefused):
        return True
    status = error.details.get("http_status")
    return error.error in ("temporarily_unavailable", "server_error", "slow_down") or (
        isinstance(status, int) and (status >= 500 or status == 429)
    )
