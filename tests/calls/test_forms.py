"""Forms of servers: what a person is asked for, and what of their answers fits."""

from typing import Any

import pytest

from toolcrib.calls.forms import FieldKind, QuestionForm, fill_in, read_form

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Your name", "minLength": 2, "maxLength": 5},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "share": {"type": "number"},
        "sure": {"type": "boolean", "default": False},
        "size": {"type": "string", "enum": ["s", "m"], "enumNames": ["Small", "Medium"]},
        "pet": {"type": "string", "oneOf": [{"const": "cat", "title": "A cat"}, {"const": "dog"}]},
        "days": {"type": "array", "items": {"type": "string", "enum": ["mon", "tue"]}, "maxItems": 1},
    },
    "required": ["name", "sure"],
}


def form(**properties: Any) -> QuestionForm:
    return read_form({"message": "?", "requestedSchema": {"properties": properties, "required": [*properties]}})


def test_a_form_is_read_field_by_field():
    """In all ways that the revisions have to name choices."""
    found = read_form({"message": "Who\u202eare you?", "requestedSchema": SCHEMA})

    assert "\u202e" not in found.message
    assert {field.name: field.kind for field in found.fields} == {
        "name": FieldKind.TEXT,
        "age": FieldKind.INTEGER,
        "share": FieldKind.NUMBER,
        "sure": FieldKind.BOOLEAN,
        "size": FieldKind.CHOICE,
        "pet": FieldKind.CHOICE,
        "days": FieldKind.CHOICES,
    }
    assert [field.choices for field in found.fields[4:]] == [
        (("s", "Small"), ("m", "Medium")),
        (("cat", "A cat"), ("dog", "dog")),
        (("mon", "mon"), ("tue", "tue")),
    ]
    assert [field.name for field in found.fields if field.is_required] == ["name", "sure"]


@pytest.mark.parametrize(
    "given",
    [
        {"name": "Ada", "sure": True, "age": 36, "share": 0.5, "size": "s", "pet": "dog", "days": ["tue"]},
        {"name": "Ada", "sure": "yes", "age": "36", "share": "0.5", "size": "s", "pet": "dog", "days": "tue"},
    ],
)
def test_values_and_what_was_typed_come_to_the_same(given):
    """A page and a terminal know texts only."""
    content, problems = fill_in(read_form({"message": "?", "requestedSchema": SCHEMA}), given)

    assert problems == []
    assert content == {
        "name": "Ada",
        "sure": True,
        "age": 36,
        "share": 0.5,
        "size": "s",
        "pet": "dog",
        "days": ["tue"],
    }


@pytest.mark.parametrize(
    ("told", "value", "problem"),
    [
        ({"type": "string", "minLength": 2}, "a", "x: at least 2 characters is wanted."),
        ({"type": "string", "maxLength": 1}, "ab", "x: at most 1 characters is wanted."),
        ({"type": "string"}, 5, "x: a text of at most 100,000 characters is wanted."),
        ({"type": "string"}, "", "x is needed."),
        ({"type": "integer"}, "1.5", "x: a whole number is wanted."),
        ({"type": "integer"}, "many", "x: a whole number is wanted."),
        ({"type": "number"}, "nan", "x: a number is wanted."),
        ({"type": "number"}, True, "x: a number is wanted."),
        ({"type": "number", "minimum": 1, "maximum": 2}, 3, "x: a number at least 1 and at most 2 is wanted."),
        ({"type": "boolean"}, "perhaps", "x: yes or no is wanted."),
        ({"type": "boolean"}, 1, "x: yes or no is wanted."),
        ({"enum": ["a", "b"]}, "c", "x: one of a, b is wanted."),
        ({"type": "array", "items": {"enum": ["a"]}, "minItems": 2}, ["a"], "x: at least 2 choices is wanted."),
        ({"type": "array", "items": {"enum": ["a"]}}, [["a"]], "x: a text of at most 100,000 characters is wanted."),
    ],
)
def test_what_does_not_fit_is_said_in_words(told, value, problem):
    """So that the person can put it right."""
    assert fill_in(form(x=told), {"x": value}) == ({}, [problem])


def test_what_was_not_asked_for_is_not_passed_on():
    """And said."""
    assert fill_in(form(), {"secret": "x"}) == ({}, ["There is no field 'secret'."])


def test_a_field_that_is_not_needed_may_be_left_empty():
    """It is left out."""
    found = read_form({"message": "?", "requestedSchema": {"properties": {"x": {"type": "number"}}}})

    assert fill_in(found, {"x": ""}) == fill_in(found, {}) == ({}, [])


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({"mode": "url", "url": "javascript:alert(1)"}, "address"),
        ({"mode": "url"}, "address"),
        ({"requestedSchema": {"properties": {"x": 5}}}, "not described"),
        ({"requestedSchema": {"properties": {f"f{n}": {} for n in range(51)}}}, "more than 50"),
    ],
)
def test_a_form_that_nobody_could_fill_in_is_refused(params, why):
    """An address is one of the web."""
    with pytest.raises(ValueError, match=why):
        read_form(params)


@pytest.mark.parametrize("params", [{}, {"requestedSchema": None}, {"requestedSchema": {"properties": []}}])
def test_a_form_without_fields_is_one_to_agree_to(params):
    """There may be nothing but words."""
    assert read_form({"message": "Really?", **params}) == QuestionForm("Really?")
