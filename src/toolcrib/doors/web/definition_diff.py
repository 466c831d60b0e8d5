"""What changed in a tool's definition, place by place and word by word; nothing in it stays invisible."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from toolcrib.doors.web.schema_parts import brief
from toolcrib.schema.text import printable

MOST_CHANGES = 100
MOST_WORDS = 600
LONGEST = 20_000
_WORDS = re.compile(r"\w+\s*|[^\w\s]\s*|\s+")


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of text, changed or not."""

    text: str
    is_changed: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """One place of the definition that is different."""

    place: str
    before: tuple[Piece, ...] = ()
    """Empty if it was not there."""
    after: tuple[Piece, ...] = ()
    """Empty if it is gone."""

    @property
    def words(self) -> str:
        """What happened to it."""
        return "changed" if self.before and self.after else "new" if self.after else "gone"


def changes_between(old: Any, new: Any) -> list[Change]:
    """Every place that is different, in the order of the new definition, then what is gone."""
    before, after = dict(_places(old)), dict(_places(new))
    places = [*after, *(place for place in before if place not in after)]
    different = [place for place in places if before.get(place) != after.get(place)]
    return [_change(place, before.get(place), after.get(place)) for place in different[:MOST_CHANGES]]


def _places(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """The single values of a definition, by where they stand."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _places(inner, f"{place}.{printable(str(key))}" if place else printable(str(key)))
    elif value is not None or place:
        yield place, printable(value if isinstance(value, str) else brief(value))[:LONGEST]


def _change(place: str, before: str | None, after: str | None) -> Change:
    if before is None or after is None:
        return Change(place, _whole(before), _whole(after))
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    if max(len(old), len(new)) > MOST_WORDS:
        return Change(place, _whole(before), _whole(after))
    steps = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return Change(
        place,
        _pieces((old[a:b], tag != "equal") for tag, a, b, _, _ in steps),
        _pieces((new[c:d], tag != "equal") for tag, _, _, c, d in steps),
    )


def _whole(text: str | None) -> tuple[Piece, ...]:
    return () if text is None else (Piece(text or "(empty)", is_changed=True),)


def _pieces(runs: Iterator[tuple[list[str], bool]]) -> tuple[Piece, ...]:
    found = tuple(Piece("".join(words), is_changed) for words, is_changed in runs if words)
    return found or (Piece("(empty)", is_changed=True),)
