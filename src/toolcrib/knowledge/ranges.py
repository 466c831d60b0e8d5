"""Parts of a document: by characters, lines, pages or headings. Pure; every range ends up in characters."""

from collections.abc import Mapping
from typing import Any

from toolcrib.core.errors import InvalidArguments
from toolcrib.core.knowledge import Heading, Outline, Text

Span = tuple[int, int]


def span_of(kept: Text, wanted: Mapping[str, Any]) -> Span:
    """The characters that a ``range`` means; raises ``InvalidArguments``."""
    start, end = int(wanted["start"]), wanted.get("end")
    if end is not None and end < start:
        raise InvalidArguments(f"The range ends at {end}, before it starts at {start}.", hint="Swap start and end.")
    if wanted["unit"] == "characters":
        return min(start, len(kept.text)), len(kept.text) if end is None else min(int(end), len(kept.text))
    if wanted["unit"] == "lines":
        return _numbered(_line_starts(kept.text), len(kept.text), start, end, "line")
    if not kept.outline.pages:
        raise InvalidArguments("This document has no pages.", hint="Ask for lines or characters.")
    return _numbered(kept.outline.pages, len(kept.text), start, end, "page")


def _line_starts(text: str) -> tuple[int, ...]:
    starts, at = [0], text.find("\n")
    while at >= 0:
        starts.append(at + 1)
        at = text.find("\n", at + 1)
    return tuple(starts)


def _numbered(starts: tuple[int, ...], size: int, first: int, last: int | None, unit: str) -> Span:
    """Units counted from 1, the last one included."""
    if not 1 <= first <= len(starts):
        raise InvalidArguments(f"There is no {unit} {first}: the document has {len(starts)}.")
    until = len(starts) if last is None else min(int(last), len(starts))
    return starts[first - 1], starts[until] if until < len(starts) else size


def span_under(kept: Text, title: str) -> Span:
    """From a heading to the next one that is not below it; raises ``InvalidArguments``."""
    headings = kept.outline.headings
    wanted = _plain(title)
    for number, heading in enumerate(headings):
        if _plain(heading.title) == wanted:
            return heading.start, _end_of(headings[number:], len(kept.text))
    known = ", ".join(repr(heading.title) for heading in headings[:20])
    raise InvalidArguments(f"No heading {title!r}.", hint=f"There are: {known}." if known else "There are none.")


def _end_of(headings: tuple[Heading, ...], size: int) -> int:
    level = headings[0].level
    return next((heading.start for heading in headings[1:] if heading.level <= level), size)


def _plain(title: str) -> str:
    return " ".join(title.lstrip("#").split()).casefold()


def page_of(outline: Outline, start: int) -> int | None:
    """The page a character is on."""
    return max(sum(page <= start for page in outline.pages), 1) if outline.pages else None
