"""Rows in text: JSON lines, CSV and TSV become rows; what merely has commas stays a text."""

import msgspec
import pytest

from toolcrib.calls.results.shape import as_table


def rows(text: str) -> list[object] | None:
    table = as_table(text)
    return None if table is None else msgspec.json.decode(table.rows)


def test_json_lines_are_rows():
    """Each as it stands; empty lines do not count."""
    table = as_table('{"id": 1}\n\n{"id": 2, "more": [3]}\n')

    assert table is not None
    assert (table.kind, msgspec.json.decode(table.rows)) == ("JSON lines", [{"id": 1}, {"id": 2, "more": [3]}])


@pytest.mark.parametrize("separator", [",", "\t", ";"])
def test_values_under_a_line_of_names_are_rows(separator):
    """Values stay the texts they are."""
    text = "id,name\n1,Ada\n2,Bo\n".replace(",", separator)

    assert rows(text) == [{"id": "1", "name": "Ada"}, {"id": "2", "name": "Bo"}]


def test_quotes_hold_separators_and_lines():
    """As spreadsheets write them, line ends too."""
    text = 'id,note\r\n1,"a, b"\r\n2,"two\r\nlines"\r\n'

    assert rows(text) == [{"id": "1", "note": "a, b"}, {"id": "2", "note": "two\r\nlines"}]


@pytest.mark.parametrize(
    "text",
    [
        "one line, only",
        "Dear Ada,\nthank you for the book, the flowers, and the rest.\nYours, Bo\n",
        "2026-01-01 00:00:00,123 INFO begun\n2026-01-01 00:00:01,456 INFO done\n",
        "id,name\n1,Ada\n2\n",
        "id,id\n1,2\n3,4\n",
        "id,name\n",
        'id,name\n1,"open\n',
        '{"id": 1}\n{"id": 2\n',
        "{\n  \n}\n",
        "[1]\n",
        "",
    ],
    ids=["line", "letter", "log", "short", "twice", "empty", "quote", "broken", "pretty", "one", "nothing"],
)
def test_anything_else_is_no_table(text):
    """A guess would be worse than lines."""
    assert rows(text) is None
