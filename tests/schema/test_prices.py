"""What checking costs is known beforehand, and never more than was foreseen."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.schema.check import QUICK_STEPS, compile_check
from toolcrib.schema.cost import nesting, weigh
from toolcrib.schema.document import UnsafeSchema
from toolcrib.schema.prices import FREE, VISIT, Price, _states, own_price

HOSTILE = {
    "forty multiples": (
        {"items": {"oneOf": [{"multipleOf": n + 0.5} for n in range(40)]}},
        [n + 0.25 for n in range(20_000)],
    ),
    "thirty constants": ({"items": {"anyOf": [{"const": f"x{n}"} for n in range(30)]}}, ["x29"] * 20_000),
    "nested contains": ({"items": {"contains": {"contains": {"const": 1}}}}, [[[0] * 30] * 10] * 300),
    "unique fractions": ({"items": {"uniqueItems": True}}, [[n + 0.5 for n in range(14)]] * 1_000),
    "enum of fractions": ({"items": {"enum": [n + 0.5 for n in range(500)]}}, [499.5] * 1_000),
    "enum of objects": ({"items": {"enum": [{"a": n} for n in range(500)]}}, [{"a": 499}] * 1_000),
    "enum of both": ({"items": {"enum": [*range(500), {}]}}, [499] * 5_000),
    "states of a pattern": ({"items": {"pattern": "[01]*1[01]{400}$"}}, ["01" * 50] * 1_000),
    "many patterns": ({"patternProperties": {f"a{n}": True for n in range(50)}}, {f"k{n}": n for n in range(20_000)}),
    "dependencies": ({"items": {"dependentRequired": {f"d{n}": ["x"] for n in range(200)}}}, [{}] * 5_000),
    "unevaluated": (
        {"items": {"anyOf": [{"properties": {"a": True}}] * 30, "unevaluatedProperties": False}},
        [{"a": 1}] * 5_000,
    ),
    "regular expressions": ({"items": {"format": "regex"}}, ["a"] * 200),
}
ORDINARY = {
    "arguments": (
        {
            "type": "object",
            "properties": {
                "path": {"type": "string", "minLength": 1, "pattern": "^[^\\0]+$"},
                "mode": {"enum": ["r", "w", "a"]},
                "limit": {"type": "integer", "minimum": 1, "maximum": 1000},
                "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
                "when": {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]},
            },
            "required": ["path"],
            "additionalProperties": False,
        },
        {"path": "/tmp/x" * 20, "mode": "r", "limit": 5, "tags": ["a", "b", "c"] * 10, "when": None},
    ),
    "a page of rows": (
        {
            "type": "object",
            "properties": {
                "rows": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {"id": {"type": "integer"}, "name": {"type": ["string", "null"]}},
                        "required": ["id"],
                    },
                }
            },
        },
        {"rows": [{"id": n, "name": f"row {n}"} for n in range(1_000)]},
    ),
    "a tree": (
        {
            "$ref": "#/$defs/node",
            "$defs": {"node": {"properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}},
        },
        {"children": [{"children": [{"children": []}] * 5}] * 5},
    ),
    "a long text": (
        {"type": "object", "properties": {"text": {"type": "string"}}},
        {"text": "words, " * 40_000},
    ),
}


def is_quick(schema: Any, value: Any) -> bool:
    return compile_check(schema).is_quick(value, msgspec.json.encode(value))


@pytest.mark.parametrize("case", HOSTILE)
def test_what_is_costly_only_together_is_known_before_it_is_checked(case):
    """Neither the schema nor the value is remarkable; the schema by itself is checked."""
    schema, value = HOSTILE[case]

    assert not is_quick(schema, value)
    assert not compile_check(schema).gap
    assert is_quick(schema, value[:1] if isinstance(value, list) else {"k": 1})


@pytest.mark.parametrize("case", ORDINARY)
def test_what_is_ordinary_is_checked_at_once(case):
    """Nobody waits for a helper who need not."""
    assert is_quick(*ORDINARY[case])


def test_a_way_back_that_doubles_counts_by_depth():
    """Each level of the value doubles the work: a shallow one is quick, a deep one is not, though it is tiny."""
    back = {"type": "array", "items": {"$ref": "#"}}
    schema = {"anyOf": [back, {**back, "minItems": 1}, {"type": "string"}]}
    deep: Any = 1
    for _ in range(20):
        deep = [deep]

    assert is_quick(schema, [[["x"]]])
    assert not is_quick(schema, deep)


SCHEMAS = st.recursive(
    st.sampled_from([{}, {"type": "integer"}, {"type": "string"}, {"$ref": "#/$defs/back"}, {"minimum": 3}]),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"items": inner, "contains": inner}),
        st.fixed_dictionaries({"properties": st.dictionaries(st.sampled_from("ab"), inner, max_size=2)}),
        st.fixed_dictionaries({"additionalProperties": inner, "propertyNames": inner}),
        st.sampled_from(["allOf", "anyOf", "oneOf"]).flatmap(
            lambda keyword: st.fixed_dictionaries({keyword: st.lists(inner, min_size=1, max_size=3)})
        ),
        st.fixed_dictionaries({"not": inner, "if": inner, "then": inner}),
    ),
    max_leaves=6,
)
VALUES = st.recursive(
    st.integers(0, 9) | st.sampled_from(["", "a"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)


def visits(schema: Any, value: Any, root: Any) -> int:
    """How often a validator that never stops early looks at a piece of the value with a schema."""
    total = 1
    for keyword, part in schema.items():
        if keyword == "$ref":
            total += visits(root["$defs"]["back"], value, root)
        elif keyword in ("allOf", "anyOf", "oneOf"):
            total += sum(visits(each, value, root) for each in part)
        elif keyword in ("not", "if", "then"):
            total += visits(part, value, root)
        elif keyword in ("items", "contains") and isinstance(value, list):
            total += sum(visits(part, item, root) for item in value)
        elif keyword == "properties" and isinstance(value, dict):
            total += sum(visits(part[name], value[name], root) for name in part.keys() & value.keys())
        elif keyword == "additionalProperties" and isinstance(value, dict):
            total += sum(visits(part, item, root) for item in value.values())
        elif keyword == "propertyNames" and isinstance(value, dict):
            total += sum(visits(part, name, root) for name in value)
    return total


@given(schema=SCHEMAS, back=SCHEMAS, value=VALUES)
@settings(deadline=None)
def test_no_more_is_done_than_was_foreseen(schema, back, value):
    """Whatever schema meets whatever value, ways back to itself included."""
    root = {**schema, "$defs": {"back": back}}
    try:
        weight = weigh(root)
    except UnsafeSchema:
        return
    encoded = msgspec.json.encode(value)
    pieces = 1 + sum(map(encoded.count, (b",", b":", b"[", b"{")))

    foreseen = weight.work(pieces, len(encoded), nesting(value, 200) if weight.loops else 1)

    assert visits(schema, value, root) <= foreseen


@given(schema=SCHEMAS, value=VALUES)
@settings(deadline=None)
def test_what_is_quick_by_its_size_is_quick_by_its_pieces(schema, value):
    """The first look at a size never lets through what the closer look would not."""
    check = compile_check({**schema, "$defs": {"back": {}}})
    encoded = msgspec.json.encode(value)
    pieces = 1 + sum(map(encoded.count, (b",", b":", b"[", b"{")))

    if len(encoded) <= check.quick_bytes and not check.unchecked_reason:
        assert check.weight.work(pieces, len(encoded), 1) <= QUICK_STEPS


@pytest.mark.parametrize(
    ("node", "piece", "byte"),
    [
        ({}, 0, 0),
        ({"title": "x"}, 0, 0),
        ({"enum": ["a", "b"]}, 1, 0),
        ({"enum": 5}, 1, 0),
        ({"enum": ["a", 1, 1.5, None]}, 1 + 1 + 12 + 100 + 1, 0),
        ({"const": "a"}, 1, 0),
        ({"const": [1, {"a": 0.5}]}, 7 + 12 + 6 + 100, 0),
        ({"multipleOf": 2}, 40, 0),
        ({"multipleOf": 0.5}, 250, 0),
        ({"minimum": (1 << 63) - 1}, 2, 1),
        ({"maximum": 1 << 63}, 2, 4),
        ({"exclusiveMinimum": -(1 << 63)}, 2, 4),
        ({"exclusiveMaximum": 1.5}, 2, 1),
        ({"uniqueItems": False}, 0, 0),
        ({"uniqueItems": True}, 750, 1),
        ({"uniqueItems": True, "items": {"type": "string"}}, 15, 1),
        ({"uniqueItems": True, "items": {"type": "number"}}, 750, 1),
        ({"uniqueItems": True, "items": {"type": ["string"]}}, 750, 1),
        ({"uniqueItems": True, "items": True}, 750, 1),
        ({"format": "date"}, 10, 1),
        ({"format": "regex"}, 5000, 1),
        ({"pattern": "a"}, 3, 1),
        ({"pattern": "a" * 160}, 3, 2),
        ({"pattern": "a{1}"}, 3, 1),
        ({"pattern": "a{100}"}, 3, 1 + (6 + 800) // 20),
        ({"pattern": "a{2,50}"}, 3, 1 + (7 + 400) // 20),
        ({"pattern": "(a{1000}){1000}"}, 3, 1 + (15 + 8_000_000 // 8_000_000 * (1 << 20)) // 20),
        ({"patternProperties": {"a": {}, "b": {}}}, 6, 2),
        ({"patternProperties": 5}, 0, 0),
        ({"required": ["a"] * 8}, 3, 0),
        ({"required": 5}, 0, 0),
        ({"dependentRequired": {"a": ["b", "c"], "d": 5}}, 6, 0),
        ({"dependentSchemas": {"a": {"x": 1}}}, 4, 0),
        ({"dependencies": 5}, 0, 0),
        ({"minLength": 1}, 1, 1),
        ({"maxLength": 1, "contentEncoding": "x", "contentMediaType": "y"}, 3, 3),
    ],
)
def test_each_keyword_has_its_price(node, piece, byte):
    """On top of the look at the value itself."""
    assert own_price(node) == Price(1 + piece, byte)


def test_prices_add_up_and_the_higher_counts_of_two():
    assert Price(1, 2) + Price(3, 4) == Price(4, 6)
    assert Price(1, 2) * 3 == Price(3, 6)
    assert Price(1, 5) | Price(4, 2) == Price(4, 5)
    assert (Price(0, 0), Price(1, 0)) == (FREE, VISIT)


@pytest.mark.parametrize("limit", ["x", None, [], 1e300])
def test_a_limit_that_is_no_whole_number_costs_the_usual(limit):
    assert own_price({"minimum": limit}) == Price(3, 1)


@pytest.mark.parametrize(
    ("pattern", "states"),
    [
        ("a" * 16, 2),
        ("a{1}", 0),
        ("a{0}", 0),
        ("a{,1}", 0),
        ("a{3}", 4 + 24),
        ("a{3,}", 5 + 24),
        ("a{2,5}", 6 + 40),
        ("a{,5}", 5 + 40),
        ("(a{2}){3}", 9 + 48),
        ("a{9999999}", 10 + (1 << 20)),
    ],
)
def test_repetitions_multiply_what_a_matcher_has_to_follow(pattern, states):
    """Up to a bound; one that repeats nothing costs what its length costs."""
    assert _states(pattern) == states
