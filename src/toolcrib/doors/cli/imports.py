"""An import as a person sees it: what would change, with secrets masked, and the question before it happens."""

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from toolcrib.config.foreign.plan import Candidate
from toolcrib.doors.cli.console import Console
from toolcrib.doors.cli.table import one_line
from toolcrib.importing import Found, candidate_document, label_of, shown_server

SIGNS = {"new": "+", "changed": "~", "removed": "-", "same": "=", "edited": "!", "left out": "!"}
STYLES = {"new": "green", "changed": "yellow", "removed": "red", "same": "dim", "edited": "yellow", "left out": "dim"}
WORDS = {
    "new": "",
    "changed": "changed there",
    "removed": "removed there",
    "same": "already here",
    "edited": "yours stays",
    "left out": "left out",
}


def print_plan(found: Found, console: Console) -> None:
    """Each server with where it is from and what would happen to it."""
    for candidate in found.candidates:
        for text, styles in _lines(candidate):
            console.print(console.paint(one_line_indented(text), *styles))
    for problem in found.problems:
        console.say(problem, "yellow")


def _lines(candidate: Candidate) -> Iterator[tuple[str, tuple[str, ...]]]:
    style = STYLES[candidate.state]
    labels = ", ".join(dict.fromkeys(label_of(origin.client) for origin in candidate.origins))
    word = WORDS[candidate.state]
    told = f"{word}: {candidate.reason}" if candidate.reason and word else word
    heading = f"{SIGNS[candidate.state]} {candidate.name}  ({labels})"
    yield (f"{heading}  {told}" if told else heading), (style,)
    if candidate.state == "new" and candidate.server is not None:
        yield from ((f"    {line}", ()) for line in setting_lines(shown_server(candidate.server)))
    elif candidate.state == "changed":
        yield from _changes(candidate)
    if candidate.state in ("new", "changed"):
        yield from ((f"    note: {note}", ("dim",)) for note in candidate.notes)


def _changes(candidate: Candidate) -> Iterator[tuple[str, tuple[str, ...]]]:
    old = setting_lines(shown_server(candidate.before)) if candidate.before else []
    new = setting_lines(shown_server(candidate.server)) if candidate.server else []
    yield from ((f"    - {line}", ("red",)) for line in old if line not in new)
    yield from ((f"    + {line}", ("green",)) for line in new if line not in old)
    if old == new:
        yield "    something that is masked or not shown here changed", ("dim",)


def setting_lines(shown: dict[str, Any]) -> list[str]:
    """One line for each setting that is not a default."""
    return [line for key, value in shown.items() for line in _setting(key, value)]


def _setting(key: str, value: Any) -> list[str]:
    if isinstance(value, dict):
        return [f"{key}.{name} = {text}" for name, text in value.items()]
    if isinstance(value, list):
        return [f"{key} = {' '.join(map(str, value))}"]
    return [f"{key} = {str(value).lower() if isinstance(value, bool) else value}"]


def one_line_indented(text: str) -> str:
    """One line that keeps its indentation; what strangers wrote cannot break out of it."""
    indent = len(text) - len(text.lstrip(" "))
    return " " * indent + one_line(text)


def plan_document(found: Found, target: str, done: Sequence[Candidate]) -> dict[str, Any]:
    """The plan for a program."""
    return {
        "file": target,
        "servers": [candidate_document(candidate) for candidate in found.candidates],
        "done": [candidate.name for candidate in done],
        "problems": list(found.problems),
        "read": list(found.files),
    }


def is_person_here(console: Console) -> bool:
    """Whether somebody can be asked."""
    return console.is_live and sys.stdin.isatty()


def ask_line(console: Console, question: str) -> str:
    """One answer at the terminal, folded; a terminal that is closed says no."""
    console.err.write(f"{question} ")
    console.err.flush()
    line = sys.stdin.readline()
    return line.strip().casefold() if line else "no"


def choose(console: Console, question: str, names: Sequence[str]) -> list[str]:
    """All, none, or those a person picks one by one."""
    answer = ask_line(console, f"{question} [Y/n/choose]")
    if answer in ("", "y", "yes"):
        return list(names)
    if answer not in ("c", "choose"):
        return []
    return [name for name in names if ask_line(console, f"  {name}? [Y/n]") in ("", "y", "yes")]


def count(number: int, what: str = "server") -> str:
    """``1 server``, ``5 servers``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def listed(words: Sequence[str]) -> str:
    """``a, b and c``."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
