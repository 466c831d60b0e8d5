"""Pages as Markdown: headings, paragraphs, lists, links, tables and code, without a page's furniture.

Meant for a process of its own: the standard library's parser can be kept busy for long.
"""

import re
from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin

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
