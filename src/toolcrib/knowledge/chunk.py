"""Cutting a document into passages that follow its structure. Pure: the same text is always cut the same way.

Every character that is not white space is in exactly one passage; passages are in order and never overlap. They are
small so that they are found well; whoever reads one is handed its neighbours.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from toolcrib.core.errors import InvalidArguments
from toolcrib.core.knowledge import PLAIN, DocumentText, Heading, Outline, PassageSpan

TARGET = 1200
LEAST = 200
"""What a passage should have before a heading ends it."""

_GAP = re.compile(r"\n[^\S\n]*(?:\n[^\S\n]*)+|\f")
_BLANK_LINES = re.compile(r"\n[^\S\n]*(?:\n[^\S\n]*)+")  # the same where there is no form feed, found sooner
_SENTENCE_END = re.compile(r"[.!?…。！？]+[\"'’”)\]]*\s")

_INTRODUCED = "`~-*|"

Span = tuple[int, int]


def chunk(text: str, outline: Outline = PLAIN, target: int = TARGET) -> tuple[PassageSpan, ...]:
    """The passages of a text, as places in it."""
    paths = _Paths(outline)
    return tuple(paths.place(start, end) for start, end in _pack(text, outline, target))


def _pack(text: str, outline: Outline, target: int) -> Iterator[Span]:
    """Blocks put together as long as they fit and belong together."""
    headings = {heading.start for heading in outline.headings}
    pages = set(outline.pages)
    begun: Span | None = None
    for start, end in _introduced(text, _blocks(text, outline, target), target):
        if begun is not None:
            size = begun[1] - begun[0]
            is_full = end - begun[0] > target
            is_other_part = (start in headings and size >= LEAST) or (start in pages and size >= target // 2)
            if not is_full and not is_other_part:
                begun = begun[0], end
                continue
            yield begun
        begun = start, end
    if begun is not None:
        yield begun


def _introduced(text: str, blocks: Iterator[Span], target: int) -> Iterator[Span]:
    """What ends with a colon stays with the code, list or table that it introduces, where both fit."""
    held: Span | None = None
    for start, end in blocks:
        is_introduced = held is not None and end - held[0] <= target and text[start] in _INTRODUCED
        if held is not None and not is_introduced:
            yield held
        held = held[0] if held is not None and is_introduced else start, end
        if text[end - 1] not in ":：":
            yield held
            held = None
    if held is not None:
        yield held


def _blocks(text: str, outline: Outline, target: int) -> Iterator[Span]:
    """Paragraphs, cut at headings and pages as well, none longer than the target; no white space at their ends."""
    cuts = sorted({*(heading.start for heading in outline.headings), *outline.pages, 0, len(text)})
    gaps = _GAP if "\f" in text else _BLANK_LINES
    for first, past in pairwise(cuts):
        start = first
        for gap in gaps.finditer(text, first, past):
            yield from _pieces(text, start, gap.start(), target)
            start = gap.end()
        yield from _pieces(text, start, past, target)


def _pieces(text: str, start: int, end: int, target: int) -> Iterator[Span]:
    start, end = _stripped(text, start, end)
    while end - start > target:
        cut = _cut(text, start, start + target)
        yield _stripped(text, start, cut)
        start, end = _stripped(text, cut, end)
    if start < end:
        yield start, end


def _cut(text: str, start: int, limit: int) -> int:
    """The best place to cut before the limit: a line's end, a sentence's, a word's, or none."""
    middle = start + (limit - start) // 2
    if (line := text.rfind("\n", middle, limit)) > 0:
        return line
    sentence = None
    for sentence in _SENTENCE_END.finditer(text, middle, limit):  # noqa: B007 - the last one
        pass
    if sentence is not None:
        return sentence.end()
    for at in range(limit, middle, -1):
        if text[at - 1].isspace():
            return at
    return limit


def _stripped(text: str, start: int, end: int) -> Span:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end


class _Paths:
    """Which headings, and which page, a place stands under."""

    def __init__(self, outline: Outline) -> None:
        self._pages = outline.pages
        self._starts = [heading.start for heading in outline.headings]
        self._trails: list[tuple[str, ...]] = []
        above: list[tuple[int, str]] = []
        for heading in outline.headings:
            above = [*((level, title) for level, title in above if level < heading.level)]
            above.append((heading.level, heading.title))
            self._trails.append(tuple(title for _, title in above))

    def place(self, start: int, end: int) -> PassageSpan:
        under = bisect_right(self._starts, start)
        page = bisect_right(self._pages, start)
        return PassageSpan(start, end, max(page, 1) if self._pages else None, self._trails[under - 1] if under else ())


Extent = tuple[int, int]


def span_of(kept: DocumentText, wanted: Mapping[str, Any]) -> Extent:
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


def _numbered(starts: tuple[int, ...], size: int, first: int, last: int | None, unit: str) -> Extent:
    """Units counted from 1, the last one included."""
    if not 1 <= first <= len(starts):
        raise InvalidArguments(f"There is no {unit} {first}: the document has {len(starts)}.")
    until = len(starts) if last is None else min(int(last), len(starts))
    return starts[first - 1], starts[until] if until < len(starts) else size


def span_under(kept: DocumentText, title: str) -> Extent:
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
