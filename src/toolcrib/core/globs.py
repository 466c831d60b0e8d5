"""Patterns for paths, as people write them for finding files: ``*.py``, ``src/**/test_*``, ``*.{js,ts}``. Pure.

A pattern is matched step by step, so that no pattern takes long to fail, whatever its stars.
"""

import fnmatch
import re
from dataclasses import dataclass
from functools import lru_cache

ANY = "**"
"""Stands for any number of directories."""
ALTERNATIVES_MAX = 64
_ESCAPED = re.compile(r"\\(.)")
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")

Steps = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Glob:
    """A pattern for whole paths, each alternative a pattern for each step."""

    alternatives: tuple[Steps, ...]

    def matches(self, path: str) -> bool:
        """Whether the path is one that is meant."""
        parts = tuple(path.split("/"))
        return any(fits(steps, parts) for steps in self.alternatives)


@lru_cache(256)
def read_glob(pattern: str) -> Glob:
    """The pattern; one without a slash is for the name alone, in any directory."""
    return Glob(tuple(_steps(alternative) for alternative in _spread(pattern.removeprefix("./"))))


def _steps(pattern: str) -> Steps:
    steps = tuple(step for step in pattern.split("/") if step)
    return steps if "/" in pattern else (ANY, *steps)


def _spread(pattern: str) -> list[str]:
    """The patterns that one with ``{a,b}`` stands for; no more than so many."""
    spread = [pattern]
    while len(spread) < ALTERNATIVES_MAX and any(map(_BRACES.search, spread)):
        spread = [each for pattern in spread for each in _spread_once(pattern)][:ALTERNATIVES_MAX]
    return spread


def _spread_once(pattern: str) -> list[str]:
    found = _BRACES.search(pattern)
    if found is None:
        return [pattern]
    return [f"{pattern[: found.start()]}{each}{pattern[found.end() :]}" for each in found[1].split(",")]


def fits(steps: Steps, parts: tuple[str, ...]) -> bool:
    """One pass over the pattern, keeping every place of the path that could have been reached so far."""
    reached = {0}
    for number, step in enumerate(steps):
        if step == ANY:
            least = min(reached) + (number == len(steps) - 1)
            reached = set(range(least, len(parts) + 1))
        else:
            matches = _pattern(step).match
            reached = {at + 1 for at in reached if at < len(parts) and matches(parts[at])}
        if not reached:
            return False
    return len(parts) in reached


@lru_cache(4096)
def _pattern(step: str) -> re.Pattern[str]:
    """The standard library's translation never takes long to fail, whatever the stars."""
    literal = _ESCAPED.sub(lambda match: f"[{match[1]}]" if match[1] in "*?[" else match[1], step)
    return re.compile(fnmatch.translate(literal))
