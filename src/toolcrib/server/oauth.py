"""The endpoints of the built-in authorization server that programs use; what people see of it is in ``server/web``."""

import asyncio
import base64
import binascii
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from urllib.parse import unquote

from toolcrib.core.audit import Audit
from toolcrib.core.errors import StoreUnavailable, ToolcribError
from toolcrib.core.events import Emit, Event
from toolcrib.server.answers import HttpAnswer, HttpProblem, json_answer
from toolcrib.server.identity.oauth import (
    KEYS,
    OPENID_METADATA,
    REGISTER,
    RESOURCE_METADATA,
    REVOKE,
    SERVER_METADATA,
    TOKEN,
    BuiltinAuthorizationServer,
    ResourceIdentity,
    audit_entry,
    read_parameters,
)
from toolcrib.server.identity.oauth_clients import (
    OAuthProblem,
    is_own_machine,
    read_metadata,
    registration_answer,
)
from toolcrib.server.router import STRANGER, Router, RouteSpec
from toolcrib.server.visit import FORM, PageRequest, content_type
from toolcrib.transports.http.server import Exchange, HttpRequest

REGISTRATIONS_A_MINUTE = 30
TOKENS_A_MINUTE = 600
OPEN_PATHS = frozenset({TOKEN, REGISTER, REVOKE})
"""Answered without a token: clients come here to get one."""
_PREFIXES = tuple(path.encode() for path in (RESOURCE_METADATA, SERVER_METADATA, OPENID_METADATA))
_PATHS = frozenset(path.encode() for path in (*OPEN_PATHS, KEYS))

Respond = Callable[[PageRequest], Awaitable[HttpAnswer]]


@dataclass(slots=True)
class RequestRate:
    """How often one address may ask in a minute; those that asked longest ago are forgotten first."""

    most: int
    clock: Callable[[], float]
    span_s: float = 60.0
    peers_max: int = 1_000
    _asked: dict[str, deque[float]] = field(default_factory=dict)

    def take(self, peer: str) -> None:
        """Count one request; raises when there were too many."""
        now = self.clock()
        asked = self._asked.pop(peer, None) or deque()
        while asked and asked[0] <= now - self.span_s:
            asked.popleft()
        if len(self._asked) >= self.peers_max:
            self._asked.pop(next(iter(self._asked)))
        self._asked[peer] = asked
        if len(asked) >= self.most:
            raise OAuthProblem("temporarily_unavailable", "Too many requests from this address. Wait a minute.", 429)
        asked.append(now)


def is_oauth(path: bytes) -> bool:
    """Whether a request is for one of these endpoints."""
    return path in _PATHS or any(path == prefix or path.startswith(prefix + b"/") for prefix in _PREFIXES)


class OAuthEndpoints(Router):
    """Metadata, registration, tokens and their revocation."""

    def __init__(
        self,
        resource: ResourceIdentity,
        server: BuiltinAuthorizationServer | None,
        audit: Audit,
        emit: Emit,
        clock: Callable[[], float],
    ) -> None:
        self._resource, self._audit = resource, audit
        self._registrations = RequestRate(REGISTRATIONS_A_MINUTE, clock)
        self._exchanges = RequestRate(TOKENS_A_MINUTE, clock)
        super().__init__([*self._about_resource(), *(self._about_server(server) if server else ())], _enter, emit)
        self._tell = emit

    def _about_resource(self) -> list[RouteSpec]:
        async def document(visit: PageRequest) -> HttpAnswer:
            found = self._resource.document("/" + visit.params.get("path", "") if visit.params else "")
            if found is None:
                raise HttpProblem(404, "HTTP_NOT_FOUND", "There is no such endpoint.")
            return json_answer(found)

        return [RouteSpec("GET", path, document) for path in (RESOURCE_METADATA, f"{RESOURCE_METADATA}/{{path...}}")]

    def _about_server(self, server: BuiltinAuthorizationServer) -> list[RouteSpec]:
        async def metadata(visit: PageRequest) -> HttpAnswer:
            self._check_suffix(visit, server)
            return json_answer(server.metadata(is_openid=visit.request.path.startswith(OPENID_METADATA.encode())))

        async def keys(_: PageRequest) -> HttpAnswer:
            return json_answer({"keys": []})

        return [
            *(
                RouteSpec("GET", path, metadata)
                for known in (SERVER_METADATA, OPENID_METADATA)
                for path in (known, f"{known}/{{path...}}")
            ),
            RouteSpec("GET", KEYS, keys),
            RouteSpec("POST", REGISTER, self._guarded(lambda visit: self._register(server, visit))),
            RouteSpec("POST", TOKEN, self._guarded(lambda visit: self._give(server, visit))),
            RouteSpec("POST", REVOKE, self._guarded(lambda visit: self._revoke(server, visit))),
        ]

    @staticmethod
    def _check_suffix(visit: PageRequest, server: BuiltinAuthorizationServer) -> None:
        """What follows the well-known path is the issuer's own path, or nothing."""
        wanted = visit.params.get("path", "").strip("/")
        if wanted and wanted != server.issuer.partition("://")[2].partition("/")[2]:
            raise HttpProblem(404, "HTTP_NOT_FOUND", "There is no such issuer here.")

    def _guarded(self, respond: Respond) -> Respond:
        """Errors as RFC 6749 has them."""

        async def guarded(visit: PageRequest) -> HttpAnswer:
            try:
                return await respond(visit)
            except OAuthProblem as problem:
                if problem.ended is not None:
                    self._audit.note(audit_entry("revoked", problem.ended))
                return _refusal(problem)
            except StoreUnavailable:
                return _refusal(OAuthProblem("temporarily_unavailable", "Try again in a moment.", 503))
            except ToolcribError as error:
                self._tell(Event("oauth.failed", "error", {"error": str(error)}))
                return _refusal(OAuthProblem("server_error", "toolcrib failed; its log has the details.", 500))

        return guarded

    async def _register(self, server: BuiltinAuthorizationServer, visit: PageRequest) -> HttpAnswer:
        self._registrations.take(_peer(visit))
        if content_type(visit.request) != b"application/json":
            raise OAuthProblem("invalid_client_metadata", "Send the metadata as application/json.")
        client = await asyncio.to_thread(server.clients.register, read_metadata(visit.request.body))
        return json_answer(registration_answer(client, self._resource.scopes), 201)

    async def _give(self, server: BuiltinAuthorizationServer, visit: PageRequest) -> HttpAnswer:
        self._exchanges.take(_peer(visit))
        return json_answer(await server.give_tokens(_form(visit)))

    async def _revoke(self, server: BuiltinAuthorizationServer, visit: PageRequest) -> HttpAnswer:
        self._exchanges.take(_peer(visit))
        ended = await server.revoke(_form(visit))
        if ended is not None:
            self._audit.note(audit_entry("revoked", ended))
        return json_answer({})


def _enter(request: HttpRequest, exchange: Exchange) -> PageRequest:
    return PageRequest(request, exchange, STRANGER, is_known=False)


def _peer(visit: PageRequest) -> str:
    """Whose requests are counted together. Behind a proxy on this machine everybody would be one and the same, so that
    a single stranger could keep all others out; the last address of the header is the one that proxy saw itself."""
    peer = visit.request.peer
    address = str(peer[0]) if isinstance(peer, tuple) and peer else ""
    passed_on = (visit.request.header(b"x-forwarded-for") or b"").rpartition(b",")[2].strip()
    return passed_on.decode("latin-1")[:64] if passed_on and is_own_machine(address) else address


def _form(visit: PageRequest) -> dict[str, str]:
    """The fields of a token request; a client may name itself in the header, too."""
    if content_type(visit.request) != FORM:
        raise OAuthProblem("invalid_request", "Send application/x-www-form-urlencoded.")
    given = read_parameters(visit.request.body)
    scheme, _, encoded = (visit.request.header(b"authorization") or b"").partition(b" ")
    if scheme.lower() == b"basic" and "client_id" not in given:
        given["client_id"] = _basic_user(encoded)
    return given


def _basic_user(encoded: bytes) -> str:
    try:
        return unquote(base64.b64decode(encoded, validate=True).decode().partition(":")[0])
    except (binascii.Error, ValueError):
        raise OAuthProblem("invalid_client", "The Authorization header cannot be read.", 401) from None


def _refusal(problem: OAuthProblem) -> HttpAnswer:
    return json_answer({"error": problem.error, "error_description": problem.description}, problem.status)
