"""Who may talk to a server at all, decided from the headers before any route is asked.

A web page anywhere can make a browser send requests to this machine, and a name of its own can be made to point here
(DNS rebinding). The browser tells on both: by ``Host``, the name it believes it talks to, and by ``Origin``, the page
that asked. So both are checked on every route, whether or not a token is needed.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from toolcrib.transports.http_message import MOST_REPEATS, Refusal, Repeated, Request, RequestRefused

LOOPBACK_HOSTS = frozenset({"localhost:*", "127.0.0.1:*", "[::1]:*"})
LOOPBACK_ORIGINS = frozenset(f"{scheme}://{host}" for scheme in ("http", "https") for host in LOOPBACK_HOSTS)

SINGLE_HEADERS = frozenset({b"host", b"origin", b"authorization", b"content-length", b"transfer-encoding"})
FORBIDDEN_METHODS = frozenset({b"TRACE", b"CONNECT"})

VerifyToken = Callable[[bytes], bool]


@dataclass(frozen=True, slots=True)
class GuardPolicy:
    """The hosts, origins and token a server accepts; ``name:*`` allows the name with any port and without one."""

    allowed_hosts: frozenset[str] = LOOPBACK_HOSTS
    allowed_origins: frozenset[str] = LOOPBACK_ORIGINS
    verify_token: VerifyToken | None = None
    """Given what follows ``Bearer``; must compare in constant time. ``None``: no token is needed."""
    open_paths: frozenset[str] = frozenset({"/healthz"})
    """Served without a token; Host and Origin are checked all the same."""


class Guard:
    """A policy made ready to be asked for every request; names with ``port``, the server's own, are found faster."""

    __slots__ = ("_hosts", "_open_paths", "_origins", "_verify")

    def __init__(self, policy: GuardPolicy, port: int = 0) -> None:
        self._hosts = _Names(policy.allowed_hosts, port)
        self._origins = _Names(policy.allowed_origins, port)
        self._verify = policy.verify_token
        self._open_paths = frozenset(path.encode() for path in policy.open_paths)

    def refusal(self, request: Request) -> Refusal | None:
        """Why this request is not served, or ``None``."""
        host, origin = request.header(b"host"), request.header(b"origin")
        if host is None:
            return NO_HOST
        if host not in self._hosts:
            return WRONG_HOST
        if origin is not None and origin not in self._origins:
            return WRONG_ORIGIN
        if self._verify is not None and not self._has_token(request, self._verify):
            return NO_TOKEN
        return WRONG_METHOD if request.method in FORBIDDEN_METHODS else None

    def _has_token(self, request: Request, verify: VerifyToken) -> bool:
        if request.path in self._open_paths:
            return True
        scheme, _, token = (request.header(b"authorization") or b"").partition(b" ")
        return scheme.lower() == b"bearer" and verify(token.strip())


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
