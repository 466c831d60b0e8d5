"""What a docstring says: the summary, and what each parameter is (Google's ``Args:`` or Sphinx's ``:param x:``)."""

import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

_SPHINX = re.compile(r":param\s+(?:[^:]+\s)?\*{0,2}(\w+)\s*:\s*(.*)")
_SPHINX_FIELD = re.compile(r":\w+[^:]*:")
_GOOGLE_HEADING = re.compile(r"(?:Args|Arguments|Parameters|Params):")
_GOOGLE_ITEM = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")


@dataclass(frozen=True, slots=True)
class Docstring:
    """A docstring taken apart."""

    summary: str = ""
    """The first paragraph, as one line."""
    parameters: dict[str, str] = field(default_factory=dict)


def read_docstring(function: Callable[..., Any]) -> Docstring:
    """The docstring of a function; empty where it has none."""
    lines = (inspect.getdoc(function) or "").splitlines()
    return Docstring(_summary(lines), _google(lines) | _sphinx(lines))


def _summary(lines: list[str]) -> str:
    kept: list[str] = []
    for line in lines:
        if not line.strip() or _SPHINX_FIELD.match(line) or _GOOGLE_HEADING.fullmatch(line.strip()):
            break
        kept.append(line.strip())
    return " ".join(kept)


def _google(lines: list[str]) -> dict[str, str]:
    """The items below the heading: an item starts where the first one did, what is further right goes on with it."""
    block = _indented_block(lines)
    indent = min((_indent(line) for line in block if line.strip()), default=0)
    return _collect(
        (line.strip(), _GOOGLE_ITEM.match(line.strip()) if _indent(line) == indent else None) for line in block
    )


def _sphinx(lines: list[str]) -> dict[str, str]:
    start = next((at for at, line in enumerate(lines) if _SPHINX_FIELD.match(line)), len(lines))
    block: list[str] = []
    for line in lines[start:]:
        if not line.strip():
            break
        block.append(line)
    return _collect((line.strip(), _SPHINX.match(line)) for line in block if not _is_other_field(line))


def _is_other_field(line: str) -> bool:
    return _SPHINX_FIELD.match(line) is not None and _SPHINX.match(line) is None


def _collect(lines: Iterable[tuple[str, re.Match[str] | None]]) -> dict[str, str]:
    texts: dict[str, list[str]] = {}
    current = ""
    for line, item in lines:
        if item is not None:
            current = item[1]
            texts[current] = [item[2]]
        elif current:
            texts[current].append(line)
    return {name: " ".join(part for part in parts if part) for name, parts in texts.items()}


def _indented_block(lines: list[str]) -> list[str]:
    start = next((at for at, line in enumerate(lines) if _GOOGLE_HEADING.fullmatch(line.strip())), None)
    if start is None:
        return []
    outer = _indent(lines[start])
    block: list[str] = []
    for line in lines[start + 1 :]:
        if line.strip() and _indent(line) <= outer:
            break
        block.append(line)
    return block


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
