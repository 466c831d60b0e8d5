"""Tables for people."""

import io

import pytest

from toolcrib.cli.console import Column, Console, breadth, cut, print_table

COLUMNS = (Column("NAME"), Column("N", right=True), Column("WORDS", flexible=True))


def printed(rows):
    out = io.StringIO()
    print_table(Console(out, io.StringIO()), COLUMNS, rows)
    return out.getvalue().splitlines()


def test_columns_are_as_wide_as_they_need():
    """Numbers to the right, text to the left, nothing trailing."""
    assert printed([("a", "1", "x y"), ("long", "20", "")]) == ["NAME   N  WORDS", "a      1  x y", "long  20"]


def test_a_cell_is_one_line_without_controls():
    """What a stranger wrote cannot break the table."""
    assert printed([("a\nb", "1", "\x1b[31mred\x1b[0m\x00")])[1] == "a b   1  red\\u{0}"


@pytest.mark.parametrize(
    ("text", "width", "shown"), [("short", 10, "short"), ("too long", 5, "too…"), ("日本語", 5, "日本…")]
)
def test_text_is_cut_by_columns_not_characters(text, width, shown):
    """Wide characters count twice."""
    assert cut(text, width) == shown
    assert breadth(cut(text, width)) <= width
