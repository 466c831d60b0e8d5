"""Markdown of strangers as HTML: every text is escaped, and only our own few tags are put around it."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from markupsafe import Markup, escape

LONGEST_LINE = 4_000
_FENCE = re.compile(r"\s{0,3}(```|~~~)")
_HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*#*$")
_ITEM = re.compile(r"\s*([-*+]|\d{1,6}[.)])\s+(.*)$")
_RULE = re.compile(r"\s*(?:(?:-\s*){3,}|(?:\*\s*){3,}|_{3,})$")
_BAR = re.compile(r"\s*\|")
_QUOTE = re.compile(r">")
_CODE = re.compile(r"(`[^`\n]+`)")
_LINK = re.compile(r"!?\[([^\[\]\n]{0,300})\]\(([^()\s]{1,1000})\)")
_BOLD = re.compile(r"\*\*([^*\n]+)\*\*")
_LEANING = re.compile(r"(?<![\w*])\*([^*\s<][^*\n<]*)\*(?![\w*])")


@dataclass(slots=True)
class _Block:
    """Lines that belong together, and where they stand in the text."""

    kind: str
    start: int
    end: int
    lines: list[str] = field(default_factory=list)


def render_markdown(text: str, marked: tuple[int, int] | None = None) -> Markup:
    """The text as HTML; the blocks that touch the marked range are marked, the first of them as ``#passage``."""
    shown, is_found = [], False
    for block in _blocks(text):
        made = _html(block)
        if marked is not None and block.start < marked[1] and block.end > marked[0]:
            name = Markup("") if is_found else Markup(' id="passage"')
            made, is_found = Markup('<div class="marked"{}>{}</div>').format(name, made), True
        shown.append(made)
    return Markup("\n").join(shown)


def _blocks(text: str) -> Iterator[_Block]:
    at, current = 0, None
    for line in text.splitlines(keepends=True):
        start, at = at, at + len(line)
        bare = line.rstrip("\r\n")[:LONGEST_LINE]
        if current is not None and current.kind == "code":
            current.end = at
            if _FENCE.match(bare):
                yield current
                current = None
            else:
                current.lines.append(bare)
            continue
        kind = _kind(bare)
        if current is not None and (kind != current.kind or kind in ("heading", "rule", "code")):
            yield current
            current = None
        if kind == "blank":
            continue
        current = current or _Block(kind, start, at)
        current.end = at
        if kind != "code":
            current.lines.append(bare)
    if current is not None:
        yield current


_KINDS = (("code", _FENCE), ("heading", _HEADING), ("rule", _RULE), ("list", _ITEM), ("table", _BAR), ("quote", _QUOTE))


def _kind(line: str) -> str:
    if not line.strip():
        return "blank"
    return next((kind for kind, pattern in _KINDS if pattern.match(line)), "text")


def _html(block: _Block) -> Markup:
    made = _MADE.get(block.kind)
    return made(block.lines) if made is not None else Markup("<p>{}</p>").format(_lines(block.lines))


def _code(lines: list[str]) -> Markup:
    return Markup('<pre class="log" tabindex="0"><code>{}</code></pre>').format("\n".join(lines))


def _quote(lines: list[str]) -> Markup:
    return Markup("<blockquote><p>{}</p></blockquote>").format(_lines([line.lstrip("> ") for line in lines]))


def _lines(lines: list[str]) -> Markup:
    return Markup("\n").join(_inline(line) for line in lines)


def _heading(lines: list[str]) -> Markup:
    found = _HEADING.match(lines[0])
    level = min(len(found[1]) + 1, 6) if found else 2
    return Markup("<h{}>{}</h{}>").format(level, _inline(found[2] if found else lines[0]), level)


def _list(lines: list[str]) -> Markup:
    items = [found for line in lines if (found := _ITEM.match(line))]
    tag = "ol" if items and items[0][1][0].isdigit() else "ul"
    shown = Markup("").join(Markup("<li>{}</li>").format(_inline(item[2])) for item in items)
    return Markup("<{}>{}</{}>").format(Markup(tag), shown, Markup(tag))  # noqa: S704 - one of two words


def _table(lines: list[str]) -> Markup:
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]
    is_headed = len(rows) > 1 and all(set(cell) <= set(":- ") for cell in rows[1])
    head = _row(rows[0], "th") if is_headed else Markup("")
    body = Markup("").join(_row(row, "td") for row in (rows[2:] if is_headed else rows))
    return Markup('<div class="table-wrap"><table><thead>{}</thead><tbody>{}</tbody></table></div>').format(head, body)


_MADE: Mapping[str, Callable[[list[str]], Markup]] = {
    "code": _code,
    "heading": _heading,
    "rule": lambda _: Markup("<hr/>"),
    "list": _list,
    "table": _table,
    "quote": _quote,
}


def _row(cells: list[str], tag: str) -> Markup:
    shown = Markup("").join(Markup("<{0}>{1}</{0}>").format(Markup(tag), _inline(cell)) for cell in cells)  # noqa: S704
    return Markup("<tr>{}</tr>").format(shown)


def _inline(text: str) -> Markup:
    """Code, links to the web, bold and leaning words; everything else is text."""
    return Markup("").join(
        Markup("<code>{}</code>").format(part[1:-1]) if place % 2 else _linked(part)
        for place, part in enumerate(_CODE.split(text))
    )


def _linked(text: str) -> Markup:
    shown, at = Markup(""), 0
    for found in _LINK.finditer(text):
        shown += _weighed(text[at : found.start()])
        is_web = found[2].startswith(("http://", "https://")) and not found[0].startswith("!")
        words = found[1] or found[2]
        shown += Markup('<a href="{}" rel="noreferrer">{}</a>').format(found[2], words) if is_web else _weighed(words)
        at = found.end()
    return shown + _weighed(text[at:])


def _weighed(text: str) -> Markup:
    escaped = str(escape(text))
    bold = _BOLD.sub(r"<strong>\1</strong>", escaped)
    return Markup(_LEANING.sub(r"<em>\1</em>", bold))  # noqa: S704 - it was escaped, and only our own tags were added
