"""The built-in authorization server, and what any authorization server's clients are told of toolcrib as a resource.

Clients are public ones: what they prove is that they began the request they finish (PKCE). Whoever takes a code or a
refresh token a second time ends the connection, because one of the two who had it stole it.
"""

import asyncio
import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from msgspec.structs import replace

from toolcrib.core.access import Caller
from toolcrib.core.audit import AuditEntry
from toolcrib.core.offers import SecurityLevel
from toolcrib.server.identity.oauth_clients import USED_S, ClientDescription, ClientDirectory, OAuthProblem
from toolcrib.server.identity.oauth_tokens import (
    ACCESS_S,
    ConnectedCallers,
    connection_of,
    is_person,
    make_access_token,
    make_refresh_token,
    read_access_token,
)
from toolcrib.stores.connections import (
    AuthorizationCode,
    ConnectedClient,
    ConnectionBook,
    NoSuchConnection,
    RecordDesk,
    RegisteredClient,
    digest,
    end_connection,
    revoke_connection,
    signing_key,
)

SCOPE = "toolcrib:"
LEVEL_SCOPE = f"{SCOPE}level:"
RESOURCE_METADATA = "/.well-known/oauth-protected-resource"
SERVER_METADATA = "/.well-known/oauth-authorization-server"
OPENID_METADATA = "/.well-known/openid-configuration"
AUTHORIZE, TOKEN, REGISTER, REVOKE, KEYS = (
    f"/oauth/{name}" for name in ("authorize", "token", "register", "revoke", "keys")
)
CODE_S = 60.0
CODE_KEPT_S = 3600.0
"""How long a code is remembered, to notice when it comes a second time."""
IDLE_S = 90 * 86_400.0
"""After so long without a new access token a connected client has to ask its person again."""
CONNECTIONS_MAX = 1_000
PARAMETERS_MAX = 50
STATE_MAX = 4_096
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}\Z")
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}\Z")


def level_scope(level: SecurityLevel) -> str:
    """The word of a scope that grants a level."""
    return f"{LEVEL_SCOPE}{level}"


def levels_up_to(most: SecurityLevel) -> list[SecurityLevel]:
    """The levels that reach no further."""
    return [level for level in SecurityLevel if level.rank <= most.rank]


def read_level(scope: str, most: SecurityLevel) -> SecurityLevel:
    """How far a client wants to reach, at most ``most``, which is meant as well where it names no level."""
    words = [word for word in scope.split(" ") if word.startswith(SCOPE)]
    wanted = [level for level in SecurityLevel if level_scope(level) in words]
    if len(wanted) != len(set(words)):
        raise OAuthProblem("invalid_scope", f"Scopes here are {' '.join(map(level_scope, SecurityLevel))}.")
    return min(max(wanted, key=_rank, default=most), most, key=_rank)


def _rank(level: SecurityLevel) -> int:
    return level.rank


def read_parameters(encoded: bytes) -> dict[str, str]:
    """The parameters of a request; one that is there twice could mean two things, so it is refused (RFC 6749 3.1)."""
    try:
        text = encoded.decode("ascii")
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=PARAMETERS_MAX, errors="strict")
    except ValueError:
        raise OAuthProblem("invalid_request", "The parameters cannot be read.") from None
    found = dict(pairs)
    if len(found) != len(pairs):
        raise OAuthProblem("invalid_request", "A parameter is there twice.")
    return found


class ResourceIdentity:
    """What clients without a token are told: who gives them one, and for which address."""

    def __init__(self, issuers: tuple[str, ...], most: SecurityLevel, is_endpoint: Callable[[str], bool]) -> None:
        """``issuers`` are those beside the built-in one; ``is_endpoint`` knows the paths MCP is served at."""
        self._issuers, self.most, self._is_endpoint = issuers, most, is_endpoint
        self.base = ""
        """Where clients reach this server, without a slash at the end; empty before that is known."""
        self.has_own = False
        """Whether the built-in authorization server is one of them."""

    @property
    def scopes(self) -> list[str]:
        """What clients may be granted."""
        return [level_scope(level) for level in levels_up_to(self.most)]

    def address_of(self, path: str) -> str:
        """The resource that a path belongs to; messages of the older transport belong to its stream."""
        plain = path.rstrip("/")
        is_message = plain == "/messages" or plain.startswith("/messages/")
        return self.base + (plain.replace("/messages", "/sse", 1) if is_message else plain)

    @property
    def mount(self) -> str:
        """The path of ``base``: empty unless toolcrib is mounted under one."""
        return urlsplit(self.base).path

    def is_resource(self, address: str) -> bool:
        """Whether this is the address of an endpoint of ours."""
        path = address.removeprefix(self.base)
        return address.startswith(f"{self.base}/") and self._is_endpoint(path) and "?" not in path and "#" not in path

    def document(self, path: str) -> dict[str, Any] | None:
        """The metadata (RFC 9728) of the endpoint at ``path``, of ``/mcp`` for none; ``None`` if there is none.

        ``path`` may have the one in front that toolcrib is mounted under: so the RFC puts it together, and the server
        around it may hand such requests on.
        """
        inner = path.removeprefix(self.mount) if path.startswith(f"{self.mount}/") else path
        wanted = inner.rstrip("/") or "/mcp"
        if not self.base or not self._is_endpoint(wanted):
            return None
        own = (self.base,) if self.has_own else ()
        return {
            "resource": self.address_of(wanted),
            "authorization_servers": [*own, *self._issuers],
            "scopes_supported": self.scopes,
            "bearer_methods_supported": ["header"],
            "resource_name": "toolcrib",
        }

    def challenge(self, path: str, error: str = "") -> bytes:
        """What ``WWW-Authenticate`` says to whoever may not come in."""
        parts = ['realm="toolcrib"']
        if error:
            parts.append(f'error="{error}"')
        if self.base and self._is_endpoint(path):
            parts.append(f'resource_metadata="{self.base}{RESOURCE_METADATA}{path.rstrip("/")}"')
            parts.append(f'scope="{level_scope(self.most)}"')
        return f"Bearer {', '.join(parts)}".encode("latin-1", "replace")


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """What a client asks a person for; everything in it was checked."""

    client: ClientDescription
    redirect_uri: str
    state: str | None
    challenge: str
    level: SecurityLevel
    """As far as it may be granted at most."""
    resource: str

    @property
    def destination(self) -> str:
        """Where the person is sent back to, in short: a host, or the scheme of a program."""
        parts = urlsplit(self.redirect_uri)
        return parts.netloc if parts.scheme in ("http", "https") else f"{parts.scheme}:"


class ClientRefused(OAuthProblem):
    """A request whose client or redirect URI is not right: the person is told, and sent nowhere."""


class SentBack(OAuthProblem):
    """A request that goes back to its client with an error."""

    def __init__(self, problem: OAuthProblem, place: str) -> None:
        super().__init__(problem.error, problem.description)
        self.place = place


class BuiltinAuthorizationServer:
    """Gives tokens to clients that a person lets in."""

    def __init__(
        self,
        resource: ResourceIdentity,
        clients: ClientDirectory,
        callers: ConnectedCallers,
        now: Callable[[], float],
    ) -> None:
        self.resource, self.clients, self._callers, self.now = resource, clients, callers, now
        resource.has_own = True

    @property
    def book(self) -> ConnectionBook:
        """Where everything is kept."""
        return self.clients.book

    @property
    def issuer(self) -> str:
        """As which it is known."""
        return self.resource.base

    def metadata(self, *, is_openid: bool = False) -> dict[str, Any]:
        """What clients find it by (RFC 8414); who looks where OpenID providers are expects some things more."""
        base = self.issuer
        found: dict[str, Any] = {
            "issuer": base,
            "authorization_endpoint": f"{base}{AUTHORIZE}",
            "token_endpoint": f"{base}{TOKEN}",
            "registration_endpoint": f"{base}{REGISTER}",
            "revocation_endpoint": f"{base}{REVOKE}",
            "scopes_supported": self.resource.scopes,
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_methods_supported": ["none"],
            "revocation_endpoint_auth_methods_supported": ["none"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
            "client_id_metadata_document_supported": True,
        }
        if is_openid:
            found |= {
                "jwks_uri": f"{base}{KEYS}",
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": [],
            }
        return found

    async def read_request(self, query: bytes) -> AuthorizationRequest:
        """What a client asks for; ``ClientRefused`` where nobody may be sent back, ``SentBack`` for other faults."""
        try:
            given = read_parameters(query)
            client = await self.clients.find(given.get("client_id", ""))
        except OAuthProblem as problem:
            raise ClientRefused(problem.error, problem.description) from None
        redirect_uri = given.get("redirect_uri", "")
        if not client.allows(redirect_uri):
            raise ClientRefused("invalid_request", "The client wants you sent to an address it has not registered.")
        try:
            return self._checked(client, redirect_uri, given)
        except OAuthProblem as problem:
            raise SentBack(problem, self._back(redirect_uri, given.get("state"), problem)) from None

    def _checked(self, client: ClientDescription, redirect_uri: str, given: Mapping[str, str]) -> AuthorizationRequest:
        if given.get("response_type") != "code":
            raise OAuthProblem("unsupported_response_type", "Only response_type=code is known here.")
        challenge = given.get("code_challenge", "")
        if given.get("code_challenge_method") != "S256" or _CHALLENGE.match(challenge) is None:
            raise OAuthProblem("invalid_request", "Send a code_challenge with code_challenge_method=S256 (PKCE).")
        if len(given.get("state", "")) > STATE_MAX:
            raise OAuthProblem("invalid_request", f"state has more than {STATE_MAX} characters.")
        level = read_level(given.get("scope", ""), self.resource.most)
        resource = self._read_resource(given)
        return AuthorizationRequest(client, redirect_uri, given.get("state"), challenge, level, resource)

    def _read_resource(self, given: Mapping[str, str]) -> str:
        wanted = given.get("resource", f"{self.issuer}/mcp").rstrip("/")
        if not self.resource.is_resource(wanted):
            raise OAuthProblem("invalid_target", f"There is no such resource here; {self.issuer}/mcp is one.")
        return wanted

    def _back(self, redirect_uri: str, state: str | None, problem: OAuthProblem) -> str:
        said = {"error": problem.error, "error_description": problem.description}
        return self._place(redirect_uri, said, state if len(state or "") <= STATE_MAX else None)

    def _place(self, redirect_uri: str, said: Mapping[str, str], state: str | None) -> str:
        """The redirect URI with an answer; its own query stays, the client's state comes back as it was."""
        fields = {**said, **({} if state is None else {"state": state}), "iss": self.issuer}
        return f"{redirect_uri}{'&' if '?' in redirect_uri else '?'}{urlencode(fields)}"

    def refuse(self, request: AuthorizationRequest) -> str:
        """Where to send a person who does not want a client in."""
        problem = OAuthProblem("access_denied", "The person at the page said no.")
        return self._back(request.redirect_uri, request.state, problem)

    async def approve(self, request: AuthorizationRequest, user: Caller, level: SecurityLevel, name: str) -> str:
        """Where to send a person who lets a client in, as far as ``level``; never further than they may reach."""
        if not is_person(user) or user.grants.level is None:
            raise OAuthProblem("access_denied", "Only the owner and people who were invited can let clients in.")
        reach, now = min(level, request.level, user.grants.level, key=_rank), self.now()
        grants = user.grants
        connection = ConnectedClient(
            secrets.token_hex(8),
            now + IDLE_S,
            client_id=request.client.id,
            client_name=request.client.name,
            user=user.id,
            user_name=name,
            level=reach,
            servers=grants.servers,
            tools=grants.tools,
            capabilities=None if grants.capabilities is None else tuple(sorted(grants.capabilities)),
            resource=request.resource,
            created=now,
            refreshed=now,
        )
        code = secrets.token_urlsafe(32)
        kept = AuthorizationCode(
            digest(code)[:32], now + CODE_KEPT_S, digest(code), now + CODE_S, request.redirect_uri, request.challenge,
            connection,
        )  # fmt: skip
        await asyncio.to_thread(self._keep_code, kept, request.client)
        return self._place(request.redirect_uri, {"code": code}, request.state)

    def _keep_code(self, code: AuthorizationCode, client: ClientDescription) -> None:
        with self.book.changing() as desk:
            now = self.now()
            if sum(each.state(now) == "active" for each in desk.all(ConnectedClient)) >= CONNECTIONS_MAX:
                raise OAuthProblem("access_denied", f"{CONNECTIONS_MAX} clients are connected; revoke some first.")
            registered = desk.get(RegisteredClient, client.id)
            if registered is not None:
                desk.put(replace(registered, is_used=True, until=now + USED_S))
            desk.put(code)

    async def give_tokens(self, given: Mapping[str, str]) -> dict[str, Any]:
        """Tokens for a code or a refresh token; raises for everything else."""
        match given.get("grant_type"):
            case "authorization_code":
                return await asyncio.to_thread(self._redeem, given)
            case "refresh_token":
                return await asyncio.to_thread(self._refresh, given)
            case _:
                raise OAuthProblem("unsupported_grant_type", "grant_type must be authorization_code or refresh_token.")

    def _redeem(self, given: Mapping[str, str]) -> dict[str, Any]:
        key, sha256 = signing_key(self.book), digest(given.get("code", ""))
        with self.book.changing() as desk:
            code = desk.get(AuthorizationCode, sha256[:32])
            problem = self._code_problem(desk, code, sha256, given)
            if problem is None and code is not None and code.connection is not None:
                desk.put(replace(code, is_used=True))
                return self._tokens(desk, code.connection, key, code.connection.level)
        raise problem or OAuthProblem("invalid_grant", "This code is not known.")

    def _code_problem(
        self, desk: RecordDesk, code: AuthorizationCode | None, sha256: str, given: Mapping[str, str]
    ) -> OAuthProblem | None:
        """Why a code is not taken; one that comes again ends what it was taken for."""
        if code is None or code.connection is None or not hmac.compare_digest(code.sha256, sha256):
            return OAuthProblem("invalid_grant", "This code is not known, or was used long ago.")
        if code.is_used:
            problem = OAuthProblem("invalid_grant", "This code was used before; what it was used for is revoked.")
            problem.ended = self._end(desk, code.connection.id, "its code was used twice")
            return problem
        is_timely = code.connection.created - CODE_S <= self.now() < code.expires
        if not is_timely or not self._callers.is_user(code.connection.user):
            return OAuthProblem("invalid_grant", "This code has expired.")
        return _misfit(code, code.connection, given)

    def _refresh(self, given: Mapping[str, str]) -> dict[str, Any]:
        key, token, scope = signing_key(self.book), given.get("refresh_token", ""), given.get("scope", "")
        connection_id = connection_of(token, key)
        if connection_id is None:
            raise OAuthProblem("invalid_grant", "This refresh token is not known.")
        read_level(scope, self.resource.most)  # one that is not known is said before the token is spent
        with self.book.changing() as desk:
            connection = desk.get(ConnectedClient, connection_id)
            problem = self._refresh_problem(desk, connection, token, given)
            if problem is None and connection is not None:
                return self._tokens(desk, connection, key, read_level(scope, connection.level))
        raise problem or OAuthProblem("invalid_grant", "This client is not connected any more.")

    def _refresh_problem(
        self, desk: RecordDesk, connection: ConnectedClient | None, token: str, given: Mapping[str, str]
    ) -> OAuthProblem | None:
        """Why a refresh token of ours is not taken; one that was replaced ends the connection."""
        now = self.now()
        if connection is None or connection.state(now) != "active" or not self._callers.is_user(connection.user):
            return OAuthProblem("invalid_grant", "This client is not connected any more.")
        if given.get("client_id", connection.client_id) != connection.client_id:
            return OAuthProblem("invalid_grant", "This refresh token was given to another client.")
        if not hmac.compare_digest(connection.refresh_sha256, digest(token)):
            problem = OAuthProblem("invalid_grant", "This refresh token was used before; the connection is revoked.")
            problem.ended = self._end(desk, connection.id, "a refresh token was used twice")
            return problem
        if given.get("resource", connection.resource).rstrip("/") != connection.resource:
            return OAuthProblem("invalid_target", "This refresh token was given for another resource.")
        return None

    def _tokens(
        self, desk: RecordDesk, connection: ConnectedClient, key: bytes, level: SecurityLevel
    ) -> dict[str, Any]:
        """New tokens for a connection; the refresh token it had before works no more. An access token may reach less
        than the connection does."""
        now, refresh = self.now(), make_refresh_token(connection.id, key)
        kept = replace(connection, refreshed=now, until=now + IDLE_S, refresh_sha256=digest(refresh))
        desk.put(kept)
        return {
            "access_token": make_access_token(replace(kept, level=level), key, now),
            "token_type": "Bearer",
            "expires_in": int(ACCESS_S),
            "refresh_token": refresh,
            "scope": level_scope(level),
        }

    def connected(self, caller: Caller, *, is_operator: bool) -> list[ConnectedClient]:
        """The clients a caller may look after, latest first: their own, or all of them; waits."""
        found = self.book.read(ConnectedClient)
        return [each for each in reversed(found) if is_operator or each.user == caller.id]

    def disconnect(self, caller: Caller, connection_id: str, *, is_operator: bool) -> ConnectedClient:
        """End a client that a caller may look after; waits."""
        if connection_id not in {each.id for each in self.connected(caller, is_operator=is_operator)}:
            raise NoSuchConnection(connection_id)
        return revoke_connection(self.book, connection_id, self.now(), "a person disconnected it")

    async def revoke(self, given: Mapping[str, str]) -> ConnectedClient | None:
        """End the connection that a token belongs to; ``None`` if it belongs to none (RFC 7009)."""
        if not given.get("token"):
            raise OAuthProblem("invalid_request", "Say which token: `token` is missing.")
        return await asyncio.to_thread(self._revoke, given)

    def _revoke(self, given: Mapping[str, str]) -> ConnectedClient | None:
        key, token = signing_key(self.book), given.get("token", "")
        claims = read_access_token(token.encode("utf-8", "replace"), key)
        connection_id = claims.connection if claims is not None else connection_of(token, key)
        with self.book.changing() as desk:
            connection = desk.get(ConnectedClient, connection_id or "")
            if connection is None or given.get("client_id", connection.client_id) != connection.client_id:
                return None
            return self._end(desk, connection.id, "its client gave it back")

    def _end(self, desk: RecordDesk, connection_id: str, reason: str) -> ConnectedClient | None:
        connection = desk.get(ConnectedClient, connection_id)
        if connection is None or connection.revoked is not None:
            return None
        return end_connection(desk, connection, self.now(), reason)


def _misfit(code: AuthorizationCode, connection: ConnectedClient, given: Mapping[str, str]) -> OAuthProblem | None:
    """Why a code is not for whoever sends it."""
    place = given.get("redirect_uri", code.redirect_uri)  # OAuth 2.1 does not send it any more
    if given.get("client_id") != connection.client_id or place != code.redirect_uri:
        return OAuthProblem("invalid_grant", "This code was given to another client, or for another redirect_uri.")
    if not _proves(given.get("code_verifier", ""), code.challenge):
        return OAuthProblem("invalid_grant", "code_verifier does not fit the code_challenge of the request.")
    if given.get("resource", connection.resource).rstrip("/") != connection.resource:
        return OAuthProblem("invalid_target", "This code was given for another resource.")
    return None


def _proves(verifier: str, challenge: str) -> bool:
    """Whether whoever has the verifier made the request with this challenge (RFC 7636)."""
    if _VERIFIER.match(verifier) is None:
        return False
    made = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=")
    return hmac.compare_digest(made, challenge.encode())


def audit_entry(decision: str, connection: ConnectedClient) -> AuditEntry:
    """What is written down of a client that comes or goes."""
    details = {
        "client": connection.client_name,
        "client_id": connection.client_id,
        "user": connection.user_name,
        "resource": connection.resource,
        **({"reason": connection.reason} if connection.reason else {}),
    }
    return AuditEntry(
        "client", caller=f"oauth:{connection.id}", level=connection.level, decision=decision, details=details
    )
