"""Pages from the web as bytes: only from public addresses, checked anew at every redirect."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import unquote, urljoin, urlsplit

from toolcrib.core.errors import ConfigError, UnreadableSource
from toolcrib.core.knowledge import Stamp
from toolcrib.knowledge.parse.reading import FOREIGN_MAX
from toolcrib.knowledge.walk import Content
from toolcrib.transports.http_client import HttpPool, PoolLimits
from toolcrib.transports.http_dial import HttpFailure
from toolcrib.transports.public import is_public

PATIENCE_S = 60.0
REDIRECTS_MAX = 5
_KINDS = {
    "text/html": "html",
    "application/xhtml+xml": "html",
    "application/pdf": "pdf",
    "text/markdown": "markdown",
    "text/csv": "csv",
    "application/json": "json",
}


@dataclass(frozen=True, slots=True)
class Page:
    """A document to be fetched."""

    url: str

    @property
    def source(self) -> str:
        """What it is called: its address."""
        return self.url

    @property
    def name(self) -> str:
        """What a file of it would be called."""
        parts = urlsplit(self.url)
        return unquote(PurePosixPath(parts.path).name) or parts.hostname or "page"


MayReach = Callable[[str], bool]


async def fetch(page: Page, may_reach: MayReach = is_public) -> Content:
    """The bytes of a page; raises ``UnreadableSource``."""
    url = page.url
    try:
        async with asyncio.timeout(PATIENCE_S):
            for _ in range(REDIRECTS_MAX):
                found = await _get(url, may_reach)
                if isinstance(found, Content):
                    return found
                url = urljoin(url, found)
    except TimeoutError:
        raise UnreadableSource(f"it did not come within {PATIENCE_S:.0f} s") from None
    except (HttpFailure, ConfigError) as error:
        raise UnreadableSource(error.message.rstrip(".")) from None
    raise UnreadableSource(f"it redirects more than {REDIRECTS_MAX} times")


async def _get(url: str, may_reach: MayReach) -> Content | str:
    """What is there, or where it points to."""
    pool = HttpPool(url, limits=PoolLimits(connections=1, body_bytes=FOREIGN_MAX), may_reach=may_reach)
    try:
        response = await pool.request("GET", pool.origin.target, [(b"accept", b"text/html, */*;q=0.8")])
    except HttpFailure as failure:
        if failure.phase == "redirect" and failure.details.get("location"):
            return str(failure.details["location"])
        raise
    finally:
        await pool.close()
    if response.status != 200:
        raise UnreadableSource(f"the server answered {response.status}")
    kind = (response.header(b"content-type") or b"").decode("latin-1").partition(";")[0].strip().lower()
    return Content(response.body, Stamp("", len(response.body), 0), _KINDS.get(kind, ""))
