"""HTML: the text of a page without its furniture. Meant for a worker: pages can be hostile."""

import re
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from toolcrib.core.errors import UnreadableSource
from toolcrib.knowledge.parse.parsed import Parsed, to_utc
from toolcrib.knowledge.parse.text import TextWriter, clean, decode

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser

_DROPPED = frozenset(
    {"script", "style", "noscript", "template", "svg", "math", "iframe", "object", "canvas", "head", "nav", "select",
     "button", "input", "textarea", "audio", "video", "-comment"}
)  # fmt: skip
_BLOCKS = frozenset(
    {"p", "div", "section", "article", "main", "header", "footer", "aside", "ul", "ol", "dl", "dt", "dd", "table",
     "blockquote", "figure", "figcaption", "form", "fieldset", "details", "summary", "address", "body", "html", "hr"}
)  # fmt: skip
DEPTH_MAX, TAGS_MAX = 30_000, 1_000_000
"""How deep elements may stand in each other, and how many tags are looked at to know."""
_TAG = re.compile(
    r"</|/>|<(?!(?:p|li|t[dhr]|d[dt]|option|thead|tbody|br|hr|img|input|meta|link|col|area|base|embed|source|track|wbr)"
    r"\b)[a-z]",
    re.IGNORECASE,
)
"""What opens or closes an element; those that close themselves, or are left open by habit, open none."""
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_DATES = ("article:published_time", "date", "dc.date", "dcterms.date", "article:modified_time")


def parse_html(content: bytes) -> Parsed:
    """The main part of a page; its headings and what its head says."""
    try:
        from selectolax.lexbor import LexborHTMLParser
    except ImportError:
        raise UnreadableSource("HTML needs selectolax: install toolcrib[kb]") from None
    text = decode(content)
    if is_too_deep(text):
        raise UnreadableSource(f"its elements are nested more than {DEPTH_MAX} deep")
    tree = LexborHTMLParser(text)
    writer = _Page()
    writer.read(_main(tree))
    said = _said(tree)
    metadata = {"author": said.get("author"), "url": _link(tree, "canonical")}
    return Parsed(
        writer.text,
        "html",
        title=_title(tree, said),
        date=next((date for name in _DATES if (date := to_utc(said.get(name, "")))), ""),
        licence=_link(tree, "license"),
        outline=writer.outline,
        metadata={key: value for key, value in metadata.items() if value},
    )


def is_too_deep(text: str) -> bool:
    """Whether elements stand in each other so deep that building the tree would take forever: it is quadratic."""
    if text.count("<") <= DEPTH_MAX:
        return False
    depth = 0
    for tag in islice(_TAG.finditer(text), TAGS_MAX):
        depth = max(depth - 1, 0) if "/" in tag[0] else depth + 1
        if depth > DEPTH_MAX:
            return True
    return False


def _main(tree: "LexborHTMLParser") -> Any:
    for selector in ("main", "article"):
        found = tree.css(selector)
        if len(found) == 1 and len(found[0].text(deep=True)) > 200:
            return found[0]
    return tree.root


def _title(tree: "LexborHTMLParser", said: dict[str, str]) -> str:
    title = tree.css_first("title") or tree.css_first("h1")
    return " ".join((said.get("og:title") or (title.text(deep=True) if title else "")).split())


def _said(tree: "LexborHTMLParser") -> dict[str, str]:
    said: dict[str, str] = {}
    for meta in tree.css("meta")[:200]:
        attributes = meta.attributes
        name = (attributes.get("name") or attributes.get("property") or "").lower()
        if name and attributes.get("content"):
            said.setdefault(name, clean(attributes["content"] or "")[:1000])
    return said


def _link(tree: "LexborHTMLParser", relation: str) -> str | None:
    link = tree.css_first(f'[rel~="{relation}"][href]')
    return clean(link.attributes["href"] or "")[:1000] if link else None


class _Page(TextWriter):
    """Turns elements into paragraphs."""

    def __init__(self) -> None:
        super().__init__()
        self._inline: list[str] = []

    def read(self, root: Any) -> None:
        for node, is_open in _events(root):
            tag = node.tag
            if tag == "-text":
                self._inline.append((node.text_content or "") if is_open else "")
            elif tag in _HEADINGS:
                self._flush(_HEADINGS[tag] if not is_open else 0)
            elif tag == "br" and is_open:
                self._inline.append("\n")
            elif tag == "li":
                self._flush()
                if is_open:
                    self._inline.append("- ")
            elif tag == "pre":
                self._flush(keeps_space=not is_open)
            elif tag in ("td", "th") and not is_open:
                self._inline.append(" | ")
            elif tag in _BLOCKS or tag == "tr":
                self._flush()
        self._flush()

    def _flush(self, level: int = 0, *, keeps_space: bool = False) -> None:
        text, self._inline = "".join(self._inline), []
        if not keeps_space:
            text = " ".join(text.split()).removesuffix(" |")
        if level:
            self.heading(level, text)
        elif text.strip(" -|"):
            self.paragraph(text)


def _events(root: Any) -> Iterator[tuple[Any, bool]]:
    """Every element as it opens and closes, without recursion: pages can be nested thousands deep."""
    node, is_down = root, True
    depth = 0
    while node is not None:
        if is_down and node.tag not in _DROPPED:
            yield node, True
            if node.child is not None:
                node, depth = node.child, depth + 1
                continue
        if node.tag not in _DROPPED:
            yield node, False
        if depth == 0:
            return
        if node.next is not None:
            node, is_down = node.next, True
        else:
            node, is_down, depth = node.parent, False, depth - 1
