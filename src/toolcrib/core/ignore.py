"""Which files of a folder are left out: the rules of ``.gitignore`` and ``.toolcribignore``. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from toolcrib.core.globs import ANY, fits

IGNORE_FILES = (".gitignore", ".toolcribignore")
RULES_MAX = 10_000
NEVER = frozenset({"node_modules", "__pycache__", "venv", "site-packages", "target", "dist", "build"})
"""Folders of what programs made or brought along; they are left out where they stand in a folder that is added."""


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
            if (is_folder or not rule.only_folders) and fits(rule.steps, inside):
                verdict = not rule.keeps
    return verdict
