"""The cost guard: hostile schemas are refused before anything follows them, ordinary ones pass."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.schema.cost import MAX_BYTES, MAX_COST, MAX_DEPTH, MAX_PARTS, Weight, refusal, refuse_oversize, weigh
from toolcrib.schema.document import UnsafeSchema, is_linear
from toolcrib.schema.prices import Price


def doubling(keyword, levels):
    """Each definition asks for the next one twice: 2^levels steps from a few hundred bytes."""
    steps = {
        f"n{level}": {keyword: [{"$ref": f"#/$defs/n{level + 1}"}, {"$ref": f"#/$defs/n{level + 1}"}]}
        for level in range(levels)
    }
    return {"$ref": "#/$defs/n0", "$defs": {**steps, f"n{levels}": {"type": "string"}}}


def nested(levels):
    schema = {"type": "string"}
    for _ in range(levels):
        schema = {"not": schema}
    return schema


def unevaluated(levels):
    schema = {"properties": {"a": True}}
    for _ in range(levels):
        schema = {"allOf": [schema], "unevaluatedProperties": False}
    return schema


HOSTILE = {
    "anyOf doubling": (doubling("anyOf", 25), "steps"),
    "allOf doubling": (doubling("allOf", 60), "steps"),
    "oneOf doubling": (doubling("oneOf", 25), "steps"),
    "unevaluated doubling": (unevaluated(20), "steps"),
    "2 900 alternatives": ({"anyOf": [{}] * 2_900}, "steps"),
    "pattern properties doubling": (
        {
            "$ref": "#/$defs/n0",
            "$defs": {
                f"n{n}": {"patternProperties": {p: {"$ref": f"#/$defs/n{n + 1}"} for p in ("a", "a+")}}
                for n in range(30)
            }
            | {"n30": {}},
        },
        "steps",
    ),
    "100 000 properties": ({"properties": {f"p{n}": True for n in range(100_000)}}, "bytes"),
    "5 000 properties": ({"properties": {f"p{n}": True for n in range(5_000)}}, "properties"),
    "big": ({"description": "x" * MAX_BYTES}, "bytes"),
    "deep": (nested(MAX_DEPTH), "levels"),
    "very deep": (nested(900), "levels"),
    "deep in a default": ({"default": nested(MAX_DEPTH)}, "levels"),
    "refers to itself": ({"$ref": "#"}, "circle"),
    "refers in a circle": (
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        "circle",
    ),
    "circle beside a way out": (
        {
            "properties": {"x": {"$ref": "#/$defs/b"}},
            "allOf": [{"$ref": "#/$defs/c"}],
            "$defs": {"b": {"$ref": "#"}, "c": {"$ref": "#/$defs/b"}},
        },
        "circle",
    ),
    "dynamic circle": ({"$dynamicAnchor": "a", "anyOf": [{"$dynamicRef": "#a"}]}, "circle"),
    "recursive circle": (
        {"$schema": "https://json-schema.org/draft/2019-09/schema", "anyOf": [{"$recursiveRef": "#"}]},
        "circle",
    ),
    "circle in a definition nobody uses": ({"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}}, "circle"),
    "remote reference": ({"properties": {"a": {"$ref": "http://example.com/a.json"}}}, "out of the schema"),
    "file reference": ({"items": {"$ref": "file:///etc/passwd"}}, "out of the schema"),
    "relative reference": ({"$ref": "other.json#/a"}, "out of the schema"),
    "dangling reference": ({"$ref": "#/$defs/gone"}, "nowhere"),
    "dangling anchor": ({"$ref": "#gone"}, "nowhere"),
    "reference that is no text": ({"$ref": 1}, "not text"),
    "remote dialect": ({"$schema": "http://example.com/schema"}, "dialect"),
    "mixed dialects": (
        {"properties": {"a": {"$schema": "http://json-schema.org/draft-04/schema#", "type": "string"}}},
        "dialects",
    ),
    "the metaschema redirected": (
        {"$dynamicAnchor": "meta", "items": {"$ref": "https://json-schema.org/draft/2020-12/schema"}},
        "redirects",
    ),
    "the metaschema redirected, as it was": (
        {
            "$schema": "https://json-schema.org/draft/2019-09/schema",
            "$recursiveAnchor": True,
            "items": {"$ref": "https://json-schema.org/draft/2019-09/schema"},
        },
        "redirects",
    ),
    "into the metaschema": ({"$ref": "https://json-schema.org/draft/2020-12/schema#/$defs/x"}, "out of the schema"),
    "one anchor many times": (
        {"$defs": {f"d{n}": {"$dynamicAnchor": "a", "items": {"$dynamicRef": "#a"}} for n in range(1_400)}},
        "anchor",
    ),
    "one place by many addresses": (
        {"$id": "http://e/a", "prefixItems": [{"$ref": f"x{n}/../a"} for n in range(60)]},
        "addresses",
    ),
    "identifiers upon identifiers": ({"$defs": {f"d{n}": {"$id": f"d{n}/"} for n in range(9)}}, "identifiers"),
    "many parts": ({"prefixItems": [{} for _ in range(30_000)]}, "parts"),
    "much required": ({"required": [f"r{n}" for n in range(5_000)]}, "requires"),
    "long patterns": ({"pattern": "a" * 10_000}, "patterns"),
    "many patterns": ({"anyOf": [{"pattern": f"a{n}"} for n in range(51)]}, "patterns"),
    "many identifiers": ({"$defs": {f"d{n}": {"$id": f"http://e/{n}"} for n in range(12)}}, "identifiers"),
    "identifiers out of place": (
        {"$ref": "#/x", "x": {"$id": "http://e/", "$ref": "#/y", "y": doubling("anyOf", 25)}, "y": {}},
        "identifiers in a place",
    ),
    "expensive under another identifier": (
        {
            "$defs": {
                "a": {"$id": "http://e/", "$ref": "#/$defs/n0", "$defs": doubling("anyOf", 25)["$defs"]},
                "n0": {},
            },
            "$ref": "#/$defs/a",
        },
        "steps",
    ),
    "long chain": (
        {"$ref": "#/$defs/n0", "$defs": {f"n{n}": {"$ref": f"#/$defs/n{n + 1}"} for n in range(1_900)} | {"n1900": {}}},
        "chain",
    ),
    "endless address": ({"$id": "http://e/a", "items": {"$ref": "./" * 200 + "a"}}, "address"),
    "not JSON": ({"default": object()}, "not JSON"),
    "half a character": ({"description": "\ud800"}, "not JSON"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_schema_is_refused_with_the_reason(case):
    """Each way to hang, mislead or lead out a validator is named."""
    schema, reason = HOSTILE[case]

    assert reason in (refusal(schema) or "accepted")


ORDINARY = {
    "nothing": {},
    "plain": {"type": "object", "properties": {"a": {"type": "string"}}},
    "tree": {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}},
    "list": {
        "$ref": "#/$defs/n",
        "$defs": {"n": {"properties": {"next": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}}}},
    },
    "anchor": {"items": {"$ref": "#item"}, "$defs": {"i": {"$anchor": "item", "type": "string"}}},
    "own identifier": {"$id": "http://e/root.json", "items": {"$ref": "root.json#/$defs/a"}, "$defs": {"a": {}}},
    "embedded identifier": {
        "$id": "http://e/root.json",
        "items": {"$ref": "item.json"},
        "$defs": {"i": {"$id": "item.json", "type": "string"}},
    },
    "draft 7": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"a": {}},
        "$ref": "#/definitions/a",
    },
    "escaped pointer": {"$ref": "#/$defs/a~1b%25", "$defs": {"a/b%": {"type": "string"}}},
    "the metaschema": {"properties": {"schema": {"$ref": "https://json-schema.org/draft/2020-12/schema"}}},
    "an older metaschema": {"items": {"$ref": "http://json-schema.org/draft-07/schema#"}},
    "identifier below identifier": {
        "$id": "http://e/root/",
        "$defs": {"a": {"$id": "a/", "$defs": {"b": {"$id": "b.json"}}}},
        "items": {"$ref": "a/b.json"},
    },
    "pointer into a list": {"allOf": [{"type": "string"}], "items": {"$ref": "#/allOf/0"}},
    "property called $ref": {"properties": {"$ref": {"type": "string"}, "pattern": {"type": "string"}}},
    "remote address as data": {"enum": [{"$ref": "http://example.com"}], "default": {"$ref": "http://example.com"}},
    "always": True,
    "as deep as may be": nested(MAX_DEPTH - 1),
    "shared definitions": {
        "properties": {name: {"$ref": "#/$defs/n0"} for name in "abc"},
        "$defs": {f"n{n}": {"properties": {name: {"$ref": f"#/$defs/n{n + 1}"} for name in "ab"}} for n in range(20)}
        | {"n20": {}},
    },
}


@pytest.mark.parametrize("case", ORDINARY)
def test_an_ordinary_schema_passes(case):
    """Recursion through the value, anchors, identifiers and odd names are all fine."""
    assert refusal(ORDINARY[case]) is None


def test_the_weight_counts_what_looks_at_the_same_piece():
    """Alternatives add up; fields of one object do not, since each looks at a piece of its own."""
    alternatives = {"anyOf": [{"type": "string"}, {"type": "null"}]}

    assert weigh(alternatives).cost == 3
    assert weigh({"properties": {"a": alternatives, "b": {}, "c": {}}}).cost == 4


def test_what_is_looked_at_again_for_what_nothing_spoke_of_counts_twice():
    """``unevaluatedProperties`` has the schemas beside it evaluated once more."""
    beside = {"allOf": [{"type": "object"}]}

    assert weigh(beside).cost == 2
    assert weigh({**beside, "unevaluatedProperties": False}).cost == 3


def test_the_weight_counts_the_ways_back():
    """Two alternatives that both come back to the schema on the same field are two loops; a tree is one."""
    back = {"properties": {"a": {"$ref": "#"}}}

    assert weigh({"anyOf": [back, back]}).loops == 2
    assert weigh({"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}).loops == 1


@pytest.mark.parametrize("pattern", ["^(a+)+$", r"\(?=", r"[(?=]", r"\\d", r"(?:a|b)(?<name>c)", r"[\]\1]"])
def test_a_pattern_without_look_around_is_linear(pattern):
    """Escaped brackets and character classes are not mistaken for look-around."""
    assert is_linear(pattern)


@given(
    st.recursive(
        st.none() | st.booleans() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=10,
    )
)
def test_any_json_is_either_weighed_or_refused(value):
    """No value a server can send gets anything but an answer."""
    reason = refusal({"properties": value, "allOf": value, "$ref": "#/x", "x": value})

    assert reason is None or reason


@pytest.mark.parametrize(("parts", "passes"), [(MAX_PARTS - 2, True), (MAX_PARTS - 1, False)])
def test_a_schema_may_have_so_many_parts_and_no_more(parts, passes):
    """The schema itself and its list are two of them."""
    schema = {"enum": [{}] * parts}
    if passes:
        refuse_oversize(schema)
    else:
        with pytest.raises(UnsafeSchema, match="parts"):
            refuse_oversize(schema)


@pytest.mark.parametrize("extra", [0, 1])
def test_a_schema_may_have_so_many_bytes_and_no_more(extra):
    schema = {"title": "x" * (MAX_BYTES - len('{"title":""}') + extra)}
    if extra:
        with pytest.raises(UnsafeSchema, match="bytes"):
            refuse_oversize(schema)
    else:
        refuse_oversize(schema)


@pytest.mark.parametrize(
    ("weight", "depth", "steps"),
    [
        (Weight(9, 0, Price(3, 2)), 5, 230),
        (Weight(9, 1, Price(3, 2)), 0, 230),
        (Weight(9, 1, Price(3, 2)), 5, 230 * 5),
        (Weight(9, 2, Price(3, 2)), 3, 230 * 3 * 2**3),
        (Weight(9, 2, Price(3, 2)), 65, 230 * 65 * 2**64),
    ],
)
def test_the_work_of_a_check_grows_with_pieces_bytes_and_each_way_back_with_depth(weight, depth, steps):
    assert weight.work(10, 100, depth) == steps


STRING = {"type": "string"}
RULED = {"minLength": 1}
BACK = {"$ref": "#"}


@pytest.mark.parametrize(
    ("schema", "weight"),
    [
        (True, Weight(1, 0, Price(1, 0))),
        ({}, Weight(1, 0, Price(1, 0))),
        ({"not": RULED}, Weight(2, 0, Price(3, 1))),
        ({"$defs": {"a": RULED}}, Weight(1, 0, Price(1, 0))),
        ({"properties": {"a": RULED, "b": {"anyOf": [STRING, STRING]}}}, Weight(4, 0, Price(4, 1))),
        ({"allOf": [RULED], "unevaluatedItems": False}, Weight(3, 0, Price(9, 4))),
        ({"items": BACK}, Weight(3, 1, Price(3 + 2, 0))),
        ({"properties": {"a": BACK, "b": RULED}}, Weight(3, 1, Price(3 + 2 + 2, 1 + 1))),
        ({"items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"items": BACK}}}, Weight(5, 1, Price(5 + 4 + 3 + 2, 0))),
    ],
)
def test_a_schema_weighs_what_its_parts_weigh_together(schema, weight):
    """Cost, ways back to itself, and the price of a piece and of a byte; where it comes back, of all parts together."""
    assert weigh(schema) == weight


@pytest.mark.parametrize(("alternatives", "passes"), [(MAX_COST - 1, True), (MAX_COST, False)])
def test_so_many_schemas_may_look_at_one_piece_and_no_more(alternatives, passes):
    """The schema itself is one of them."""
    assert (refusal({"anyOf": [STRING] * alternatives}) is None) is passes


def test_what_is_looked_at_twice_comes_back_to_itself_twice():
    again = {"$defs": {"a": {"properties": {"x": {"$ref": "#/$defs/a"}}}}, "allOf": [{"$ref": "#/$defs/a"}]}

    assert [weigh(again).loops, weigh({**again, "unevaluatedProperties": False}).loops] == [1, 2]
