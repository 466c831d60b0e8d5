"""Signing in by a browser: a flow is begun, kept sealed until its answer comes back, and used once."""

import asyncio
import hashlib
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

import msgspec

from toolcrib.core.view import DiscoveryStep
from toolcrib.credentials.account import Account
from toolcrib.credentials.accounts import ServerAccount
from toolcrib.credentials.discovery import Discovered
from toolcrib.credentials.issuer import (
    ASK,
    CLIENT_DOCUMENT,
    Issuer,
    TokenWish,
    bind_client,
    configured_client,
    forget_registration,
    registration_name,
)
from toolcrib.credentials.oauth import (
    AuthorizationServer,
    CallbackRefused,
    IssuerRefused,
    OAuthClient,
    challenge_of,
    check_issuer,
    check_pkce,
    claims_of,
    extend_url,
    is_document,
    new_verifier,
    read_code,
    with_scopes,
)
from toolcrib.credentials.vault import Vault

CALLBACK = "/oauth/callback"
FLOW_S = 600.0
EXPIRING_S = 60.0


class SignInFlow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A sign-in that was begun and whose answer has not come back."""

    server: str
    url: str
    user: str
    provider: AuthorizationServer
    client: OAuthClient
    verifier: str
    begun_at: float
    resource: str = ""
    scopes: tuple[str, ...] = ()
    browser: str = ""
    """The digest of what the browser holds that began it; empty: it was begun in a terminal."""
    home: str = ""
    """Where that browser holds it: scheme and host of the page."""


@dataclass(frozen=True, slots=True)
class BegunSignIn:
    """Where a person goes next."""

    url: str
    state: str
    redirect_uri: str


async def begin(
    account: ServerAccount, redirect_uri: str, *, public_url: str = "", browser: str = "", home: str = ""
) -> BegunSignIn:
    """Begin to sign in; the address to open in a browser."""
    around, found = account.surroundings, account.discovered or await account.discover()
    await account.recall()
    server, wish = found.server, account.wish(found)
    if not server.authorization_endpoint:
        raise IssuerRefused(server.issuer, "discovery", "it names no authorization endpoint")
    client = await choose_client(account, found, redirect_uri, public_url)
    check_pkce(server, is_configured=client.is_configured and not is_document(client.client_id))
    state, verifier = secrets.token_urlsafe(32), new_verifier()
    flow = SignInFlow(
        account.server.name,
        account.server.url or "",
        account.user,
        server,
        _without_configured(client),
        verifier,
        around.wall(),
        wish.resource,
        wish.scopes,
        _digest(browser) if browser else "",
        home,
    )
    await around.vault.put(_flow_name(state), flow)
    asked = {
        **account.config.extra,
        "response_type": "code",
        "client_id": client.client_id,
        "redirect_uri": redirect_uri,
        "code_challenge": challenge_of(verifier),
        "code_challenge_method": "S256",
        "state": state,
        **wish.fields(),
    }
    if "offline_access" in wish.scopes:
        asked.setdefault("prompt", "consent")
    return BegunSignIn(extend_url(server.authorization_endpoint, asked), state, redirect_uri)


def foresee(account: ServerAccount, found: Discovered, public_url: str = "") -> Iterator[DiscoveryStep]:
    """What of a sign-in can be told before anybody begins it: how the code is protected, and who toolcrib would be."""
    server, config = found.server, account.config
    try:
        check_pkce(server, is_configured=bool(config.client_id))
        yield DiscoveryStep("PKCE", server.issuer, "S256", is_good=True)
    except IssuerRefused as error:
        yield DiscoveryStep("PKCE", server.issuer, str(error.details["said"]), is_good=False)
    by_document = server.client_id_metadata_document_supported and public_url.startswith("https://")
    if config.client_id:
        yield DiscoveryStep("client", server.issuer, f"the configured one, {config.client_id!r}", is_good=True)
    elif by_document:
        yield DiscoveryStep("client", server.issuer, f"by the document {public_url}{CLIENT_DOCUMENT}", is_good=True)
    elif server.registration_endpoint:
        yield DiscoveryStep("client", server.registration_endpoint, "it lets clients register", is_good=True)
    else:
        yield DiscoveryStep("client", server.issuer, f"it lets no client register by itself. {ASK}", is_good=False)


def _without_configured(client: OAuthClient) -> OAuthClient:
    """What is configured stays where it is configured."""
    return msgspec.structs.replace(client, client_secret="", private_key="") if client.is_configured else client


async def choose_client(account: ServerAccount, found: Discovered, redirect_uri: str, public_url: str) -> OAuthClient:
    """Who toolcrib is to an authorization server: as configured, by its document, or by registering."""
    server, around = found.server, account.surroundings
    configured = configured_client(account.config, around.env, redirect_uri)
    if configured is not None and _is_for(configured, server):
        await bind_client(around.vault, account.config, account.server.url or "", server.issuer)
        return configured
    if server.client_id_metadata_document_supported and public_url.startswith("https://"):
        return OAuthClient(f"{public_url}{CLIENT_DOCUMENT}", redirect_uri=redirect_uri)
    if not server.registration_endpoint:
        raise IssuerRefused(server.issuer, "the registration", "it lets no client register by itself", hint=ASK)
    name = registration_name(server.issuer, redirect_uri)
    kept = await around.vault.get(name, OAuthClient)
    wanted = account.wish(found).scopes
    if kept is not None and not is_expired(kept, around.wall()):
        if not kept.scopes or not set(wanted) - set(kept.scopes):
            return kept
        wanted = with_scopes(kept.scopes, wanted)  # a client gets no more than it registered for
    made = await _register(Issuer(server, account.outward(), around.wall), redirect_uri, wanted)
    await around.vault.put(name, made)
    return made


def _is_for(client: OAuthClient, server: AuthorizationServer) -> bool:
    """Whether a configured client is known to a server: one with a document of its own only to those that look."""
    return (
        server.client_id_metadata_document_supported or client.client_secret != "" or not is_document(client.client_id)
    )


async def _register(issuer: Issuer, redirect_uri: str, scopes: tuple[str, ...]) -> OAuthClient:
    """Register for scopes; some servers know those of their resources only later, and take the client without."""
    try:
        return await issuer.register(redirect_uri, scopes)
    except IssuerRefused as error:
        if not scopes or error.error not in ("invalid_client_metadata", "invalid_scope"):
            raise
        return await issuer.register(redirect_uri, ())


def is_expired(client: OAuthClient, now: float) -> bool:
    """Whether a registration has ended, or is about to."""
    return 0 < client.secret_expires_at < now + EXPIRING_S


async def find_flow(vault: Vault, query: Mapping[str, str]) -> SignInFlow | None:
    """The flow that an answer belongs to, which stays open; to know where it has to be taken to."""
    return await vault.get(_flow_name(query.get("state", "")), SignInFlow)


async def finish(vault: Vault, query: Mapping[str, str], browser: str = "") -> "AnsweredSignIn":
    """Take an answer that a browser brought: of a flow that was begun here, once, within its time, by this browser."""
    flow = await vault.take(_flow_name(query.get("state", "")), SignInFlow)
    if flow is None:
        raise CallbackRefused(
            "This answer belongs to no sign-in that was begun here, or it was used before.",
            hint="Begin again with `toolcrib login`, or on the page of the server.",
        )
    if flow.browser and flow.browser != _digest(browser):
        raise CallbackRefused(
            "This sign-in was begun in another browser.", hint="Begin it in this one, signed in to toolcrib."
        )
    return AnsweredSignIn(flow, query)


class AnsweredSignIn:
    """A flow with its answer, ready to be redeemed."""

    def __init__(self, flow: SignInFlow, query: Mapping[str, str]) -> None:
        self.flow, self._query = flow, query

    async def redeem(self, account: ServerAccount) -> Account:
        """Tokens for the code, kept; the account is used from now on."""
        flow, around = self.flow, account.surroundings
        check_issuer(self._query.get("iss"), flow.provider)
        if around.wall() - flow.begun_at > FLOW_S:
            raise CallbackRefused("This sign-in took too long.", hint="Begin again.")
        code = read_code(self._query, flow.provider)
        client = flow.client
        if client.is_configured:
            client = configured_client(account.config, around.env, client.redirect_uri) or client
        issuer = Issuer(flow.provider, account.outward(), around.wall)
        try:
            tokens = await issuer.redeem(client, code, flow.verifier, TokenWish(flow.resource, flow.scopes))
        except IssuerRefused as error:
            await forget_registration(around.vault, client, error)
            raise
        now, claims = around.wall(), claims_of(tokens.id_token)
        who = next((str(claims[name]) for name in ("email", "preferred_username", "name", "sub") if name in claims), "")
        made = Account(
            flow.server,
            flow.url,
            flow.user,
            flow.provider,
            flow.client,
            tokens,
            now,
            now,
            flow.resource,
            flow.scopes,
            who[:200],
        )
        await account.sign_in(made)
        return made


def read_answer(text: str) -> dict[str, str]:
    """The parameters of an address that somebody copied from a browser."""
    query = urlsplit(text.strip()).query or text.strip()
    found = dict(parse_qsl(query, keep_blank_values=True, max_num_fields=50))
    if "state" not in found:
        raise CallbackRefused(
            "This is not the address that the browser was sent back to.",
            hint="Copy the whole address of the page that it shows in the end, from http to the last letter.",
        )
    return found


def _flow_name(state: str) -> str:
    return f"flow:{_digest(state)}"


def _digest(value: str) -> str:
    return hashlib.sha256(value.encode()).hexdigest()


HEAD_MAX = 16 * 1024
ANSWERED = "You are signed in. You can close this page and go back to the terminal."
UNKNOWN = "This answer belongs to no sign-in that waits here."


class CallbackListener:
    """Waits on this machine for the browser of one sign-in to come back; for commands that serve nothing else."""

    def __init__(self, port: int = 0) -> None:
        self._port = port
        self._server: asyncio.Server | None = None
        self._state = ""
        self._answer: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()

    async def __aenter__(self) -> "CallbackListener":
        try:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port, limit=HEAD_MAX)
        except OSError as error:
            hint = "Set another callback_port, or end the program that listens there."
            raise CallbackRefused(f"Port {self._port} is taken: {error.strerror}.", hint=hint) from None
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._server is not None:
            self._server.close()

    @property
    def redirect_uri(self) -> str:
        """Where the browser is sent back to."""
        return f"http://127.0.0.1:{self._port}{CALLBACK}"

    def expect(self, state: str) -> None:
        """Take the answer of this sign-in, and of no other."""
        self._state = state

    async def answer(self) -> dict[str, str]:
        """What the browser brought back."""
        return await self._answer

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            status, words = self._take(head)
            body = f"<!doctype html><meta charset=utf-8><title>toolcrib</title><p>{words}".encode()
            lines = f"HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {len(body)}\r\n"
            writer.write(f"{lines}cache-control: no-store\r\nconnection: close\r\n\r\n".encode() + body)
            await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            pass
        finally:
            writer.close()

    def _take(self, head: str) -> tuple[str, str]:
        method, _, rest = head.partition(" ")
        target = urlsplit(rest.partition(" ")[0])
        if method != "GET" or target.path != CALLBACK:
            return "404 Not Found", "There is nothing here."
        query = dict(parse_qsl(target.query, keep_blank_values=True, max_num_fields=50))
        if not self._state or query.get("state") != self._state:
            return "400 Bad Request", UNKNOWN
        if not self._answer.done():
            self._answer.set_result(query)
        return "200 OK", ANSWERED if "code" in query else "That did not work. The terminal says why."
