"""Which files of a folder are left out: the rules of ``.gitignore`` and ``.toolcribignore``. Pure."""

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

IGNORE_FILES = (".gitignore", ".toolcribignore")
RULES_MAX = 10_000
NEVER = frozenset({"node_modules", "__pycache__", "venv", "site-packages", "target", "dist", "build"})
"""Folders of what programs made or brought along; they are left out where they stand in a folder that is added."""
ANY = "**"
_ESCAPED = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of an ignore file: a pattern for each step of the way, ``**`` for any number of them."""

    steps: tuple[str, ...]
    keeps: bool
    only_folders: bool


def read_rules(text: str) -> tuple[Rule, ...]:
    """The rules of one file, in order; lines that are none are passed over."""
    return tuple(rule for line in text.splitlines()[:RULES_MAX] if (rule := _read_rule(line)) is not None)


def _read_rule(line: str) -> Rule | None:
    written = line.rstrip()
    if not written or written.startswith("#"):
        return None
    keeps = written.startswith("!")
    path = written.removeprefix("!")
    steps = [step for step in path.split("/") if step]
    if not steps:
        return None
    if "/" not in path.rstrip("/"):
        steps.insert(0, ANY)
    return Rule(tuple(steps), keeps, path.endswith("/"))


def is_ignored(path: str, is_folder: bool, rules: Sequence[tuple[str, Sequence[Rule]]]) -> bool:
    """Whether the last rule that fits a path leaves it out; each file's rules count from the folder it is in."""
    verdict = False
    for folder, here in rules:
        inside = tuple(path[len(folder) :].split("/"))
        for rule in here:
            if (is_folder or not rule.only_folders) and _fits(rule.steps, inside):
                verdict = not rule.keeps
    return verdict


def _fits(steps: tuple[str, ...], parts: tuple[str, ...]) -> bool:
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
