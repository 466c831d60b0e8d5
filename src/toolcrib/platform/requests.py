"""One request to the platform: its address put together safely, its answer waited for with patience, but not for ever.

Nothing of an answer that was a failure is repeated: it could hold what was sent.
"""

import asyncio
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from urllib.parse import quote

from toolcrib.core.errors import CallerError, SourceUnavailable
from toolcrib.transports.http_client import HttpFailure, HttpPool, PoolLimits, Response
from toolcrib.transports.http_dial import encode_own_headers

BODY_MAX = 4 * 1024 * 1024
WAIT_MAX_S = 30.0
APP_ID_MAX = 200
BUSY = frozenset({429, 500, 502, 503, 504})
_UNSAFE = re.compile(r"[/\\?#%\s\x00-\x1f\x7f]")


class PlatformFailure(SourceUnavailable):
    """The platform gave no answer that can be used; ``status`` is its HTTP status, zero if there was none."""

    def __init__(self, message: str, *, status: int = 0, hint: str = "") -> None:
        super().__init__(message, hint=hint, details={"status": status} if status else {})
        self.status = status

    @property
    def is_passing(self) -> bool:
        """Whether it may be better later, so that what was known before still counts."""
        return not self.status or self.status in BUSY or self.status == 200


@dataclass(frozen=True, slots=True)
class Patience:
    """How long the platform may take, and how often it is asked."""

    connect_timeout_s: float = 10.0
    total_timeout_s: float = 30.0
    delays_s: Sequence[float] = (0.5, 1.0)
    """Before each further attempt, half of it by chance; the platform's own wish counts more."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What is sent where."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    method: str = "GET"
    body: bytes = field(default=b"", repr=False)


def app_segment(app_id: str | None) -> str:
    """An application's id as one part of a path; one that could lead anywhere else is refused."""
    name = (app_id or "").strip()
    if not name:
        raise CallerError("agentic_app_id cannot be empty or None", hint="Give the id of the application.")
    if _UNSAFE.search(name) or name.strip(".") == "" or len(name) > APP_ID_MAX:
        raise CallerError(
            "The application id cannot stand in an address.",
            hint="It may not hold slashes, spaces, or any of ? # % and is at most 200 characters long.",
        )
    return quote(name, safe="")


async def send(ask: Ask, patience: Patience, what: str) -> Response:
    """The answer to a request, asked for again while the platform is busy or out of reach."""
    pool = HttpPool(ask.url, connect_timeout_s=patience.connect_timeout_s, limits=PoolLimits(4, body_bytes=BODY_MAX))
    try:
        async with asyncio.timeout(patience.total_timeout_s):
            return await _patiently(pool, ask, patience.delays_s)
    except TimeoutError:
        late = f"{what}: {pool.origin} did not answer within {patience.total_timeout_s:g} s."
        raise PlatformFailure(late, hint="Try again later, or allow more time.") from None
    except HttpFailure as failure:
        raise PlatformFailure(f"{what}: {failure.message}", hint=failure.hint) from None
    finally:
        await pool.close()


async def _patiently(pool: HttpPool, ask: Ask, delays_s: Sequence[float]) -> Response:
    head = pool.encode_head(ask.method, pool.origin.target, encode_own_headers("the platform", ask.headers))
    for delay_s in delays_s:
        try:
            response = await pool.exchange(head, ask.body, replayable=ask.method == "GET")
        except HttpFailure as failure:
            if failure.phase not in ("resolve", "connect") and ask.method != "GET":
                raise
            await asyncio.sleep(_jittered(delay_s))
            continue
        if response.status not in BUSY:
            return response
        await asyncio.sleep(_wished(response, delay_s))
    return await pool.exchange(head, ask.body, replayable=ask.method == "GET")


def _jittered(delay_s: float) -> float:
    return delay_s * (0.5 + random.random() / 2)  # noqa: S311 - spreads requests, keeps no secret


def _wished(response: Response, delay_s: float) -> float:
    """What ``Retry-After`` asks for, as seconds or as a date by the clock of the server, within reason."""
    wish = (response.header(b"retry-after") or b"").decode("latin-1").strip()
    if wish.isascii() and wish.isdigit():
        return min(float(wish[:9]), WAIT_MAX_S)
    moment = _date(wish)
    if moment is None:
        return _jittered(delay_s)
    now = _date((response.header(b"date") or b"").decode("latin-1")) or datetime.now(UTC)
    return min(max((moment - now).total_seconds(), 0.0), WAIT_MAX_S)


def _date(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def refused(response: Response, what: str, scope: str = "") -> PlatformFailure:
    """An answer that is a refusal, with what to do about it."""
    status = response.status
    phrase = HTTPStatus(status).phrase if status in set(HTTPStatus) else "unknown status"
    hint = _HINTS.get(status, "Try again later." if status in BUSY else "")
    return PlatformFailure(f"{what}: HTTP {status} {phrase}.", status=status, hint=hint.format(scope=scope))


_HINTS = {
    401: "The platform does not accept the token: get a new one, made for {scope}.",
    403: "The token does not allow this: ask whoever looks after the application for the permission.",
    404: "The platform does not know this application: check its id and the endpoint.",
    429: "The platform is asked too often. Try again later.",
}
