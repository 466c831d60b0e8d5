"""Schemas made to hang, mislead or call out a validator, each with a value to check against it."""

from typing import Any

URL = "http://127.0.0.1:9/schema.json"
RUN = "a" * 50_000 + "!"


def hostile_schemas() -> dict[str, tuple[Any, Any]]:
    """Every case by name: the schema and the value."""
    return {
        **{f"{keyword} doubling": (doubling(keyword, 25), 1) for keyword in ("anyOf", "allOf", "oneOf")},
        **{f"{keyword} to a network address": ({keyword: URL}, 1) for keyword in ("$ref", "$schema", "$dynamicRef")},
        **{f"pattern {pattern}": ({"pattern": pattern}, RUN) for pattern in PATTERNS},
        **{
            f"format {name}": ({"format": name}, RUN) for name in ("email", "uri", "regex", "date-time", "idn-hostname")
        },
        **structures(),
        **large_ones(),
        **references(),
    }


PATTERNS = (
    "^(a+)+$",
    "^(a|aa)+$",
    "^(a|a?)+$",
    "(.*a){20}",
    "^(([a-z])+.)+[A-Z]([a-z])+$",
    r"(?=(a+))\1+b",
    r"^(a*)*\1$",
    "a{1000}{1000}",
    "((a{100}){100}){100}",
    "(" * 5_000 + ")" * 5_000,
    "[" + "a-z" * 20_000 + "]",
    "|".join(f"a{n}" for n in range(20_000)),
    r"\p{L}{1,500}" * 50,
)


def doubling(keyword: str, levels: int) -> dict[str, Any]:
    """Each definition asks for the next one twice."""
    steps = {
        f"n{level}": {keyword: [{"$ref": f"#/$defs/n{level + 1}"}, {"$ref": f"#/$defs/n{level + 1}"}]}
        for level in range(levels)
    }
    return {"$ref": "#/$defs/n0", "$defs": {**steps, f"n{levels}": {"type": "string"}}}


def nested(keyword: str, levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {keyword: schema}
    return schema


def unevaluated(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"properties": {"a": True}}
    for _ in range(levels):
        schema = {"allOf": [schema], "unevaluatedProperties": False}
    return schema


def deep_value(levels: int) -> Any:
    value: Any = 2
    for _ in range(levels):
        value = {"a": value}
    return value


def structures() -> dict[str, tuple[Any, Any]]:
    back = {"properties": {"a": {"$ref": "#"}}}
    return {
        "unevaluatedProperties doubling": (unevaluated(14), {"a": 1}),
        "unevaluatedProperties, just admitted": (unevaluated(10), {"a": 1, "b": 2}),
        "not, 3 000 deep": (nested("not", 500), 1),
        "items, 63 deep": (nested("items", 62), deep_value(200)),
        "alternatives that recurse": ({"anyOf": [{**back, "const": 3}, {**back, "const": 4}]}, deep_value(120)),
        "uniqueItems, 20 000": ({"uniqueItems": True}, [*range(20_000)]),
        "uniqueItems, objects": ({"uniqueItems": True}, [{"a": n} for n in range(2_000)]),
        "contains, 20 000": ({"contains": {"const": 1}, "maxContains": 1}, [0] * 20_000),
        "multipleOf, tiny": ({"multipleOf": 1e-300}, 1e300),
        "maxLength, huge": ({"maxLength": 10**400}, "a"),
        "minimum, huge": ({"minimum": -(10**300)}, 1),
        "not JSON": ({"default": "\ud800"}, 1),
        "keys like prototypes": ({"properties": {"__proto__": {"$ref": "#/__proto__"}}}, {"__proto__": 1}),
    }


def large_ones() -> dict[str, tuple[Any, Any]]:
    return {
        "100 000 properties": ({"properties": {f"p{n}": True for n in range(100_000)}}, {"p1": 1}),
        "2 000 properties": ({"properties": {f"p{n}": {"type": "string"} for n in range(2_000)}}, {"p1": 1}),
        "9 000 alternatives": ({"anyOf": [{"type": "null"}] * 9_000}, 1),
        "20 000 alternatives": ({"anyOf": [{}] * 20_000}, 1),
        "enum, 30 000": ({"enum": [*range(30_000)]}, "x"),
        "required, 20 000": ({"required": [f"r{n}" for n in range(20_000)]}, {}),
        "dependentRequired": ({"dependentRequired": {f"d{n}": ["x"] for n in range(9_000)}}, {"d1": 1}),
        "a description of 16 MB": ({"description": "x" * 16_000_000}, 1),
        "a default of 200 KB, nested": ({"default": [[[[[0] * 1_000] * 10] * 2] * 2] * 2}, 1),
        "50 patterns of names": (
            {"patternProperties": {f"^(a|b{n})+$": {} for n in range(50)}},
            {"a" * n: n for n in range(1, 500)},
        ),
        "a wrong value of 300 000 items": ({"items": {"type": "string"}}, [1] * 300_000),
    }


def references() -> dict[str, tuple[Any, Any]]:
    chain = {f"n{n}": {"$ref": f"#/$defs/n{n + 1}"} for n in range(1_900)}
    mesh = {f"n{n}": {"allOf": [{"$ref": f"#/$defs/n{m}"} for m in range(n + 1, 60)]} for n in range(60)}
    many = {f"d{n}": {} for n in range(9_000)}
    stacked = {f"d{n}": {"$id": f"d{n}/", "$ref": "x"} for n in range(9)}
    loops = {
        f"n{n}": {"anyOf": [{"properties": {"a": {"$ref": f"#/$defs/n{m}"}}} for m in range(20)]} for n in range(20)
    }
    return {
        "to itself": ({"$ref": "#"}, 1),
        "in a circle": ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, 1),
        "dynamic loop": ({"$dynamicAnchor": "a", "anyOf": [{"$dynamicRef": "#a"}]}, 1),
        "to a file": ({"$ref": "file:///etc/passwd"}, 1),
        "relative to a network address": ({"$id": URL, "items": {"$ref": "next.json"}}, [1]),
        "the metaschema, redirected": (
            {"$dynamicAnchor": "meta", "$ref": "https://json-schema.org/draft/2020-12/schema"},
            deep_value(100),
        ),
        "a chain of 1 900": ({"$ref": "#/$defs/n0", "$defs": {**chain, "n1900": {}}}, 1),
        "a mesh": ({"$ref": "#/$defs/n0", "$defs": mesh}, 1),
        "a mesh of loops": ({"$ref": "#/$defs/n0", "$defs": loops}, deep_value(100)),
        "2 000 anchors": (
            {"$defs": {f"d{n}": {"$anchor": f"a{n}"} for n in range(1_999)}, "items": {"$ref": "#a1"}},
            [1],
        ),
        "10 000 references": (
            {"prefixItems": [{"$ref": f"#/$defs/d{n}"} for n in range(9_000)], "$defs": many},
            [1] * 9,
        ),
        "one target by 5 000 names": (
            {"$id": "http://e/a", "prefixItems": [{"$ref": f"x{n}/../a"} for n in range(5_000)]},
            [1],
        ),
        "identifiers upon identifiers": ({"$defs": stacked}, 1),
        "60 000 parts": ({"prefixItems": [{} for _ in range(60_000)]}, [1]),
        "1 999 names, three times each": (
            {"allOf": [{"properties": {f"p{n}": {"type": "null"} for n in range(600)}} for _ in range(3)]},
            {f"p{n}": n for n in range(600)},
        ),
        "1 900 alternatives of three fields": (
            {"anyOf": [{"properties": {"a": {"const": n}}, "required": ["b"]} for n in range(1_900)]},
            {"a": "x"},
        ),
        "one anchor 1 900 times": (
            {"$defs": {f"d{n}": {"$dynamicAnchor": "a", "items": {"$dynamicRef": "#a"}} for n in range(1_900)}},
            [[1]],
        ),
    }
