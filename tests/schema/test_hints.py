"""Completion hints for parameters."""

from toolcrib.schema.arguments import value_hints

SCHEMA = {
    "properties": {
        "unit": {"enum": ["km", "mi"], "default": "km"},
        "loud": {"type": "boolean"},
        "level": {"anyOf": [{"const": 1}, {"enum": [2, 3]}, {"type": "null"}]},
        "tags": {"type": "array", "items": {"enum": ["red", "blue"]}},
        "name": {"type": "string", "examples": ["Ada"]},
        "broken": "not a schema",
    }
}


def test_the_schema_names_values():
    """Enums, constants, booleans, defaults and examples are all worth suggesting, each once."""
    assert value_hints(SCHEMA, "unit") == ["km", "mi"]
    assert value_hints(SCHEMA, "loud") == ["true", "false"]
    assert value_hints(SCHEMA, "level") == ["1", "2", "3"]
    assert value_hints(SCHEMA, "tags") == ["red", "blue"]
    assert value_hints(SCHEMA, "name") == ["Ada"]


def test_the_authors_own_suggestions_come_first():
    """What was given with the tool is not repeated by the schema."""
    assert value_hints(SCHEMA, "unit", ["mi", "nm"]) == ["mi", "nm", "km"]


def test_a_parameter_nobody_knows_has_no_hints():
    """Neither has one whose definition is broken."""
    assert value_hints(SCHEMA, "absent") == value_hints(SCHEMA, "broken") == value_hints({}, "unit") == []
