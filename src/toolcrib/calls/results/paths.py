"""Paths into JSON that stays bytes: ``rows[3].name``, ``rows[*].id``, ``["a.b"]``, or pointers ``/rows/3/name``."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import Raw

from toolcrib.core.errors import InvalidArguments

NAMES_SHOWN = 30
NAME_MAX = 60

ALL: Final = object()
"""The step into every item: ``[*]``."""
Step = str | int | object

_STEP = re.compile(r"\.?([^.\[\]]+)|\[(?:(-?\d{1,18})|(\*)|(\"(?:[^\"\\]|\\.)*\"))\]")
_KINDS = {ord("{"): "object", ord("["): "array", ord('"'): "string", ord("t"): "boolean", ord("f"): "boolean"}


@dataclass(frozen=True, slots=True)
class PathValue:
    """What a path leads to: one value, or the rows that ``[*]`` makes of one."""

    rows: Sequence[Raw]
    is_many: bool = False
    skipped: int = 0
    """Items that have nothing where the path goes on."""


def parse_path(path: str) -> list[Step]:
    """The steps of a path; none for the root."""
    if path.startswith("/"):
        return [ALL if step == "*" else _unescape(step) for step in path[1:].split("/")]
    steps: list[Step] = []
    at = 0
    while at < len(path):
        match = _STEP.match(path, at)
        if match is None:
            raise InvalidArguments(f"path: cannot be read from {path[at : at + 20]!r} on.", hint=_EXAMPLES)
        steps.append(_step(match))
        at = match.end()
    return steps


_EXAMPLES = 'Write it like items[0].name, items[*].id or ["odd.key"].'


def _unescape(step: str) -> str:
    return step.replace("~1", "/").replace("~0", "~")


def _step(match: "re.Match[str]") -> Step:
    name, index, every, quoted = match.groups()
    if every:
        return ALL
    if index is not None:
        return int(index)
    return str(msgspec.json.decode(quoted)) if quoted is not None else str(name)


def find(root: Raw, steps: Sequence[Step]) -> PathValue:
    """Follow a path; one that leads nowhere is an error that lists what there is at that place."""
    rows, is_many, skipped, walked = [root], False, 0, ""
    for step in steps:
        if step is ALL:
            rows = [item for row in rows for item in _every(row, walked)]
            is_many = True
        elif is_many:
            inside = [found for row in rows if (found := _inside(row, step)) is not None]
            if rows and not inside:
                raise _nowhere(rows[0], step, walked)
            skipped += len(rows) - len(inside)
            rows = inside
        else:
            found = _inside(rows[0], step)
            if found is None:
                raise _nowhere(rows[0], step, walked)
            rows = [found]
        walked += _written(step)
    return PathValue(rows, is_many, skipped)


def kind_of(raw: Raw) -> str:
    """``object``, ``array``, ``string``, ``number``, ``boolean`` or ``null``, by the first byte."""
    first = bytes(memoryview(raw)[:1])
    return _KINDS.get(first[0], "null" if first == b"n" else "number")


def members(raw: Raw) -> dict[str, Raw]:
    """What an object holds, still as bytes."""
    return msgspec.json.decode(raw, type=dict[str, Raw])


def items(raw: Raw) -> list[Raw]:
    """What an array holds, still as bytes."""
    return msgspec.json.decode(raw, type=list[Raw])


def _every(row: Raw, walked: str) -> list[Raw]:
    kind = kind_of(row)
    if kind == "array":
        return items(row)
    if kind == "object":
        return list(members(row).values())
    raise InvalidArguments(f"path: {walked or 'the root'} is a {kind}, it has no items.")


def _inside(row: Raw, step: Step) -> Raw | None:
    kind = kind_of(row)
    if kind == "object":
        return members(row).get(str(step))
    if kind == "array" and (isinstance(step, int) or (isinstance(step, str) and step.isdecimal())):
        held, index = items(row), int(step)
        return held[index] if -len(held) <= index < len(held) else None
    return None


def _nowhere(row: Raw, step: Step, walked: str) -> InvalidArguments:
    kind, place = kind_of(row), walked.lstrip(".") or "the root"
    if kind == "object":
        return InvalidArguments(f"path: there is no {step!r} in {place}.", hint=f"It has: {_names(members(row))}.")
    if kind == "array":
        hint = f"{place} is an array of {len(items(row))}: go on with [0], or [*] for all."
        return InvalidArguments(f"path: there is no {step!r} in {place}.", hint=hint)
    return InvalidArguments(f"path: {place} is a {kind}, there is nothing inside.")


def _names(found: dict[str, Any]) -> str:
    return ", ".join(shown_names(found)) or "nothing"


def shown_names(found: dict[str, Any]) -> Iterator[str]:
    """The first keys of an object, and how many more there are."""
    for number, name in enumerate(found):
        if number == NAMES_SHOWN:
            yield f"and {len(found) - NAMES_SHOWN} more"
            return
        yield name if len(name) <= NAME_MAX else f"{name[:NAME_MAX]}…"


def _written(step: Step) -> str:
    if step is ALL:
        return "[*]"
    return f"[{step}]" if isinstance(step, int) else f".{step}"
