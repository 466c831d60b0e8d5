"""Who may talk to a server at all, decided from the headers before any route is asked.

A web page anywhere can make a browser send requests to this machine, and a name of its own can be made to point here
(DNS rebinding). The browser tells on both: by ``Host``, the name it believes it talks to, and by ``Origin``, the page
that asked. So both are checked on every route, whether or not a token is needed.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from toolcrib.transports.http.message import (
    MOST_REPEATS,
    HttpRequest,
    Refusal,
    Repeated,
    RequestRefused,
    encode_headers,
)

LOOPBACK_HOSTS = frozenset({"localhost:*", "127.0.0.1:*", "[::1]:*"})
LOOPBACK_ORIGINS = frozenset(f"{scheme}://{host}" for scheme in ("http", "https") for host in LOOPBACK_HOSTS)

SINGLE_HEADERS = frozenset({b"host", b"origin", b"authorization", b"content-length", b"transfer-encoding"})
REQUESTED_METHOD = b"access-control-request-method"
EXPOSED = b"mcp-session-id, retry-after, www-authenticate"
_HEADER_NAMES = re.compile(rb"[\w!#$%&'*+.^`|~-]+(?:[ \t]*,[ \t]*[\w!#$%&'*+.^`|~-]+)*", re.ASCII)
FORBIDDEN_METHODS = frozenset({b"TRACE", b"CONNECT"})

Identify = Callable[[bytes], object | None]
"""From a token to whoever holds it; ``None`` for nobody, a ``Refusal`` where that cannot be told right now."""


@dataclass(frozen=True, slots=True)
class GuardPolicy:
    """The hosts, origins and token a server accepts; ``name:*`` allows the name with any port and without one."""

    allowed_hosts: frozenset[str] = LOOPBACK_HOSTS
    allowed_origins: frozenset[str] = LOOPBACK_ORIGINS
    identify: Identify | None = None
    """Given what follows ``Bearer``; must compare in constant time. ``None``: no token is needed."""
    open_paths: frozenset[str] = frozenset({"/healthz"})
    """Served without a token; Host and Origin are checked all the same."""
    asks_itself: Callable[[HttpRequest], bool] = lambda _: False
    """Whether a route finds out itself who sends a request that has no ``Authorization``."""
    admit: Callable[[HttpRequest, object], Refusal | None] | None = None
    """Why somebody who was recognised may not come in all the same."""
    challenge: Callable[[HttpRequest], bytes] | None = None
    """What ``WWW-Authenticate`` says to whoever has no token that counts."""


class RequestGuard:
    """A policy made ready to be asked for every request; names with ``port``, the server's own, are found faster."""

    __slots__ = ("_admit", "_asks_itself", "_challenge", "_hosts", "_identify", "_open_paths", "_origins")

    def __init__(self, policy: GuardPolicy, port: int = 0) -> None:
        self._hosts = _Names(policy.allowed_hosts, port)
        self._origins = _Names(policy.allowed_origins, port)
        self._identify = policy.identify
        self._open_paths = frozenset(path.encode() for path in policy.open_paths)
        self._asks_itself = policy.asks_itself
        self._admit, self._challenge = policy.admit, policy.challenge

    def refusal(self, request: HttpRequest) -> Refusal | None:
        """Why this request is not served, or ``None``."""
        host, origin = request.header(b"host"), request.header(b"origin")
        if host is None:
            return NO_HOST
        if host not in self._hosts:
            return WRONG_HOST
        if origin is not None and origin not in self._origins:
            return WRONG_ORIGIN
        if origin is not None and request.method == b"OPTIONS" and request.header(REQUESTED_METHOD) is not None:
            return _preflight(request, origin)
        if self._identify is not None and request.path not in self._open_paths:
            refusal = self._recognise(request, self._identify)
            is_left_open = request.header(b"authorization") is None and self._asks_itself(request)
            if refusal is not None and not is_left_open:
                return refusal if origin is None else replace(refusal, headers=refusal.headers + shared_headers(origin))
        return WRONG_METHOD if request.method in FORBIDDEN_METHODS else None

    def _recognise(self, request: HttpRequest, identify: Identify) -> Refusal | None:
        """Put on the request who sends it, or say why it is not served."""
        scheme, _, token = (request.header(b"authorization") or b"").partition(b" ")
        identity = identify(token.strip()) if scheme.lower() == b"bearer" else None
        if identity is None:
            return self._no_token(request)
        if isinstance(identity, Refusal):
            return identity
        refusal = self._admit(request, identity) if self._admit is not None else None
        if refusal is None:
            request.identity = identity
        return refusal

    def _no_token(self, request: HttpRequest) -> Refusal:
        if self._challenge is None:
            return NO_TOKEN
        return replace(NO_TOKEN, headers=((b"www-authenticate", self._challenge(request)),))


def _preflight(request: HttpRequest, origin: bytes) -> Refusal:
    """What a browser asks before it lets an allowed page send a request; it never has the token with it."""
    wanted = request.header(b"access-control-request-headers") or b""
    allowed = wanted if _HEADER_NAMES.fullmatch(wanted) else b"authorization, content-type"
    headers = (
        *shared_headers(origin),
        (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE"),
        (b"access-control-allow-headers", allowed),
        (b"access-control-max-age", b"600"),
    )
    return Refusal(204, "HTTP_PREFLIGHT", "", headers)


def share_with(origin: bytes) -> bytes:
    """The same as header lines."""
    return encode_headers(shared_headers(origin))


def shared_headers(origin: bytes) -> tuple[tuple[bytes, bytes], ...]:
    """Headers that let the page of an allowed origin read an answer."""
    return (
        (b"access-control-allow-origin", origin),
        (b"access-control-expose-headers", EXPOSED),
        (b"vary", b"origin"),
    )


class _Names:
    """Hosts or origins, by exact name or with any port."""

    __slots__ = ("_any_port", "_exact")

    def __init__(self, names: Iterable[str], port: int) -> None:
        entries = [name.lower().encode() for name in names]
        self._any_port = frozenset(entry[:-2] for entry in entries if entry.endswith(b":*"))
        self._exact = self._any_port.union(entries, (b"%b:%d" % (name, port) for name in self._any_port))

    def __contains__(self, value: bytes) -> bool:
        return value in self._exact or self._allows(value.lower())

    def _allows(self, value: bytes) -> bool:
        name, _, port = value.rpartition(b":")
        return value in self._exact or (port.isdigit() and name in self._any_port)


def join_repeated(name: bytes, first: bytes, second: bytes) -> Repeated:
    """Both values of a header that was sent twice; one that can have one meaning only is refused instead."""
    joined = Repeated.of(first, second)
    if name in SINGLE_HEADERS or len(joined.parts) > MOST_REPEATS:
        raise RequestRefused(Refusal(400, "HTTP_DUPLICATE_HEADER", f"{name.decode()!r} was sent too often."))
    return joined


NO_HOST = Refusal(400, "HTTP_NO_HOST", "The request has no Host header.")
WRONG_HOST = Refusal(
    421,
    "HTTP_WRONG_HOST",
    "This server does not answer for that Host. Use the address it printed at start, or allow the name.",
)
WRONG_ORIGIN = Refusal(
    403, "HTTP_WRONG_ORIGIN", "Pages of that Origin may not use this server. Allow the origin to change this."
)
NO_TOKEN = Refusal(
    401,
    "HTTP_UNAUTHORIZED",
    "A valid token is needed: send `Authorization: Bearer <token>`.",
    ((b"www-authenticate", b'Bearer realm="toolcrib"'),),
)
WRONG_METHOD = Refusal(405, "HTTP_METHOD_NOT_ALLOWED", "TRACE and CONNECT are not served here.")
