"""Parameter names: snake_case reaches the server under its own camelCase, and nothing else moves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.schema.arguments import Renamer, resolved, to_camel


def rename_arguments(schema: dict, arguments: dict, mapping: dict) -> tuple[dict, dict]:
    """What a tool of that schema gets, as the calls make it: no renamer where none can be needed."""
    renamer = Renamer.for_schema(schema, mapping)
    return renamer.apply(arguments) if renamer else (arguments, {})


def schema_of(*names):
    return {"type": "object", "properties": {name: {} for name in names}}


def test_snake_case_becomes_the_servers_camel_case():
    """Only where the schema has the camel-case name."""
    arguments, renames = rename_arguments(schema_of("deviceName", "level"), {"device_name": "lamp", "level": 1}, {})

    assert arguments == {"deviceName": "lamp", "level": 1}
    assert renames == {"device_name": "deviceName"}


def test_static_mappings_come_first():
    """What was written down for a tool wins over what the name looks like."""
    mapping = {"device_name": "deviceName", "command": "action"}
    schema = schema_of("deviceName", "action", "deviceAlias")

    assert rename_arguments(schema, {"device_name": "lamp", "command": "on"}, mapping) == (
        {"deviceName": "lamp", "action": "on"},
        mapping,
    )
    assert rename_arguments(schema_of("deviceName"), {"device_name": 1}, {"device_name": "id"})[0] == {"id": 1}


UNTOUCHED = {
    "a name the schema has": (schema_of("device_name", "deviceName"), {"device_name": 1}),
    "a name the schema has no camel case for": (schema_of("other"), {"device_name": 1}),
    "a name without underscores": (schema_of("deviceName"), {"devicename": 1}),
    "a private name": (schema_of("deviceName"), {"_device_name": 1}),
    "a name with a gap": (schema_of("deviceName"), {"device__name": 1}),
    "a name whose place is taken": (schema_of("deviceName"), {"device_name": 1, "deviceName": 2}),
    "an ambiguous acronym": (schema_of("userID", "userId2", "useriD"), {"user_id": 1}),
    "no arguments": (schema_of("deviceName"), {}),
    "a schema without properties": ({"type": "object"}, {"device_name": 1}),
}


@pytest.mark.parametrize("case", UNTOUCHED)
def test_everything_else_comes_back_as_the_same_object(case):
    """Nothing is copied and nothing renamed."""
    schema, arguments = UNTOUCHED[case]

    renamed, renames = rename_arguments(schema, arguments, {})

    assert renamed is arguments
    assert renames == {}


def test_acronyms_are_found():
    """``page_url`` reaches ``pageURL``; an exact match is preferred."""
    assert rename_arguments(schema_of("pageURL"), {"page_url": 1}, {})[0] == {"pageURL": 1}
    assert rename_arguments(schema_of("pageURL", "pageUrl"), {"page_url": 1}, {})[0] == {"pageUrl": 1}


def test_a_schema_that_never_needs_a_rename_has_no_renamer():
    """The hot path has nothing to do for most tools."""
    assert Renamer.for_schema(schema_of("path", "file_name"), {}) is None
    assert Renamer.for_schema({}, {}) is None
    assert Renamer.for_schema(schema_of("path"), {"a": "b"}) is not None


def test_the_order_of_arguments_stays():
    """A renamed argument keeps its place."""
    arguments, _ = rename_arguments(schema_of("bC"), {"a": 1, "b_c": 2, "d": 3}, {})

    assert list(arguments.items()) == [("a", 1), ("bC", 2), ("d", 3)]


NAMES = st.sampled_from(["a", "b", "a_b", "b_a", "ab", "a_b_a", "a_ba", "ab_a", "a_2", "_a", "a__b"])


@given(
    st.lists(NAMES.map(to_camel) | NAMES),
    st.dictionaries(NAMES | NAMES.map(to_camel), st.integers()),
    st.dictionaries(NAMES, NAMES),
)
def test_no_value_is_ever_lost(declared, arguments, mapping):
    """Whatever the names, each value is still there, and the renames say where."""
    renamed, renames = rename_arguments(schema_of(*declared), arguments, mapping)

    assert renamed == {renames.get(name, name): value for name, value in arguments.items()}
    assert len(renamed) == len(arguments)
    assert (renamed is arguments) is (renames == {})


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"$ref": "#/$defs/a~1b", "description": "mine"}, {"type": "string", "description": "mine"}),
        ({"$ref": "#/$defs/twice"}, {"type": "string", "description": "theirs"}),
        ({"$ref": "#/$defs/nowhere"}, {"$ref": "#/$defs/nowhere"}),
        ({"$ref": "https://example.org/x"}, {"$ref": "https://example.org/x"}),
        ({"$ref": "#/$defs/itself"}, {"$ref": "#/$defs/itself"}),
        (True, True),
    ],
)
def test_a_reference_is_shown_as_what_it_points_to(part, expected):
    """Also through another reference; what leads nowhere, or round and round, stays as it is written."""
    text = {"type": "string", "description": "theirs"}
    root = {"$defs": {"a/b": text, "twice": {"$ref": "#/$defs/a~1b"}, "itself": {"$ref": "#/$defs/itself"}}}

    assert resolved(part, root) == expected
