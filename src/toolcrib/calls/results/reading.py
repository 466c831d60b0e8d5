"""Answers to ``result_read``: a part of a kept result, never more than fits, always with how to go on.

Each answer is a line about what it is, and then the part itself, untouched, as a text of its own: parts read one after
the other add up to the whole.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Raw

from toolcrib.calls.results.document import ResultDocument, cost, fit
from toolcrib.calls.results.paths import PathValue, find, kind_of, parse_path
from toolcrib.calls.results.preview import example
from toolcrib.calls.results.shape import shape_of, whole_blob
from toolcrib.core.errors import InvalidArguments

USUAL_MATCHES = 50
LONG_LINE = 300
AROUND = 120
WINDOW = 1 << 20
"""Searched in one go; in between, other threads get their turn."""

Answer = tuple[str, str, int | None]
"""What was found, the matches, and the number of the first match that is not shown."""


def search_text(text: str, words: str, skip: int, count: int, room: int) -> Answer:
    """Lines that hold the words, whatever their case, each with its number and its neighbours."""
    places = list(_places(text, words))
    shown: list[str] = []
    wanted = places[max(skip, 0) : max(skip, 0) + (count or USUAL_MATCHES)]
    line, counted = 1, 0
    for at in wanted:
        line, counted = line + text.count("\n", counted, at), at
        passage = _passage(text, at, at + len(words), line)
        room -= cost(passage) + 8
        if room < 0:
            break
        shown.append(passage)
    return _told(places, shown, max(skip, 0), "\n--\n".join(shown))


def search_rows(rows: Sequence[Raw], words: str, skip: int, count: int, room: int) -> Answer:
    """Items whose JSON holds the words, as rows."""
    sought = words.casefold()
    texts = [(number, _readable(row)) for number, row in enumerate(rows)]
    found = [(number, text) for number, text in texts if sought in text.casefold()]
    shown: list[str] = []
    for number, text in found[max(skip, 0) : max(skip, 0) + (count or USUAL_MATCHES)]:
        line = f"[{number}]: {fit(text, max(room - 100, 0))}"
        room -= cost(line) + 2
        if room < 0:
            break
        shown.append(line)
    return _told([number for number, _ in found], shown, max(skip, 0), "\n".join(shown))


def _told(found: Sequence[int], shown: Sequence[str], skip: int, text: str) -> Answer:
    end = skip + len(shown)
    if not found:
        return "No match.", "", None
    about = f"Matches {skip + 1} to {end} of {len(found)}." if shown else f"There are {len(found)} matches."
    return about, text, end if shown and end < len(found) else None


def _places(text: str, words: str) -> Iterator[int]:
    """Where the words begin; once per line is enough."""
    pattern = re.compile(re.escape(words), re.IGNORECASE)
    beyond = -1
    for start in range(0, len(text), WINDOW):
        for match in pattern.finditer(text, start, min(len(text), start + WINDOW + len(words) - 1)):
            at = match.start()
            if at < beyond or at >= start + WINDOW:
                continue
            yield at
            beyond = min(_line_end(text, at), at + LONG_LINE)


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _passage(text: str, at: int, end: int, line: int) -> str:
    """The line of a match with one line before and after, or the neighbourhood of it within a long line."""
    begin, finish = text.rfind("\n", 0, at) + 1, _line_end(text, end)
    if finish - begin > LONG_LINE:
        left, right = max(begin, at - AROUND), min(finish, end + AROUND)
        return f"{line}: (character {at}) …{text[left:right]}…"
    before = text[text.rfind("\n", 0, max(begin - 1, 0)) + 1 : begin - 1] if begin else None
    after = text[finish + 1 : _line_end(text, finish + 1)] if finish < len(text) else None
    parts = [
        f"{line - 1}- {before[:LONG_LINE]}" if before is not None else "",
        f"{line}: {text[begin:finish]}",
        f"{line + 1}- {after[:LONG_LINE]}" if after is not None else "",
    ]
    return "\n".join(part for part in parts if part)


def _readable(row: Raw) -> str:
    """The JSON of a row without escapes, so that words are found as they are read."""
    try:
        return msgspec.json.encode(msgspec.json.decode(row)).decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
        return bytes(row).decode(errors="replace")


USUAL_CHARACTERS = 20_000
USUAL_LINES = 200
LINE_WINDOW = 1 << 16
SHAPE_ROOM = 4000
HEADER_ROOM = 2000
ASKED_MAX = 1000
PICTURE_MAX = 8_000_000
"""Bytes of a picture in base64; what is larger, no model takes."""
_PICTURES = ("image", "audio", "resource")

Blocks = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """Which part is wanted."""

    handle: str
    line: int | None = None
    count: int | None = None
    offset: int | None = None
    length: int | None = None
    search: str = ""
    path: str | None = None

    def go_on(self, **place: Any) -> str:
        """The arguments for the part that follows."""
        same = {"handle": self.handle, "path": self.path, "search": self.search or None}
        return example(**{key: value for key, value in same.items() if value is not None}, **place)


def answer(document: ResultDocument, question: ReadRequest, limit: int) -> Blocks:
    """The part, within ``limit`` bytes."""
    if cost(question.search) + cost(question.path or "") > ASKED_MAX:
        raise InvalidArguments("search and path are too long.", hint=f"Use at most {ASKED_MAX} bytes for both.")
    room = limit - HEADER_ROOM
    if question.path is None:
        return _read_text(document.text, question, room)
    found = _follow(document, question.path)
    only = found.rows[0] if not found.is_many else None
    if only is None:
        return _read_rows(found.rows, question, room, f", {found.skipped} without it left out" * bool(found.skipped))
    kind = kind_of(only)
    if kind == "array":
        return _read_rows(msgspec.json.decode(only, type=list[Raw]), question, room)
    if kind == "string":
        return _read_text(msgspec.json.decode(only, type=str), question, room)
    return _whole(only, question, room)


def _follow(document: ResultDocument, path: str) -> PathValue:
    """``$`` is the whole MCP result, any other path begins in its data."""
    if path.startswith("$"):
        return find(Raw(document.raw), parse_path(path[1:]))
    if document.data is None:
        raise InvalidArguments(
            "path: the text of this result is neither JSON nor rows.",
            hint="Read it by line or offset, or begin with $.",
        )
    return find(document.data, parse_path(path))


def _read_text(text: str, question: ReadRequest, room: int) -> Blocks:
    if question.search:
        return _said(search_text(text, question.search, question.offset or 0, question.count or 0, room), question)
    if question.line is not None:
        return _lines(text, question, room)
    if question.offset is None and question.length is None and (blob := whole_blob(text)) is not None:
        anyway = question.go_on(offset=0, length=USUAL_CHARACTERS)
        size = f"{blob.size:,} bytes of {blob.kind} as base64"
        return _blocks(f"This is {size}, nothing to read as text. To have its characters all the same: {anyway}")
    start = max(question.offset or 0, 0)
    wanted = USUAL_CHARACTERS if question.length is None else max(question.length, 0)
    part = fit(text[start : start + wanted], room)
    end = start + len(part)
    if start >= len(text) and text:
        return _blocks(f"There are {len(text)} characters, numbered from 0.")
    return _blocks(f"Characters {start} to {end} of {len(text)}.{_next(question, end, len(text))}", part)


def _next(question: ReadRequest, end: int, total: int) -> str:
    if end >= total:
        return " This is the end."
    same_length = {} if question.length is None else {"length": question.length}
    return f" Next: {question.go_on(offset=end, **same_length)}"


def _lines(text: str, question: ReadRequest, room: int) -> Blocks:
    total, first = text.count("\n") + 1, max(question.line or 1, 1)
    if first > total:
        return _blocks(f"There are {total} lines, numbered from 1.")
    start = line_start(text, first)
    count = min(max(question.count or USUAL_LINES, 1), total - first + 1)
    wanted = text[start : start + room + 1]  # no line that begins after that can fit
    wanted = wanted[: line_start(wanted, count + 1, len(wanted) + 1) - 1]
    part = fit(wanted, room)
    if len(part) < len(wanted) and "\n" not in part:
        more = question.go_on(offset=start + len(part))
        return _blocks(f"The beginning of line {first}, which is too long to show at once. Next: {more}", part)
    if len(part) < len(wanted):
        part = part[: part.rindex("\n")]
    last = first + part.count("\n")
    same = {} if question.count is None else {"count": question.count}
    more = f" Next: {question.go_on(line=last + 1, **same)}" if last < total else " This is the end."
    return _blocks(f"Lines {first} to {last} of {total}.{more}", part)


def line_start(text: str, line: int, otherwise: int = 0) -> int:
    """Where a line begins, counted from 1, without taking the text apart."""
    at, passed = 0, 1
    while passed < line:
        passing = text.count("\n", at, at + LINE_WINDOW)
        if passed + passing < line:
            at, passed = at + LINE_WINDOW, passed + passing
            if at >= len(text):
                return otherwise
        else:
            at, passed = text.index("\n", at) + 1, passed + 1
    return at


def _read_rows(rows: Sequence[Raw], question: ReadRequest, room: int, note: str = "") -> Blocks:
    if question.search:
        return _said(search_rows(rows, question.search, question.offset or 0, question.length or 0, room), question)
    start = max(question.offset or 0, 0)
    wanted = rows[start : None if question.length is None else start + max(question.length, 0)]
    shown = _fitting(wanted, room if question.length is not None else min(room, USUAL_CHARACTERS))
    end = start + len(shown)
    if wanted and not shown:
        return _too_large(f"Item {start}", wanted[0], room)
    about = f"Items {start} to {end - 1} of {len(rows)}" if shown else f"No items from {start} on, of {len(rows)}"
    return _blocks(f"{about}{note}.{_next(question, end, len(rows))}", "[" + ",\n".join(map(_text, shown)) + "]")


def _fitting(rows: Sequence[Raw], room: int) -> list[Raw]:
    shown: list[Raw] = []
    for row in rows:
        room -= cost(_text(row)) + 4
        if room < 0:
            break
        shown.append(row)
    return shown


def _whole(value: Raw, question: ReadRequest, room: int) -> Blocks:
    picture = _picture(value, question.path or "")
    if picture is not None:
        return [*_blocks(f"{question.path}:"), picture]
    text = _text(value)
    if cost(text) > room:
        return _too_large(question.path or "The root", value, room)
    return _blocks(f"{question.path or 'The root'}:", text)


def _picture(value: Raw, path: str) -> dict[str, Any] | None:
    """A content block that is no text, to be handed over as it is: a client shows it, no model reads its base64."""
    if not path.startswith("$.content[") or memoryview(value).nbytes > PICTURE_MAX:
        return None
    block = msgspec.json.decode(value)
    is_one = isinstance(block, dict) and block.get("type") in _PICTURES and not _holds_text(block)
    return block if is_one else None


def _holds_text(block: dict[str, Any]) -> bool:
    resource = block.get("resource")
    return isinstance(resource, dict) and "text" in resource


def _too_large(what: str, value: Raw, room: int) -> Blocks:
    shape = fit(shape_of(value), min(room, SHAPE_ROOM))
    return _blocks(f"{what} is too large to show at once. Go into it with a longer path; its shape is:", shape)


def _said(found: tuple[str, str, int | None], question: ReadRequest) -> Blocks:
    """What a search found, and from where it goes on."""
    about, text, following = found
    more = "" if following is None else f" Next: {question.go_on(offset=following)}"
    return _blocks(about + more, *([text] if text else []))


def _text(raw: Raw) -> str:
    return bytes(raw).decode(errors="replace")


def _blocks(*texts: str) -> Blocks:
    return [{"type": "text", "text": text} for text in texts]
