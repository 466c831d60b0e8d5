"""JSON Schemas as a person reads them."""

import pytest

from toolcrib.cli.content import example_call, parameter_rows, type_name
from toolcrib.core.offers import Example, Tool


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "string"}, "string"),
        ({"enum": ["a", "b"]}, "a | b"),
        ({"enum": list(range(20))}, "0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | …"),
        ({"type": "array", "items": {"type": "string"}}, "array of string"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "integer | null"),
        ({"type": "integer", "minimum": 1, "maximum": 9}, "integer ≥1 ≤9"),
        ({}, "anything"),
        (True, "anything"),
    ],
)
def test_a_type_in_a_few_words(schema, words):
    """Unions, enumerations, lists and bounds; a schema that says nothing says so."""
    assert type_name(schema) == words


def test_what_must_be_given_comes_first():
    """Otherwise the order is the author's; references inside the document are followed."""
    schema = {
        "properties": {"b": {"type": "integer", "default": 2}, "a": {"$ref": "#/$defs/name", "description": "who"}},
        "required": ["a"],
        "$defs": {"name": {"type": "string"}},
    }

    assert parameter_rows(schema) == [("a", "string", "required", "who"), ("b", "integer", "default 2", "")]


def test_the_example_is_the_authors_own():
    """Quoted for the shell, text as text and all else as JSON."""
    tool = Tool("say", examples=(Example({"text": "it's", "times": 2}),))

    assert example_call("say", tool) == """toolcrib call say 'text=it'"'"'s' times:=2"""


def test_without_an_example_the_required_parameters_are_shown():
    """With a value of the right type."""
    tool = Tool("say", input_schema={"properties": {"n": {"type": "number"}, "x": {}}, "required": ["n"]})

    assert example_call("say", tool) == "toolcrib call say n:=1.5"
