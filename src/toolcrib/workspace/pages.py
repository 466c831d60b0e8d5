"""Pages from the web: from public addresses only, as text that a model can read, within limits of size and time."""

import asyncio
import codecs
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from toolcrib.core.call import ToolResult
from toolcrib.core.errors import ConfigError, InvalidArguments, ToolcribError, ToolFailed
from toolcrib.isolate.grants import MIB, Limits, Wish
from toolcrib.isolate.levels import AUTO
from toolcrib.isolate.worker import Task, Workers, module_places
from toolcrib.transports.http_fetch import Fetched, FetchLimits, fetch
from toolcrib.workspace.files import said

Arguments = Mapping[str, Any]
ToMarkdown = Callable[[str, str], Awaitable[str]]
SHOWN = 50_000
READING_S = 10.0
_HEADERS = [(b"accept", b"text/html, text/*;q=0.9, application/json;q=0.9, */*;q=0.5"), (b"user-agent", b"toolcrib")]
_HTML = frozenset({"text/html", "application/xhtml+xml"})
_TEXT = ("text/", "application/json", "application/xml", "application/javascript", "application/x-")
_NO_CHARSETS = frozenset({"punycode", "idna", "undefined", "unicode-escape", "raw-unicode-escape"})
"""What Python decodes but no page is written in; the first takes time with the square of a page's length."""
_LIMITS = Limits(memory_bytes=512 * MIB, address_bytes=4096 * MIB, file_bytes=MIB, open_files=64, cpu_s=8)


class PageTools:
    """``url_fetch``."""

    def __init__(self, limits: FetchLimits, to_markdown: ToMarkdown) -> None:
        self._limits, self._to_markdown = limits, to_markdown

    async def fetch(self, arguments: Arguments) -> ToolResult:
        """What an address leads to, as text."""
        found = await self._get(arguments["url"])
        if found.status >= 400:
            raise ToolFailed(f"{found.url} answered {found.status}.", details={"status": found.status})
        text = await self._text(found, raw=arguments.get("raw", False))
        start = arguments.get("offset", 0)
        shown = text[start : start + arguments.get("limit", SHOWN)]
        after = start + len(shown)
        more = f"\n\n({len(text) - after} more characters; go on with offset {after})" if after < len(text) else ""
        data = {"url": found.url, "status": found.status, "content_type": found.kind, "characters": len(text)}
        return said(f"{found.url}\n\n{shown}{more}", data | {"text": shown, "next": after if more else None})

    async def _get(self, url: str) -> Fetched:
        try:
            return await fetch(url, _HEADERS, self._limits)
        except ConfigError as error:
            raise InvalidArguments(error.message, hint="Give a public http or https address.") from None

    async def _text(self, found: Fetched, *, raw: bool) -> str:
        is_html = found.kind in _HTML or (not found.kind and found.body.lstrip()[:9].lower() == b"<!doctype")
        if not is_html and found.kind and not found.kind.startswith(_TEXT) and "+" not in found.kind:
            raise InvalidArguments(f"{found.url} is {found.kind}, {len(found.body)} bytes: not text.")
        if b"\0" in found.body[:8192] and not found.charset.startswith("utf-16"):
            raise InvalidArguments(f"{found.url} is {len(found.body)} bytes that are not text.")
        text = _decode(found)
        return await self._to_markdown(text, found.url) if is_html and not raw else text


def _decode(found: Fetched) -> str:
    try:
        codec = codecs.lookup(found.charset or "utf-8").name
        return found.body.decode("utf-8" if codec in _NO_CHARSETS else codec, errors="replace")
    except (LookupError, ValueError):  # unknown, no name at all, or a codec of bytes
        return found.body.decode(errors="replace")


def markdown_in(workers: Workers) -> ToMarkdown:
    """A reader of pages that trusts none; one that cannot be read is shown as it came."""
    places = module_places(__name__)

    async def convert(html: str, url: str) -> str:
        given = {"html": html.encode(errors="replace").decode(), "url": url}
        task = Task("reading a page", "toolcrib.workspace.markdown:perform", given, places)
        try:
            async with asyncio.timeout(READING_S):
                return (await workers.run(task, Wish(AUTO, limits=_LIMITS))).decode().strip()
        except (TimeoutError, ToolcribError):
            return html

    return convert
