"""Defaults: what the schema says is filled in, what the caller said is never touched."""

from hypothesis import given
from hypothesis import strategies as st

from toolcrib.schema.arguments import apply_defaults

SCHEMA = {
    "type": "object",
    "properties": {
        "limit": {"type": "integer", "default": 10},
        "tags": {"type": "array", "default": []},
        "after": {"default": None},
        "path": {"type": "string"},
        "options": {"$ref": "#/$defs/Options"},
    },
    "$defs": {
        "Options": {"type": "object", "properties": {"deep": {"default": True}, "more": {"$ref": "#/$defs/Options"}}}
    },
}


def test_missing_fields_get_their_defaults():
    """A default of null counts; a field without a default stays missing."""
    assert apply_defaults(SCHEMA, {}) == {"limit": 10, "tags": [], "after": None}


def test_nested_objects_are_filled_through_references():
    """An object that was given gets the defaults of its own fields, however deep."""
    given_arguments = {"limit": 1, "tags": [], "after": "x", "options": {"more": {"deep": False, "more": {}}}}

    filled = apply_defaults(SCHEMA, given_arguments)

    assert filled["options"] == {"deep": True, "more": {"deep": False, "more": {"deep": True}}}
    assert given_arguments["options"] == {"more": {"deep": False, "more": {}}}


def test_nothing_to_add_gives_the_same_object_back():
    """Complete arguments are not copied."""
    complete = {"limit": 1, "tags": [1], "after": None, "options": {"deep": False}}

    assert apply_defaults(SCHEMA, complete) is complete


def test_a_default_is_never_shared_between_calls():
    """Changing what one call got does not change what the next one gets."""
    apply_defaults(SCHEMA, {})["tags"].append("mine")

    assert apply_defaults(SCHEMA, {})["tags"] == []


def test_a_default_that_refers_back_to_itself_is_filled_once():
    """A default is taken as written, so a recursive definition cannot go on for ever."""
    schema = {
        "properties": {"a": {"$ref": "#/$defs/n"}},
        "$defs": {"n": {"default": {}, "properties": {"a": {"$ref": "#/$defs/n"}}}},
    }

    assert apply_defaults(schema, {}) == {"a": {}}


def test_odd_schemas_are_left_alone():
    """Properties that are no objects and references that lead nowhere add nothing."""
    arguments = {"a": {}}

    assert apply_defaults({"properties": {"a": {"$ref": "#/$defs/gone"}, "b": True}}, arguments) is arguments
    assert apply_defaults({"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": 1}, arguments) is arguments
    assert apply_defaults({"properties": []}, arguments) is arguments


@given(st.dictionaries(st.sampled_from(["limit", "tags", "after", "path", "other"]), st.integers()))
def test_what_was_given_stays_and_a_second_time_adds_nothing(arguments):
    """Filling in never changes a value, and is done after once."""
    filled = apply_defaults(SCHEMA, arguments)

    assert arguments.items() <= filled.items()
    assert apply_defaults(SCHEMA, filled) is filled
