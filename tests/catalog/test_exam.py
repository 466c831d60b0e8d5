"""The exam: questions are read strictly, answers graded by need, and starters made of the tools' own words."""

import pytest

from toolcrib.catalog.catalog import Route
from toolcrib.catalog.exam import ExamQuestion, Graded, parse_questions, report, starter_questions, to_line
from toolcrib.core.errors import CallerError
from toolcrib.core.offers import Example, Tool
from toolcrib.sources.native.source import NativeSource

KNOWN = ["git__log", "git__push", "files__read"]


def test_questions_are_lines_with_needs():
    """A list inside the list means that any of its tools will do; empty lines and notes are skipped."""
    text = '# mine\n\n{"query": "history", "tools": ["git__log", ["git__push", "files__read"]]}\n'

    assert parse_questions(text, KNOWN) == [ExamQuestion("history", (("git__log",), ("git__push", "files__read")), 3)]


def test_everything_wrong_is_told_at_once_with_its_line():
    """Names nobody knows with the nearest known one, lines that are no questions with what they lack."""
    text = '{"query": "a", "tools": ["git__lgo"]}\nnonsense\n{"query": "", "tools": []}\n{"quary": "a", "tools": ["x"]}'

    with pytest.raises(CallerError) as refused:
        parse_questions(text, KNOWN)

    told = str(refused.value)
    assert "line 1: no tool named 'git__lgo'. Did you mean 'git__log'?" in told
    assert all(f"line {number}: " in told for number in (2, 3, 4))


def test_a_file_without_questions_is_no_exam():
    """It says how to get some."""
    with pytest.raises(CallerError, match="--generate"):
        parse_questions("# nothing yet\n", KNOWN)


def test_recall_is_the_share_of_needs_that_are_met():
    """One need at the top, one in third place, one nowhere."""
    question = ExamQuestion("q", (("a",), ("b", "c"), ("z",)), 1)
    graded = Graded(question, ("a", "x", "c", "d"))

    assert [graded.recall(depth) for depth in (1, 2, 3, 10)] == pytest.approx([1 / 3, 1 / 3, 2 / 3, 2 / 3])


def test_the_report_names_the_misses_and_who_won():
    """What is among the first five is no miss."""
    fine = Graded(ExamQuestion("fine", (("a",),), 1), ("x", "a"))
    bad = Graded(ExamQuestion("bad", (("b",),), 2), tuple("uvwxyb"))

    assert report([fine, bad]) == {
        "questions": 2,
        "recall1": 0.0,
        "recall5": 0.5,
        "recall10": 1.0,
        "misses": [{"line": 2, "query": "bad", "expected": [["b"]], "ranks": [6], "won": list("uvwxy")}],
    }


def test_starters_come_from_descriptions_and_examples_and_can_be_read_back():
    """Two tools that say the same become one question that either answers."""
    source = NativeSource()
    shown = (Example({}, "What happened yesterday?"),)
    routes = [
        Route("git__log", "git", Tool("log", description="Show the history. And more.", examples=shown), source),
        Route("hg__log", "hg", Tool("log", description="Show the history."), source),
        Route("mute", "", Tool("mute"), source),
        Route("result_read", "", Tool("result_read", description="Read on."), source),
    ]

    lines = "\n".join(map(to_line, starter_questions(routes)))

    assert [(each.text, each.needs) for each in parse_questions(lines, ["git__log", "hg__log"])] == [
        ("Show the history", (("git__log", "hg__log"),)),
        ("What happened yesterday?", (("git__log",),)),
    ]
