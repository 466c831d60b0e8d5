"""An exam for the search: questions with the tools that should be found, graded by how far up those come."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from toolcrib.catalog.catalog import Route
from toolcrib.core.errors import CallerError, did_you_mean
from toolcrib.core.names import is_own

DEPTHS = (1, 5, 10)
DEEPEST = DEPTHS[-1]
MOST_PROBLEMS = 10
QUESTION_MAX = 200  # characters of a question made from a description

Need = tuple[str, ...]
"""Tools of which one is enough."""


@dataclass(frozen=True, slots=True)
class ExamQuestion:
    """What somebody asks for, and what should be found for each need in it."""

    text: str
    needs: tuple[Need, ...]
    line: int = 0


@dataclass(frozen=True, slots=True)
class Graded:
    """A question and what was found, best first."""

    question: ExamQuestion
    found: tuple[str, ...]

    def recall(self, depth: int) -> float:
        """The share of the needs that the first ``depth`` answers satisfy."""
        first = set(self.found[:depth])
        return sum(not first.isdisjoint(need) for need in self.question.needs) / len(self.question.needs)


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    query: str
    tools: list[str | list[str]]


def parse_questions(text: str, known: Collection[str]) -> list[ExamQuestion]:
    """JSON lines with ``query`` and ``tools``; everything that is wrong with them is told at once."""
    questions, problems = [], []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            question = _question(line, number)
        except msgspec.DecodeError as error:
            problems.append(f"line {number}: {error}")
            continue
        questions.append(question)
        problems += [f"line {number}: {problem}" for problem in _unknown(question, known)]
    _refuse(questions, problems)
    return questions


def _question(line: str, number: int) -> ExamQuestion:
    read = msgspec.json.decode(line, type=_Line)
    needs = tuple((need,) if isinstance(need, str) else tuple(need) for need in read.tools)
    if not read.query.strip() or not needs or not all(needs):
        raise msgspec.ValidationError("`query` and `tools` must say something")
    return ExamQuestion(read.query, needs, number)


def _unknown(question: ExamQuestion, known: Collection[str]) -> Iterator[str]:
    for name in dict.fromkeys(name for need in question.needs for name in need):
        if name not in known:
            yield f"no tool named {name!r}. {did_you_mean(name, list(known))}".rstrip()


def _refuse(questions: Sequence[ExamQuestion], problems: Sequence[str]) -> None:
    if problems:
        more = [f"and {len(problems) - MOST_PROBLEMS} more"] if len(problems) > MOST_PROBLEMS else []
        told = "\n  ".join([*problems[:MOST_PROBLEMS], *more])
        hint = 'A line reads {"query": "…", "tools": ["server__tool"]}. Run `toolcrib ls` to see the names.'
        raise CallerError(f"The exam cannot be held:\n  {told}", hint=hint)
    if not questions:
        raise CallerError("There is no question in the file.", hint="Write some with `toolcrib exam --generate FILE`.")


def mean_recall(graded: Sequence[Graded], depth: int) -> float:
    """Over all questions."""
    return sum(each.recall(depth) for each in graded) / len(graded)


def report(graded: Sequence[Graded]) -> dict[str, Any]:
    """How it went as plain data: the marks, and every question that was not answered within the first five."""
    missed = [each for each in graded if each.recall(DEPTHS[1]) < 1]
    return {
        "questions": len(graded),
        **{f"recall{depth}": round(mean_recall(graded, depth), 4) for depth in DEPTHS},
        "misses": [_miss(each) for each in missed],
    }


def _miss(graded: Graded) -> dict[str, Any]:
    question, found = graded.question, list(graded.found)
    return {
        "line": question.line,
        "query": question.text,
        "expected": [list(need) for need in question.needs],
        "ranks": [
            min((found.index(name) + 1 for name in need if name in found), default=None) for need in question.needs
        ],
        "won": found[: DEPTHS[1]],
    }


def _rank(found: Sequence[str], need: Need) -> int | None:
    return min((found.index(name) + 1 for name in need if name in found), default=None)


def starter_questions(routes: Iterable[Route]) -> list[ExamQuestion]:
    """What the tools say of themselves, as questions to be put into the words people use; equal ones become one."""
    asked: dict[str, list[str]] = {}
    for route in routes:
        if not is_own(route.name):
            for text in _said(route):
                asked.setdefault(text, []).append(route.name)
    return [ExamQuestion(text, (tuple(names),)) for text, names in asked.items()]


def _said(route: Route) -> Iterator[str]:
    """The first sentence of the description, and each example's own words."""
    texts = [route.tool.description, *(example.description for example in route.tool.examples)]
    for text in dict.fromkeys(texts):
        if sentence := _first_sentence(text):
            yield sentence


def _first_sentence(text: str) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line.partition(". ")[0].rstrip(".")[:QUESTION_MAX]


def to_line(question: ExamQuestion) -> str:
    """A question as it is written in a file."""
    tools = [need[0] if len(need) == 1 else list(need) for need in question.needs]
    return msgspec.json.format(msgspec.json.encode({"query": question.text, "tools": tools}), indent=0).decode()
