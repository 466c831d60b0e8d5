"""Getting what an address leads to: only from addresses that may be reached, checked anew at every redirect."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urljoin

from toolcrib.core.errors import ConfigError
from toolcrib.transports.http_client import HttpPool, PoolLimits
from toolcrib.transports.http_dial import HttpFailure
from toolcrib.transports.http_message import Headers
from toolcrib.transports.public import is_public

REDIRECTS_MAX = 5

MayReach = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """How much is taken, how long it may take, and from where."""

    body_bytes: int
    timeout_s: float
    may_reach: MayReach = is_public
    """Asked of the very address that is dialled."""


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
    pool = HttpPool(url, limits=PoolLimits(connections=1, body_bytes=limits.body_bytes), may_reach=limits.may_reach)
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
