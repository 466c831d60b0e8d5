"""Pages from the web as bytes: only from public addresses, checked anew at every redirect."""

from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from toolcrib.core.errors import ConfigError, UnreadableSource
from toolcrib.core.knowledge import Stamp
from toolcrib.knowledge.parse.reading import FOREIGN_MAX
from toolcrib.knowledge.walk import Content
from toolcrib.transports.http_dial import HttpFailure
from toolcrib.transports.http_fetch import FetchLimits, MayReach
from toolcrib.transports.http_fetch import fetch as http_fetch
from toolcrib.transports.public import is_public

PATIENCE_S = 60.0
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


async def fetch(page: Page, may_reach: MayReach = is_public) -> Content:
    """The bytes of a page; raises ``UnreadableSource``."""
    limits = FetchLimits(FOREIGN_MAX, PATIENCE_S, may_reach)
    try:
        found = await http_fetch(page.url, [(b"accept", b"text/html, */*;q=0.8")], limits)
    except (HttpFailure, ConfigError) as error:
        raise UnreadableSource(error.message.rstrip(".")) from None
    if found.status != 200:
        raise UnreadableSource(f"the server answered {found.status}")
    return Content(found.body, Stamp("", len(found.body), 0), _KINDS.get(found.kind, ""))
