"""The tooling gateway: which servers an application has, at either address, in either form."""

import asyncio
import os
import random
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote

import msgspec

from toolcrib.config.jsonc import read_jsonc
from toolcrib.config.manifest import MANIFEST_NAME, ManifestEntry, listed_items, read_entries
from toolcrib.core.errors import CallerError, ConfigError, SourceUnavailable
from toolcrib.core.network import Network
from toolcrib.stores.files import read_text
from toolcrib.transports.http.client import HttpFailure, HttpPool, PoolLimits, Response
from toolcrib.transports.http.dial import encode_own_headers

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
    network: Network | None = None
    """The way there; ``None`` leaves it to the environment of this process."""


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
    limits = PoolLimits(4, body_bytes=BODY_MAX)
    pool = HttpPool(ask.url, connect_timeout_s=patience.connect_timeout_s, network=patience.network, limits=limits)
    try:
        async with asyncio.timeout(patience.total_timeout_s) as limit:
            return await _patiently(pool, ask, patience.delays_s, limit)
    except TimeoutError:
        late = f"{what}: {pool.origin} did not answer within {patience.total_timeout_s:g} s."
        raise PlatformFailure(late, hint="Try again later, or allow more time.") from None
    except HttpFailure as failure:
        raise PlatformFailure(f"{what}: {failure.message}", hint=failure.hint) from None
    finally:
        await pool.close()


async def _patiently(pool: HttpPool, ask: Ask, delays_s: Sequence[float], limit: asyncio.Timeout) -> Response:
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
        pause_s, until = _wished(response, delay_s), limit.when()
        if until is not None and asyncio.get_running_loop().time() + pause_s > until:
            raise TimeoutError  # nobody has to wait for a moment at which nothing will be asked
        await asyncio.sleep(pause_s)
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


FAILED = "Failed to read MCP servers from endpoint"
PATHS: Mapping[str, str] = {"v1": "/agents/{app}/mcpServers", "v2": "/agents/v2/{app}/mcpServers"}
AUTO = "auto"
"""Both, the documented one first."""
VERSIONS = (AUTO, *PATHS)


@dataclass(frozen=True, slots=True)
class GatewayRequest:
    """What the gateway is asked."""

    endpoint: str
    app_id: str
    headers: Mapping[str, str] = field(repr=False)
    version: str = AUTO
    scope: str = ""
    etag: str = ""
    """Of the answer that is known already."""


@dataclass(frozen=True, slots=True)
class Listed:
    """What the gateway answered."""

    entries: tuple[ManifestEntry, ...]
    etag: str = ""


def gateway_urls(endpoint: str, app_id: str, version: str = AUTO) -> list[str]:
    """Where the servers of an application are listed, the likelier address first."""
    paths = PATHS.values() if version == AUTO else [PATHS[version]]
    return [endpoint + path.format(app=app_segment(app_id)) for path in paths]


async def ask_gateway(question: GatewayRequest, patience: Patience) -> Listed | None:
    """The servers of an application; ``None`` if they are those of the answer that is known already."""
    urls: Sequence[str] = gateway_urls(question.endpoint, question.app_id, question.version)
    headers = {**question.headers, "Accept": "application/json"}
    if question.etag:
        headers["If-None-Match"] = question.etag
    for url in urls:
        response = await send(Ask(url, headers), patience, FAILED)
        if response.status == 404 and url != urls[-1]:
            continue
        if response.status == 304 and question.etag:
            return None
        if response.status != 200:
            raise refused(response, FAILED, question.scope)
        etag = (response.header(b"etag") or b"").decode("latin-1")
        return Listed(read_reply(response.body), etag)
    raise PlatformFailure(f"{FAILED}: there is no address to ask.")


def read_reply(body: bytes) -> tuple[ManifestEntry, ...]:
    """The servers of a reply, whether it is a list or an object around one."""
    try:
        root = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _not_a_list("it is not JSON") from None
    if listed_items(root) is None:
        raise _not_a_list("it holds no list of servers")
    return tuple(read_entries(root))


def _not_a_list(why: str) -> PlatformFailure:
    hint = 'Expected is a list, or {"mcpServers": [...]}. Does the endpoint belong to a tooling gateway?'
    return PlatformFailure(f"{FAILED}: the answer cannot be used, {why}.", status=200, hint=hint)


NAME = MANIFEST_NAME
VARIABLE = "TOOLCRIB_MANIFEST"
_ROOT_MARKS = (".git", ".hg")


def _main_script() -> Path | None:
    main = getattr(sys.modules.get("__main__"), "__file__", None) or (sys.argv[0] if sys.argv else "")
    path = Path(main) if main else None
    return path if path is not None and path.is_file() else None


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Where a program runs and where it is."""

    cwd: Path = field(default_factory=Path.cwd)
    script: Path | None = field(default_factory=_main_script)
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ), repr=False)


def places(around: Whereabouts) -> list[Path]:
    """Where the manifest is looked for, in this order: the working directory, those above it up to the repository's
    root, beside the main script."""
    beside = [around.script.absolute().parent] if around.script is not None else []
    return list(dict.fromkeys(directory / NAME for directory in (*_upwards(around.cwd.absolute()), *beside)))


def _upwards(start: Path) -> Iterator[Path]:
    """A directory, and those above it as far as the root of its repository; without one, it alone."""
    line = [start, *start.parents]
    root = next((index for index, place in enumerate(line) if any((place / mark).exists() for mark in _ROOT_MARKS)), 0)
    yield from line[: root + 1]


def find_manifest(around: Whereabouts, chosen: str = "") -> Path | None:
    """The manifest that was chosen, here or by the variable, else the first that is found, if any."""
    named = chosen or around.env.get(VARIABLE, "").strip()
    if not named:
        return next((path for path in places(around) if path.exists() and not path.is_dir()), None)
    path = around.cwd / Path(named).expanduser()
    if not path.exists():
        raise ConfigError(
            f"There is no manifest {str(path)!r}.", hint=f"Check `manifest` in [platform], or {VARIABLE}."
        )
    return path


def read_manifest(path: Path) -> tuple[ManifestEntry, ...]:
    """The servers of a manifest; one that is no JSON is an error with its line."""
    root = read_jsonc(read_text(path) or "", str(path)).root
    if listed_items(root) is None:
        raise ConfigError('There is no list "mcpServers" in it.', where=str(path), hint="See docs/platform.md.")
    return tuple(read_entries(root))
