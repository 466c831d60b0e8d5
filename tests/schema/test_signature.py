"""Signatures: one line that says all a model needs for a call."""

import pytest

from toolcrib.schema.signature import about, signature

ISSUE = {
    "type": "object",
    "properties": {
        "labels": {"type": "array", "items": {"type": "string"}},
        "owner": {"type": "string", "description": "whose"},
        "state": {"enum": ["open", "closed"], "default": "open"},
        "repo": {"type": "string"},
    },
    "required": ["owner", "repo"],
}


def test_what_is_needed_comes_first_and_the_rest_has_a_question_mark():
    """With types a model knows, and the first sentence of the description."""
    line = signature("github__create_issue", ISSUE, "Create an issue. Needs a token.\n\nMore.")

    assert line == (
        'github__create_issue(owner: str, repo: str, labels?: [str], state?: "open"|"closed") - Create an issue'
    )


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({"type": "integer"}, "int"),
        ({"type": ["string", "null"]}, "str"),
        ({"type": "null"}, "null"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]}, "str|int"),
        ({"const": 5}, "5"),
        ({"enum": list(range(20))}, "0|1|2|3|4|5|6|7|..."),
        ({"type": "array"}, "[any]"),
        ({"items": {"type": "number"}}, "[float]"),
        ({"type": "object"}, "{}"),
        ({"type": "object", "additionalProperties": {"type": "boolean"}}, "{*: bool}"),
        ({"properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]}, "{a: str, b?: any}"),
        ({"allOf": [{"type": "string"}, {"minLength": 1}]}, "str"),
        ({"$ref": "#/$defs/point"}, "{x: float}"),
        ({"$ref": "#/$defs/nowhere"}, "any"),
        ({"$ref": "https://example.com/x.json"}, "any"),
        (True, "any"),
        ({"type": 7}, "any"),
        ({"enum": "no list"}, "any"),
    ],
)
def test_types_are_written_as_short_as_they_can_be(schema, written):
    """Whatever a server wrote, there is a line."""
    point = {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}
    root = {"properties": {"v": schema}, "required": ["v"], "$defs": {"point": point}}

    assert signature("t", root) == f"t(v: {written})"


def test_a_schema_that_refers_to_itself_ends():
    """Each reference and each level costs depth."""
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}
    root = {"properties": {"list": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}}

    assert len(signature("t", root)) < 80


def test_a_tool_that_takes_nothing_has_empty_brackets():
    """Also where the server wrote nothing sensible."""
    assert [signature("t", schema) for schema in ({}, {"properties": [1]}, {"type": "object"})] == ["t()"] * 3


def test_a_long_description_is_cut_at_a_word_and_unseen_characters_go():
    """One line, whatever there was."""
    text = about("Say\u200b  hello\nto " + "somebody " * 40)

    assert text.startswith("Say hello to somebody")
    assert text.endswith("somebody ...")
    assert len(text) < 110
