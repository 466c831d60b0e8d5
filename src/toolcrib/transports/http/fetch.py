"""Getting what an address leads to: only from addresses that may be reached, checked anew at every redirect."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from urllib.parse import urljoin

from toolcrib.core.errors import ConfigError
from toolcrib.core.network import Network
from toolcrib.transports.http.client import HttpPool, PoolLimits
from toolcrib.transports.http.dial import HttpFailure
from toolcrib.transports.http.message import Headers

_UNICAST = IPv6Network("2000::/3")
"""The only part of IPv6 that was ever given out for use between strangers."""
_CARRIES_IPV4 = IPv6Network("2002::/16")
_NOT_FOR_USE = (IPv6Network("3fff::/20"), IPv4Network("192.88.99.0/24"), IPv4Network("192.0.0.0/24"))
"""For documents, for relays to IPv6, for protocols: the standard library takes them for global, at least in part."""


def is_public(address: str) -> bool:
    """Whether anybody on the internet could reach it; not this machine, its network, or a cloud's own services."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, IPv6Address):
        found = found.ipv4_mapped or found
    if not found.is_global or found.is_multicast or any(found in network for network in _NOT_FOR_USE):
        return False
    return isinstance(found, IPv4Address) or (found in _UNICAST and found not in _CARRIES_IPV4 and found.teredo is None)


REDIRECTS_MAX = 5

MayReach = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """How much is taken, how long it may take, and from where."""

    body_bytes: int
    timeout_s: float
    may_reach: MayReach = is_public
    """Asked of the very address that is dialled; with a proxy, of those that the name has here."""
    network: Network | None = None
    """The way there; ``None`` leaves it to the environment of this process."""
    check: Callable[[str], object] = str
    """Raises for an address that may not be asked, wherever it stands in a row of redirects."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """What was there in the end."""

    url: str
    status: int
    kind: str
    """The content type, in lowercase, without its parameters."""
    charset: str
    body: bytes


async def fetch(url: str, headers: Headers, limits: FetchLimits) -> Fetched:
    """What an address leads to, whatever its status; raises ``HttpFailure``, or ``ConfigError`` if it is no address."""
    try:
        async with asyncio.timeout(limits.timeout_s):
            for _ in range(REDIRECTS_MAX + 1):
                limits.check(url)
                found = await _get(url, headers, limits)
                if isinstance(found, Fetched):
                    return found
                url = urljoin(url, found)
    except TimeoutError:
        raise HttpFailure(f"It did not come within {limits.timeout_s:g} s.", phase="answer", sent=True) from None
    except ValueError as error:  # a redirect to something that is no address
        raise ConfigError(f"{url[:200]!r} is not a URL: {error}.") from None
    raise HttpFailure(f"It redirects more than {REDIRECTS_MAX} times.", phase="redirect", sent=True)


async def _get(url: str, headers: Headers, limits: FetchLimits) -> Fetched | str:
    """What is there, or where it points to."""
    taken = PoolLimits(connections=1, body_bytes=limits.body_bytes)
    pool = HttpPool(url, network=limits.network, limits=taken, may_reach=limits.may_reach)
    try:
        response = await pool.request("GET", pool.origin.target, headers)
    except HttpFailure as failure:
        location = failure.details.get("location")
        if failure.phase == "redirect" and location and location != "nowhere":
            return str(location)
        raise
    finally:
        await pool.close()
    kind, _, rest = (response.header(b"content-type") or b"").decode("latin-1").partition(";")
    return Fetched(url, response.status, kind.strip().lower(), _charset(rest), response.body)


def _charset(parameters: str) -> str:
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip("\"'").lower()
    return ""
