"""Where a schema that says less would accept less: one case for each trap, by hand."""

import time

import jsonschema_rs
import pytest
from tests.schema.dialects.rules import CHECKS

from toolcrib.core.offers import Tool
from toolcrib.schema.check import compile_check
from toolcrib.schema.dialects import DIALECTS

OLD = {"$schema": "http://json-schema.org/draft-07/schema#"}


def of(part, **more):
    return {"type": "object", "properties": {"v": part}, **more}


CASES = {
    "patterns of names beside no other fields": (
        of({"type": "object", "patternProperties": {"^a": {}}, "additionalProperties": False}),
        {"a": 1},
    ),
    "patterns of names in one part, no other fields in the next": (
        of(
            {
                "allOf": [
                    {"patternProperties": {"^b": {}}},
                    {"patternProperties": {"^a": {}}, "additionalProperties": False},
                ]
            }
        ),
        {"a": 1},
    ),
    "other fields of two kinds": (
        of({"allOf": [{"additionalProperties": {"type": "integer"}}, {"additionalProperties": {"minimum": 0}}]}),
        {"a": 1},
    ),
    "places of different number": (
        of({"allOf": [{"prefixItems": [{}]}, {"prefixItems": [{}, {}], "items": False}]}),
        [1, 2],
    ),
    "places and a rest": (of({"prefixItems": [{"type": "string"}], "items": {"type": "integer"}}), ["a", 1]),
    "places and no rest": (of({"prefixItems": [{"type": "string"}, {"type": "null"}], "items": False}), ["a", None]),
    "two unions": (of({"anyOf": [{"type": "string"}], "oneOf": [{"minLength": 1}, {"maxLength": 0}]}), "a"),
    "forms that would both fit if they said less": (
        of({"oneOf": [{"$ref": "#/$defs/a"}, {"type": "string"}]}, **{"$defs": {"a": {"not": {"type": "string"}}}}),
        "a",
    ),
    "a count for the items of one part": (
        of({"allOf": [{"contains": {"const": 1}}, {"contains": {"const": 2}, "minContains": 2}]}),
        [1, 2, 2],
    ),
    "a condition and another one's consequence": (
        of({"allOf": [{"if": {"const": 1}, "then": {}}, {"if": {"const": 2}, "else": {"const": 1}}]}),
        1,
    ),
    "fields only a condition knows": (
        of({"if": {"properties": {"a": {}}}, "unevaluatedProperties": False}),
        {"a": 1},
    ),
    "old: beside a reference nothing counts": (
        {**OLD, **of({"$ref": "#/definitions/a", "maxLength": 0}), "definitions": {"a": {"type": "string"}}},
        "long",
    ),
    "old: words of later drafts": ({**OLD, **of({"prefixItems": [{"type": "null"}]})}, [1]),
    "a choice of texts and null": (of({"enum": ["a", None]}), None),
    "a choice of everything": (of({"enum": ["a", 1, True, None, {"x": 1}]}), {"x": 1}),
    "integers in numbers": (of({"allOf": [{"type": ["number", "null"]}, {"type": ["integer", "string"]}]}), 1),
}


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("case", CASES)
def test_what_the_tool_takes_the_model_may_say(case, name):
    """However the rule is rewritten."""
    schema, value = CASES[case]
    [definition] = DIALECTS[name].offer([Tool("t", input_schema=schema)]).definitions
    view = CHECKS[name](definition)

    assert compile_check(schema).accepts({"v": value})
    assert jsonschema_rs.Draft202012Validator(view).is_valid({"v": value}), view


TOP = {
    "a field that only one form knows": (
        {"anyOf": [{"properties": {"v": {"type": "string"}}}, {"required": ["w"]}]},
        {"v": 1, "w": 1},
    ),
    "what only one form needs": ({"anyOf": [{"required": ["v"]}, {"required": ["w"]}]}, {"w": 1}),
    "rules for names that have to change": (
        {"properties": {"$v": {}}, "patternProperties": {"^_": {"type": "null"}}},
        {"$v": 1},
    ),
    "needs between names that have to change": (
        {"properties": {"$v": {}}, "dependentRequired": {"w": ["$v"]}},
        {"$v": 1, "w": 1},
    ),
}


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("case", TOP)
def test_what_the_tool_takes_at_the_top_the_model_may_say(case, name):
    """Where the providers are strictest."""
    schema, arguments = {"type": "object", **TOP[case][0]}, TOP[case][1]
    offer = DIALECTS[name].offer([Tool("t", input_schema=schema)])
    aliases = offer.parameters["t"].aliases if offer.parameters else {}
    said = {aliases.get(key, key): value for key, value in arguments.items()}

    assert compile_check(schema).accepts(arguments)
    assert jsonschema_rs.Draft202012Validator(CHECKS[name](offer.definitions[0])).is_valid(said)


LARGE = {
    "the same field in many parts": lambda n: {"allOf": [{"properties": {"a": {"minLength": at}}} for at in range(n)]},
    "the same items in many parts": lambda n: of({"allOf": [{"items": {"minLength": at}} for at in range(n)]}),
    "long choices in two parts": lambda n: of(
        {"allOf": [{"enum": [*range(6 * n)]}, {"enum": [str(at) for at in range(6 * n)]}]}
    ),
    "many forms of one field": lambda n: {"oneOf": [{"properties": {"a": {"const": at}}} for at in range(3 * n)]},
    "many names of parts": lambda n: {
        "properties": {f"p{at}": {"$ref": f"#a{at}"} for at in range(n)},
        "$defs": {f"d{at}": {"$anchor": f"a{at}", "type": "string"} for at in range(n)},
    },
}


@pytest.mark.parametrize("case", LARGE)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_schema_eight_times_as_large_takes_no_more_than_its_share(dialect, case):
    """On whatever machine: what grows with the square takes sixty-four times as long, what is linear eight times."""

    def seconds(size: int) -> float:
        tool = Tool("t", "", {"type": "object", **LARGE[case](size)})
        began = time.process_time()
        offer = DIALECTS[dialect].offer([tool])
        took_s = time.process_time() - began
        assert offer.left_out == {}
        return took_s

    tries = ((seconds(1600), seconds(200)) for _ in range(5))

    assert any(large < 24 * small for large, small in tries)
