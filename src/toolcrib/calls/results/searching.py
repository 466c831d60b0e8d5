"""Plain words in large texts: no patterns, so no pattern can be made to run for ever."""

import re
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Raw

from toolcrib.calls.results.document import cost, fit

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
