"""Pages from the web: from public addresses only, as text that a model can read, within limits of size and time."""

import asyncio
import codecs
import re
from collections.abc import Awaitable, Callable, Mapping
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin

from toolcrib.core.errors import ConfigError, InvalidArguments, ToolcribError, ToolFailed
from toolcrib.core.kinds import AUTO
from toolcrib.core.requests import Result
from toolcrib.isolate.levels import MIB, IsolationWanted, ResourceLimits
from toolcrib.isolate.worker import Task, Workers, module_places
from toolcrib.transports.http.fetch import Fetched, FetchLimits, fetch
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
_LIMITS = ResourceLimits(memory_bytes=512 * MIB, address_bytes=4096 * MIB, file_bytes=MIB, open_files=64, cpu_s=8)


class PageTools:
    """``url_fetch``."""

    def __init__(self, limits: FetchLimits, to_markdown: ToMarkdown) -> None:
        self._limits, self._to_markdown = limits, to_markdown

    async def fetch(self, arguments: Arguments) -> Result:
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
        task = Task("reading a page", "toolcrib.workspace.pages:perform", given, places)
        try:
            async with asyncio.timeout(READING_S):
                return (await workers.run(task, IsolationWanted(AUTO, limits=_LIMITS))).decode().strip()
        except (TimeoutError, ToolcribError):
            return html

    return convert


_DROPPED = frozenset(
    {"script", "style", "noscript", "template", "svg", "math", "iframe", "object", "canvas", "nav", "select", "button",
     "textarea", "audio", "video", "head", "form"}
)  # fmt: skip
_BLOCKS = frozenset(
    {"p", "div", "section", "article", "main", "header", "footer", "aside", "ul", "ol", "dl", "dt", "dd", "table", "tr",
     "blockquote", "figure", "figcaption", "details", "summary", "address", "body", "html", "hr", "fieldset"}
)  # fmt: skip
_VOID = frozenset({"br", "hr", "img", "input", "meta", "link", "source", "wbr", "col", "area", "base", "embed"})
_MARKS = {"strong": "**", "b": "**", "em": "*", "i": "*", "code": "`"}
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_SPACE = re.compile(r"[ \t\r\n\f]+")


def perform(given: Mapping[str, Any]) -> bytes:
    """In the worker: one page."""
    return f"{to_markdown(given['html'], given['url'])}\n".encode(errors="replace")


def to_markdown(html: str, url: str = "") -> str:
    """The text of a page, its title first."""
    page = _Page(url)
    page.feed(html)
    page.close()
    body = re.sub(r"\n{3,}", "\n\n", "\n".join(page.finish())).strip()
    title = " ".join("".join(page.title).split())
    return f"# {title}\n\n{body}" if title and not body.startswith(f"# {title}") else body


class _Page(HTMLParser):
    """Turns tags into lines."""

    def __init__(self, url: str) -> None:
        super().__init__(convert_charrefs=True)
        self._url = url
        self.title: list[str] = []
        self._in_title = False
        self._dropped: list[str] = []
        self._lines: list[str] = []
        self._inline: list[str] = []
        self._lists: list[list[Any]] = []
        self._links: list[str | None] = []
        self._cells: list[str] | None = None
        self._pre = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "title" and not self.title:
            self._in_title = True
        elif tag in _DROPPED and tag not in _VOID:
            self._dropped.append(tag)
        elif not self._dropped:
            self._open(tag, dict(attrs))

    def _open(self, tag: str, attributes: dict[str, str | None]) -> None:
        if tag in _HEADINGS:
            self._flush()
            self._inline.append("#" * _HEADINGS[tag] + " ")
        elif tag == "br":
            self._inline.append("\n")
        elif tag == "pre":
            self._flush()
            self._lines += ["", "```"]
            self._pre += 1
        elif tag == "li":
            self._flush()
            self._inline.append(self._bullet())
        elif tag == "a":
            self._links.append(attributes.get("href"))
            self._inline.append("[")
        elif tag == "img" and attributes.get("alt"):
            self._inline.append(f"![{attributes['alt']}]")
        elif tag in ("td", "th"):
            self._cell()
        elif tag in _MARKS and not self._pre:
            self._inline.append(_MARKS[tag])
        elif tag in _BLOCKS:
            self._open_block(tag)

    def _open_block(self, tag: str) -> None:
        self._flush()
        if tag in ("ul", "ol"):
            self._lists.append([tag, 0])
        elif tag == "tr":
            self._cells = []
        elif tag == "hr":
            self._lines.append("---")
        if tag not in ("tr", "div") and not (len(self._lists) > 1):
            self._lines.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
        elif self._dropped:
            if tag in self._dropped:
                del self._dropped[self._dropped.index(tag) :]
        else:
            self._close(tag)

    def _close(self, tag: str) -> None:
        if tag == "a" and self._links:
            self._link(self._links.pop())
        elif tag == "pre" and self._pre:
            self._pre -= 1
            self._lines += ["".join(self._inline).strip("\n"), "```", ""]
            self._inline = []
        elif tag in _MARKS and not self._pre:
            self._inline.append(_MARKS[tag])
        elif tag in ("td", "th"):
            self._cell()
        elif tag == "tr" and self._cells is not None:
            self._row()
        elif tag in _HEADINGS or tag == "p":
            self._flush()
            self._lines.append("")
        elif tag in _BLOCKS or tag == "li":
            self._flush()
            if tag in ("ul", "ol") and self._lists:
                self._lists.pop()

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title.append(data)
        elif not self._dropped:
            self._inline.append(data if self._pre else _SPACE.sub(" ", data))

    def finish(self) -> list[str]:
        """All lines, once nothing more comes."""
        if self._pre:
            self._lines += ["".join(self._inline), "```"]
            self._inline = []
        self._flush()
        return self._lines

    def _bullet(self) -> str:
        if not self._lists:
            return "- "
        current = self._lists[-1]
        current[1] += 1
        indent = "  " * (len(self._lists) - 1)
        return f"{indent}{current[1]}. " if current[0] == "ol" else f"{indent}- "

    def _link(self, href: str | None) -> None:
        start = max((at for at, piece in enumerate(self._inline) if piece == "["), default=None)
        if start is None:
            return
        text = "".join(self._inline[start + 1 :]).strip()
        del self._inline[start:]
        target = self._target(href)
        self._inline.append(f"[{text}]({target})" if text and target else text)

    def _target(self, href: str | None) -> str:
        try:
            target = urljoin(self._url, (href or "").strip())
        except ValueError:
            return ""
        return target if target.startswith(("http://", "https://", "mailto:")) and (href or "")[:1] != "#" else ""

    def _cell(self) -> None:
        text = " ".join("".join(self._inline).split())
        self._inline = []
        if self._cells is not None and text:
            self._cells.append(text.replace("|", "\\|"))

    def _row(self) -> None:
        self._cell()
        cells, self._cells = self._cells or [], None
        if cells:
            is_first = not (self._lines and self._lines[-1].startswith("|"))
            self._lines.append("| " + " | ".join(cells) + " |")
            if is_first:
                self._lines.append("|" + " --- |" * len(cells))

    def _flush(self) -> None:
        if self._pre:
            return
        text = "".join(self._inline)
        self._inline = []
        indent = re.match(r" *(?=- |\d+\. )", text)
        lines = [" ".join(line.split()) for line in text.split("\n")]
        if any(line.strip("-* #`") for line in lines):
            self._lines.append((indent[0] if indent else "") + "\n".join(lines).strip())
