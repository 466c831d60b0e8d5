"""Replacing text: exactly what was meant, exactly as often as was meant, or an error that shows what is there. Pure."""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass

from toolcrib.core.errors import InvalidArguments
from toolcrib.workspace.texts import split_lines, uses_crlf, with_ends_of

COMPARED_LINES_MAX = 20_000
NEAR = 0.6
SHOWN = 3


@dataclass(frozen=True, slots=True)
class Edit:
    """A text to be replaced; ``count`` is how often it must be there, ``None`` any number of times."""

    old: str
    new: str
    count: int | None = 1


def apply_edit(text: str, edit: Edit) -> str:
    """The text with the edit made; raises ``InvalidArguments`` if it does not fit."""
    if not edit.old:
        raise InvalidArguments("old_text is empty.", hint="Give the text to be replaced, or use file_write.")
    if edit.old == edit.new:
        raise InvalidArguments("old_text and new_text are the same.", hint="There is nothing to change.")
    crlf = uses_crlf(text)
    old = edit.old if edit.old in text else with_ends_of(edit.old, crlf)
    found = text.count(old)
    if not found:
        raise _missing(text, edit.old)
    if edit.count is not None and found != edit.count:
        raise _miscounted(text, old, edit.count)
    return text.replace(old, with_ends_of(edit.new, crlf) if crlf else edit.new)


def _miscounted(text: str, old: str, expected: int) -> InvalidArguments:
    places = [text.count("\n", 0, at) + 1 for at in _places(text, old)]
    shown = ", ".join(map(str, places[:20])) + (", ..." if len(places) > 20 else "")
    return InvalidArguments(
        f"old_text is there {len(places)} times, not {expected}: at line {shown}. Nothing was changed.",
        hint="Give more of the lines around it, or set count, or all.",
        details={"lines": places[:100]},
    )


def _places(text: str, old: str) -> Iterator[int]:
    at = text.find(old)
    while at >= 0:
        yield at
        at = text.find(old, at + len(old))


def _missing(text: str, old: str) -> InvalidArguments:
    lines = [line.rstrip("\r\n") for line in split_lines(text)]
    spaced = _differs_in_space(lines, old)
    if spaced is not None:
        start, end = spaced
        why = f"Lines {start + 1} to {end} differ from it only in white space:"
        return _shown(why, lines, [range(start, end)])
    near = [range(max(at - 1, 0), min(at + 2, len(lines))) for at in _nearest(lines, old)]
    return _shown("The nearest lines are:" if near else "Nothing like it is there.", lines, near)


def _shown(why: str, lines: list[str], places: list[range]) -> InvalidArguments:
    numbers = sorted({at for place in places for at in place})[:30]
    excerpt = "\n".join(f"{at + 1:>6}\t{lines[at][:300]}" for at in numbers)
    return InvalidArguments(
        f"old_text is not in the file. Nothing was changed. {why}" + (f"\n{excerpt}\n" if excerpt else ""),
        hint="Read the file again and copy the text exactly, white space included.",
        details={"nearest_lines": [at + 1 for at in numbers]},
    )


def _differs_in_space(lines: list[str], old: str) -> tuple[int, int] | None:
    wanted = [" ".join(line.split()) for line in old.strip("\n").splitlines()]
    plain = [" ".join(line.split()) for line in lines[:COMPARED_LINES_MAX]]
    for start in range(len(plain) - len(wanted) + 1):
        if plain[start] == wanted[0] and plain[start : start + len(wanted)] == wanted:
            return start, start + len(wanted)
    return None


def _nearest(lines: list[str], old: str) -> list[int]:
    """The lines most like the longest line of the text that was looked for."""
    key = max((line.strip() for line in old.splitlines()), key=len, default="")[:300]
    if not key:
        return []
    matcher = difflib.SequenceMatcher(b=key, autojunk=False)
    rated = []
    for at, line in enumerate(lines[:COMPARED_LINES_MAX]):
        matcher.set_seq1(line.strip()[:300])
        if matcher.real_quick_ratio() >= NEAR and matcher.quick_ratio() >= NEAR and matcher.ratio() >= NEAR:
            rated.append((-matcher.ratio(), at))
    return [at for _, at in sorted(rated)[:SHOWN]]
