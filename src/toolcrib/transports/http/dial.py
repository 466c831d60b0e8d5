"""Reaching a server: its address from a URL, a connection to it, directly or through a proxy, and every way that can
fail, in words."""

import asyncio
import base64
import re
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import TypeVar, cast
from urllib.parse import unquote, urlsplit

from toolcrib.core.errors import ConfigError, InternalError, SourceUnavailable
from toolcrib.transports.http.message import encode_headers

P = TypeVar("P", bound=asyncio.Protocol)

DEFAULT_PORTS = {"http": 80, "https": 443}
HEAD_MAX = 16 * 1024
"""Of a proxy's answer."""
LIKE_THIS = "Write it like http://proxy.example:3128, or http://user:password@proxy.example:3128, percent-encoded."
CHECK_PROXY = "Check HTTPS_PROXY, HTTP_PROXY or [network] proxy; hosts it is not for belong into NO_PROXY."
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5]\d\d)[ \r]")


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


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy; shown without its user and password."""

    origin: HttpOrigin
    authorization: bytes = field(default=b"", repr=False)
    """A ready header line; empty if it asks for none."""

    def __str__(self) -> str:
        return str(self.origin)


def parse_proxy(url: str) -> Proxy:
    """The proxy at a URL; one without a scheme is an http one."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port
    except ValueError:  # whose text may hold the password
        raise ConfigError("The proxy's address is not a URL.", hint=LIKE_THIS) from None
    if parts.scheme.startswith("socks"):
        raise ConfigError(
            f"The proxy is a {parts.scheme} one, which toolcrib cannot use.", hint=f"Name an http:// one. {CHECK_PROXY}"
        )
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
        raise ConfigError("The proxy's address is not an http or https URL.", hint=LIKE_THIS)
    origin = HttpOrigin(parts.hostname, port or DEFAULT_PORTS[parts.scheme], parts.scheme == "https", b"/")
    if parts.username is None:
        return Proxy(origin)
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return Proxy(origin, b"proxy-authorization: Basic %b\r\n" % base64.b64encode(pair.encode()))


@cache
def tls_context(file: str, folder: str) -> ssl.SSLContext:
    """Checks certificates against what is trusted here: the system's own, or what is named instead of it.

    Made once, because reading all certificates takes 20 ms and more.
    """
    if not file and not folder:
        return ssl.create_default_context()
    usual = ssl.get_default_verify_paths()
    found_file = _check(file, "SSL_CERT_FILE or [network] ca_file") or _if_there(usual.openssl_cafile)
    found_folder = _check(folder, "SSL_CERT_DIR") or _if_there(usual.openssl_capath)
    try:
        return ssl.create_default_context(cafile=found_file, capath=found_folder)
    except (OSError, ValueError) as error:  # an SSLError is one
        hint = "It must hold certificates as PEM: -----BEGIN CERTIFICATE-----."
        raise ConfigError(f"The certificates in {file or folder!r} cannot be read: {error}.", hint=hint) from error


def _check(place: str, named_by: str) -> str | None:
    if place and not Path(place).exists():
        raise ConfigError(f"There is no {place!r}, which {named_by} names.", hint="Correct the path, or remove it.")
    return place or None


def _if_there(place: str) -> str | None:
    return place if Path(place).exists() else None


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
    check_addresses(origin, addresses, may_reach)
    for number, address in enumerate(addresses):
        try:
            async with asyncio.timeout((due - loop.time()) / (len(addresses) - number)):
                return await connect(origin, address, build, tls)
        except OSError as error:
            failure = explain(error, origin, timeout_s)
            failure.__cause__ = error
    raise failure


def check_addresses(origin: HttpOrigin, addresses: list[str], may_reach: Callable[[str], bool] | None) -> None:
    """Refuse an origin one of whose addresses may not be reached."""
    if may_reach is not None and not all(map(may_reach, addresses)):
        raise ForbiddenAddress(origin.host)


async def dial_through(
    proxy: Proxy, origin: HttpOrigin, build: Callable[[], P], tls: ssl.SSLContext | None, timeout_s: float
) -> P:
    """A connection to the origin by way of a proxy: a tunnel where it speaks TLS, otherwise one to the proxy itself,
    which passes on requests whose target is a whole URL."""
    outer = tls if proxy.origin.tls else None
    try:
        if not origin.tls:
            return await dial(proxy.origin, build, outer, timeout_s)
        tunnel = await dial(proxy.origin, Tunnel, outer, timeout_s)
    except HttpFailure as failure:
        message = f"The proxy {proxy} on the way to {origin} cannot be used: {failure.message}"
        raise HttpFailure(message, phase="connect", hint=CHECK_PROXY) from failure
    try:
        async with asyncio.timeout(timeout_s):
            await tunnel.open(proxy, origin)
            return await tunnel.start_tls(origin, build(), cast("ssl.SSLContext", tls))
    except BaseException as error:
        tunnel.transport.abort()
        if isinstance(error, OSError):
            raise explain(error, origin, timeout_s) from error
        raise


class Tunnel(asyncio.Protocol):
    """A connection to a proxy that shall become one to an origin."""

    def __init__(self) -> None:
        self._head = b""
        self._answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ready to ask."""
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """The proxy's answer, until its head is complete."""
        self._head += data
        if not self._answer.done() and (b"\r\n\r\n" in self._head or len(self._head) > HEAD_MAX):
            self._answer.set_result(self._head)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the proxy hung up, for whatever reason
        """What came until now is the answer."""
        if not self._answer.done():
            self._answer.set_result(b"")

    async def open(self, proxy: Proxy, origin: HttpOrigin) -> None:
        """Ask the proxy to connect to the origin; raises ``HttpFailure`` if it does not."""
        name = str(origin)
        place = name.encode() if name.isascii() else name.encode("idna")
        self.transport.write(b"CONNECT %b HTTP/1.1\r\nhost: %b\r\n%b\r\n" % (place, place, proxy.authorization))
        head = await self._answer
        match = _STATUS.match(head)
        if match is None:
            message = f"The proxy {proxy} did not answer in HTTP when it was asked for {origin}."
            raise HttpFailure(message, phase="connect", hint=CHECK_PROXY)
        if not match[1].startswith(b"2"):
            raise refused_by(proxy, origin, int(match[1]))
        if not head.endswith(b"\r\n\r\n"):
            raise HttpFailure(f"The proxy {proxy} spoke before {origin} was asked.", phase="connect", hint=CHECK_PROXY)

    async def start_tls(self, origin: HttpOrigin, protocol: P, tls: ssl.SSLContext) -> P:
        """The origin's own connection, inside the tunnel."""
        # Bytes can come before start_tls returns: the protocol must be able to abort by then.
        protocol.connection_made(self.transport)
        loop = asyncio.get_running_loop()
        transport = await loop.start_tls(self.transport, protocol, tls, server_hostname=origin.host)
        if transport is None:
            raise ConnectionResetError(None, "it was closed")
        protocol.connection_made(transport)
        return protocol


def refused_by(proxy: Proxy, origin: HttpOrigin, status: int) -> HttpFailure:
    """A proxy said no, with what to do about it."""
    if status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
        what = "does not accept its user and password" if proxy.authorization else "asks for a user and a password"
        hint = "Write them into its URL: http://user:password@host:port, percent-encoded."
        return HttpFailure(f"The proxy {proxy} on the way to {origin} {what}.", phase="connect", hint=hint)
    phrase = HTTPStatus(status).phrase if status in set(HTTPStatus) else "unknown status"
    deed = "could not reach" if status >= 500 else "refused to connect to"
    return HttpFailure(f"The proxy {proxy} {deed} {origin}: {status} {phrase}.", phase="connect", hint=CHECK_PROXY)


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
        hint = "If you trust its issuer, name the issuer's certificate file in SSL_CERT_FILE or [network] ca_file."
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
