"""Who lets people in to a server: from its refusal to its authorization server, in the order the specification says.

Whatever a stranger's document points to is asked only where that is allowed: of a server on the internet nothing that
is inside, no more than a small document, for no longer than a few seconds.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from toolcrib.core.errors import ConfigError, SourceUnavailable
from toolcrib.core.network import Network
from toolcrib.core.view import DiscoveryStep
from toolcrib.credentials.oauth import (
    AuthorizationServer,
    Challenge,
    IssuerRefused,
    ProtectedResource,
    canonical_resource,
    clean_words,
    covers_resource,
    read_challenge,
)
from toolcrib.transports.http.client import HttpPool, PoolLimits, Response
from toolcrib.transports.http.dial import HttpFailure, HttpOrigin, resolve
from toolcrib.transports.http.fetch import FetchLimits, MayReach, fetch, is_public
from toolcrib.transports.http.message import Headers

T = TypeVar("T")

DOCUMENT_MAX = 256 * 1024
TIMEOUT_S = 10.0
POST_TIMES = 3
"""By how much longer what changes something may take: whether it did is not known afterwards."""
ISSUERS_MAX = 8
_JSON = ((b"accept", b"application/json"), (b"user-agent", b"toolcrib"))
_CLOUD_OWN = ("169.254.", "fe80:", "fd00:ec2:")
"""Where clouds tell machines their secrets: never asked, whatever points there."""
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(slots=True)
class Discovered:
    """Who lets people in to a server, and how that was found."""

    resource: str
    scopes: tuple[str, ...]
    server: AuthorizationServer
    issuers: tuple[str, ...] = ()
    """All that the server names, this one among them."""
    steps: list[DiscoveryStep] = field(default_factory=list)
    is_guess: bool = False
    """Whether nothing says that anybody lets people in at all."""


class OutwardRequests:
    """Asks what a server's metadata point to, within limits."""

    def __init__(self, url: str, network: Network | None, trusted: str = "", timeout_s: float = TIMEOUT_S) -> None:
        """``trusted`` is an issuer that a person configured: it may be inside."""
        self._url, self.network, self._timeout_s = url, network, timeout_s
        self._trusted = urlsplit(trusted).hostname or ""
        self._is_inside: bool | None = None

    async def get(self, url: str) -> tuple[int, bytes]:
        """What is at an address: its status and body."""
        limits = FetchLimits(DOCUMENT_MAX, self._timeout_s, await self._may_reach(url), self.network, check_url)
        try:
            found = await fetch(url, _JSON, limits)
        except HttpFailure as failure:
            raise _not_reached(failure) from None
        return found.status, found.body

    async def post(self, url: str, body: bytes, headers: Headers, content_type: bytes) -> Response:
        """The answer to a form or a document; a redirect is none: what was sent is for this address alone."""
        check_url(url)
        limits = PoolLimits(connections=1, body_bytes=DOCUMENT_MAX)
        may_reach = await self._may_reach(url)
        pool = HttpPool(url, network=self.network, limits=limits, may_reach=may_reach, connect_timeout_s=TIMEOUT_S)
        try:
            sent = [*_JSON, (b"content-type", content_type), *headers]
            async with asyncio.timeout(self._timeout_s * POST_TIMES):
                return await pool.request("POST", pool.origin.target, sent, body)
        except TimeoutError:
            said = f"{clean_words(url)[:100]} did not answer within {self._timeout_s * POST_TIMES:g} s."
            raise SourceUnavailable(said) from None
        except HttpFailure as failure:
            raise _not_reached(failure) from None
        finally:
            await pool.close()

    async def _may_reach(self, url: str) -> MayReach:
        if self._is_inside is None:
            self._is_inside = await _is_inside(self._url)
        is_trusted = self._is_inside or (bool(self._trusted) and urlsplit(url).hostname == self._trusted)
        return _anything_but_clouds if is_trusted else is_public


def _not_reached(failure: HttpFailure) -> SourceUnavailable:
    """The same as trouble with an authorization server: who waits for the MCP server has not lost that one."""
    return SourceUnavailable(failure.message, hint=failure.hint)


async def _is_inside(url: str) -> bool:
    """Whether a server that a person configured is on this machine or its network; what it points to may be as well."""
    try:
        found = await resolve(HttpOrigin.parse(url), TIMEOUT_S)
    except (HttpFailure, ConfigError):  # a name that only a proxy knows
        return False
    return not all(map(is_public, found))


def _anything_but_clouds(address: str) -> bool:
    return not address.lower().removeprefix("::ffff:").startswith(_CLOUD_OWN)


def check_url(url: str) -> str:
    """An address of an authorization server: over TLS, or on this machine."""
    parts = urlsplit(url)
    if parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or "")):
        return url
    raise IssuerRefused("", "discovery", f"{clean_words(url)[:100]!r} is not an https address")


def is_loopback(host: str) -> bool:
    """Whether a host is this machine by its name alone."""
    return host in _LOOPBACK or host.endswith(".localhost") or host.startswith("127.")


def resource_addresses(url: str, challenge: Challenge | None) -> Iterator[str]:
    """Where a server's own metadata may be, best first."""
    if challenge is not None and challenge.resource_metadata:
        yield challenge.resource_metadata
        return
    parts = urlsplit(canonical_resource(url))
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    query = f"?{parts.query}" if parts.query else ""  # it is part of which resource that is (RFC 9728, 3.1)
    if path or query:
        yield f"{origin}/.well-known/oauth-protected-resource{path}{query}"
    yield f"{origin}/.well-known/oauth-protected-resource"


def server_addresses(issuer: str) -> Iterator[str]:
    """Where an authorization server's metadata may be, best first."""
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    yield f"{origin}/.well-known/oauth-authorization-server{path}"
    yield f"{origin}/.well-known/openid-configuration{path}"
    if path:
        yield f"{origin}{path}/.well-known/openid-configuration"


class ServerDiscovery:
    """One walk from a server to its authorization server."""

    def __init__(self, url: str, out: OutwardRequests, issuer: str = "") -> None:
        """``issuer`` is the only one that may be used, if one is configured."""
        self._url, self._out, self._issuer = url, out, issuer
        self.steps: list[DiscoveryStep] = []

    async def find(self, challenge: Challenge | None) -> Discovered:
        """The whole walk; raises what went wrong, after ``steps`` has been filled."""
        about = await self._resource(challenge)
        issuers = self._issuers(about)
        for number, issuer in enumerate(issuers, 1):
            try:
                server = await self.server(issuer)
            except IssuerRefused:
                if number == len(issuers):
                    raise
                continue
            resource = about.resource or canonical_resource(self._url)
            return Discovered(resource, about.scopes_supported, server, issuers, self.steps)
        server, is_guess = await self._legacy()
        return Discovered(canonical_resource(self._url), (), server, (server.issuer,), self.steps, is_guess)

    def _issuers(self, about: ProtectedResource) -> tuple[str, ...]:
        named = about.authorization_servers[:ISSUERS_MAX]
        if not self._issuer:
            return named
        if named and self._issuer not in named:
            raise IssuerRefused(
                self._issuer,
                "discovery",
                f"the server now lets people in by {', '.join(map(clean_words, named))}",
                hint="The configured client is known to that issuer only: register at the new one, or remove `issuer`.",
            )
        return (self._issuer,)

    async def _resource(self, challenge: Challenge | None) -> ProtectedResource:
        """What the server says of itself; nothing, if it says nothing."""
        for url in resource_addresses(self._url, challenge):
            found = await self._ask("resource metadata", url, ProtectedResource)
            if found is None:
                continue
            if found.resource and not covers_resource(found.resource, self._url):
                said = clean_words(found.resource)
                self._note("resource metadata", url, f"it is about {said!r}, not about this server", is_good=False)
                raise IssuerRefused("", "discovery", f"{url} is about {said!r}, not about {self._url!r}")
            return found
        return ProtectedResource()

    async def server(self, issuer: str) -> AuthorizationServer:
        """The metadata of an authorization server; one that says it is another is not used."""
        check_url(issuer)
        for url in server_addresses(issuer):
            found = await self._ask("authorization server metadata", url, AuthorizationServer)
            if found is None:
                continue
            if found.issuer != issuer:
                said = clean_words(found.issuer)
                self._note("authorization server metadata", url, f"it says it is {said!r}", is_good=False)
                raise IssuerRefused(issuer, "discovery", f"its metadata say that it is {said!r}")
            return _with_checked_endpoints(found)
        raise IssuerRefused(issuer, "discovery", "it has no metadata where they should be")

    async def _legacy(self) -> tuple[AuthorizationServer, bool]:
        """Before June 2025 a server was its own authorization server, at fixed addresses if it said nothing; whether
        that is only a guess."""
        parts = urlsplit(canonical_resource(self._url))
        origin = f"{parts.scheme}://{parts.netloc}"
        url = f"{origin}/.well-known/oauth-authorization-server"
        found = await self._ask("authorization server metadata", url, AuthorizationServer)
        if found is not None and found.issuer.rstrip("/") == origin:
            return _with_checked_endpoints(found), False
        self._note("addresses of 2025-03-26", origin, "taken, since nothing else is said", is_good=True)
        guessed = AuthorizationServer(
            origin,
            f"{origin}/authorize",
            f"{origin}/token",
            f"{origin}/register",
            code_challenge_methods_supported=("S256",),
        )
        return guessed, True

    async def _ask(self, what: str, url: str, kind: type[T]) -> T | None:
        """A document, or ``None`` if there is none there."""
        try:
            status, body = await self._out.get(url)
            if status != 200:
                self._note(what, url, f"HTTP {status}", is_good=False)
                return None
            found = msgspec.json.decode(body, type=kind)
        except (SourceUnavailable, ConfigError) as error:
            self._note(what, url, error.message, is_good=False)
            return None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self._note(what, url, f"it is not what it should be: {error}", is_good=False)
            return None
        self._note(what, url, "found", is_good=True)
        return found

    def _note(self, what: str, url: str, outcome: str, *, is_good: bool) -> None:
        self.steps.append(DiscoveryStep(what, clean_words(url), clean_words(outcome), is_good))


def _with_checked_endpoints(server: AuthorizationServer) -> AuthorizationServer:
    """Refuse endpoints that are no addresses: one of them is opened in a person's browser."""
    for url in (server.authorization_endpoint, server.token_endpoint, server.registration_endpoint):
        if url:
            check_url(url)
    return server


_STRANGER = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    b'"clientInfo":{"name":"toolcrib","version":"1"}}}'
)


async def ask_as_stranger(url: str, network: Network) -> tuple[int, Challenge | None, str]:
    """What a server says to somebody who does not say who they are: its status, its challenge, and what went wrong."""
    pool = HttpPool(url, network=network, limits=PoolLimits(connections=1), connect_timeout_s=TIMEOUT_S)
    headers = (
        (b"accept", b"application/json, text/event-stream"),
        (b"content-type", b"application/json"),
        (b"user-agent", b"toolcrib"),
    )
    answered: list[Response] = []

    def choose(response: Response) -> Callable[[bytes], None]:
        answered.append(response)
        return lambda _: None

    try:
        async with asyncio.timeout(TIMEOUT_S):
            head = pool.encode_head("POST", pool.origin.target, headers)
            response = await pool.exchange(head, _STRANGER, choose)
    except TimeoutError:
        if not answered:
            return 0, None, f"it did not answer within {TIMEOUT_S:g} s"
        response = answered[0]
    except HttpFailure as failure:
        return 0, None, failure.message
    finally:
        await pool.close()
    said = [value for name, value in response.headers if name == b"www-authenticate"]
    return response.status, read_challenge(said), ""
