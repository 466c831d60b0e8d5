"""The tools a first run shows."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.core.errors import InvalidArguments
from toolcrib.sources.native.builtin import BUILTIN, calculate, clock_now, json_query, text_count
from toolcrib.sources.native.functions import native_tool


def test_every_one_is_described_and_only_reads():
    """Whoever tries toolcrib first sees tools as they should be."""
    for function in BUILTIN:
        tool = native_tool(function).tool
        assert tool.description
        assert tool.examples
        assert tool.is_replayable


@pytest.mark.parametrize(
    ("expression", "value"),
    [("1 + 2 * 3", 7), ("(2 + 3) * 7 / sqrt(4)", 17.5), ("-2 ** 2", -4), ("7 // 2 + 7 % 2", 4), ("round(pi, 2)", 3.14)],
)
def test_arithmetic_is_worked_out(expression, value):
    """The usual operators, precedence and a few functions."""
    assert calculate(expression) == {"value": value}


@pytest.mark.parametrize(
    "expression",
    ["__import__('os')", "'a' * 9", "9 ** 9 ** 9", "1 / 0", "x", "[1]", "1 if 1 else 2", "", "True", "10.0 ** 400"],
)
def test_anything_else_is_refused(expression):
    """Nothing is evaluated but arithmetic, and no number grows without end."""
    with pytest.raises(InvalidArguments):
        calculate(expression)


@given(st.text(alphabet="0123456789+-*/%(). episqrt,", max_size=40))
def test_no_text_breaks_the_calculator(expression):
    """It answers, or it says why not."""
    with contextlib.suppress(InvalidArguments):
        assert set(calculate(expression)) == {"value"}


def test_the_time_of_a_place():
    """By IANA name; an unknown one is said to be unknown."""
    assert clock_now("UTC")["time"].endswith("+00:00")
    with pytest.raises(InvalidArguments, match="no time zone"):
        clock_now("../../etc/passwd")


def test_counting_text():
    """Lines, words, characters, bytes."""
    assert text_count("one två\nthree") == {"lines": 2, "words": 3, "characters": 13, "bytes": 14}


@pytest.mark.parametrize(("path", "value"), [("a[0].b", 1), ("a[-1].b", 2), ("", {"a": [{"b": 1}, {"b": 2}]})])
def test_picking_from_json(path, value):
    """Keys, indexes, or the whole."""
    assert json_query('{"a": [{"b": 1}, {"b": 2}]}', path) == {"value": value}


def test_a_path_that_leads_nowhere_says_where_it_stopped():
    """And what is there instead."""
    with pytest.raises(InvalidArguments, match=r"no 'x' in a\. It has: b"):
        json_query('{"a": {"b": 1}}', "a.x")
