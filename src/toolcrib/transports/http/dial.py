"""Reaching a server: its address from a URL, a connection to it, and every way that can fail, in words."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit

from toolcrib.core.errors import ConfigError, InternalError, SourceUnavailable
from toolcrib.transports.http.message import encode_headers

P = TypeVar("P", bound=asyncio.Protocol)

DEFAULT_PORTS = {"http": 80, "https": 443}


class HttpFailure(SourceUnavailable):
    """A request got no answer that can be used.

    ``phase`` says how far it came: resolve, connect, tls, answer, redirect, or closed. ``sent`` says whether the
    request may have reached the server, so whether it may have had its effect.
    """

    def __init__(self, message: str, *, phase: str, sent: bool = False, hint: str = "") -> None:
        super().__init__(message, hint=hint, details={"phase": phase, "sent": sent})
        self.phase, self.sent = phase, sent


class ForbiddenAddress(HttpFailure):
    """The address is one that may not be reached; trying again does not help."""

    code = "TOOL_PERMISSION_DENIED"

    def __init__(self, host: str) -> None:
        super().__init__(f"{host} is an address inside this machine or network.", phase="connect")


@dataclass(frozen=True, slots=True)
class HttpOrigin:
    """Where a server is."""

    host: str
    port: int
    tls: bool
    target: bytes
    """The path and query of the URL it was read from."""

    @classmethod
    def parse(cls, url: str) -> "HttpOrigin":
        """The origin of an ``http`` or ``https`` URL."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise ConfigError(
                f"{url!r} is not a URL: {error}.", hint="Write it like http://127.0.0.1:8000/mcp."
            ) from None
        if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
            raise ConfigError(f"{url!r} is not an http or https URL.", hint="Write it like http://127.0.0.1:8000/mcp.")
        if parts.username is not None:
            raise ConfigError("The URL contains a user name or password.", hint="Send them as an Authorization header.")
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        tls = parts.scheme == "https"
        return cls(parts.hostname, port or DEFAULT_PORTS[parts.scheme], tls, encode_target(target))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def authority(self) -> bytes:
        """What goes into the Host header: the port only where it is not the usual one."""
        usual = self.port == DEFAULT_PORTS["https" if self.tls else "http"]
        name = str(self).removesuffix(f":{self.port}") if usual else str(self)
        return name.encode() if name.isascii() else name.encode("idna")


def encode_target(target: str) -> bytes:
    """A request target as bytes; what may not stand in one is percent-encoded."""
    return b"".join(b"%c" % byte if 0x20 < byte < 0x7F else b"%%%02X" % byte for byte in target.encode())


def encode_own_headers(server: str, given: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """The user's own headers; one that cannot be sent is named, its value never shown."""
    encoded = []
    for name, value in given.items():
        try:
            encoded.append((name.encode("latin-1"), value.encode("latin-1")))
            encode_headers(encoded[-1:])
        except (UnicodeEncodeError, InternalError):
            raise ConfigError(
                f"The header {name!r} of server {server!r} has a character that HTTP headers cannot carry.",
                hint="Look for line breaks, quotes or dashes that came in with copy and paste.",
            ) from None
    return encoded


async def dial(
    origin: HttpOrigin,
    build: Callable[[], P],
    tls: ssl.SSLContext | None,
    timeout_s: float,
    may_reach: Callable[[str], bool] | None = None,
) -> P:
    """A connection to the first of the origin's addresses that accepts one; finding them is part of the time."""
    loop = asyncio.get_running_loop()
    due = loop.time() + timeout_s
    failure = HttpFailure(f"{origin.host} has no address.", phase="resolve")
    addresses = await resolve(origin, timeout_s)
    if may_reach is not None and not all(map(may_reach, addresses)):
        raise ForbiddenAddress(origin.host)
    for number, address in enumerate(addresses):
        try:
            async with asyncio.timeout((due - loop.time()) / (len(addresses) - number)):
                return await connect(origin, address, build, tls)
        except OSError as error:
            failure = explain(error, origin, timeout_s)
            failure.__cause__ = error
    raise failure


async def resolve(origin: HttpOrigin, timeout_s: float) -> list[str]:
    """The addresses of the origin's host, best first."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout_s):
            found = await loop.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError, TimeoutError) as error:
        message = f"The name {origin.host!r} does not resolve: {str(error) or 'no answer in time'}."
        raise HttpFailure(message, phase="resolve", hint="Check the URL's spelling and the network.") from error
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


async def connect(origin: HttpOrigin, address: str, build: Callable[[], P], tls: ssl.SSLContext | None) -> P:
    """A connection to one address, with TLS for the origin's name where there is a context."""
    loop = asyncio.get_running_loop()
    name = origin.host if tls is not None else None
    _, protocol = await loop.create_connection(build, address, origin.port, ssl=tls, server_hostname=name)
    return protocol


def explain(error: OSError, origin: HttpOrigin, timeout_s: float) -> HttpFailure:
    """Why no connection came about, as the person who wrote the URL would put it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        hint = "If you trust its issuer, name the issuer's certificate file in SSL_CERT_FILE."
        return HttpFailure(f"The certificate of {origin} is not valid: {error.verify_message}.", phase="tls", hint=hint)
    if isinstance(error, ssl.SSLError):
        hint = "Is it an http server? Then write http:// instead of https://."
        return HttpFailure(f"No TLS with {origin}: {error.reason or error}.", phase="tls", hint=hint)
    if isinstance(error, TimeoutError):
        return HttpFailure(f"No connection to {origin} within {timeout_s:g} s.", phase="connect")
    if isinstance(error, ConnectionRefusedError):
        return HttpFailure(f"Connection refused by {origin}.", phase="connect", hint="Is the server running?")
    return HttpFailure(
        f"No connection to {origin}: {error.strerror or str(error) or 'it was closed'}.", phase="connect"
    )
