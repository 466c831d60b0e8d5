"""Schemas and values that are costly only together: none of either is remarkable by itself."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Case:
    schema: dict[str, Any]
    value: Callable[[], Any]


def _items(schema: dict[str, Any], value: Callable[[], Any]) -> Case:
    return Case({"items": schema}, value)


def _tree(depth: int) -> Any:
    value: Any = "leaf"
    for _ in range(depth):
        value = [value, value]
    return value


def _bits() -> list[str]:
    """Texts that fit only at their end: each position may begin another way to match, and all are followed at once."""
    chance = random.Random(14)
    return [f"1{chance.getrandbits(2000):02000b}1{chance.getrandbits(400):0400b}z" for _ in range(100)]


def _ladder(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(levels):
        schema = {"allOf": [schema, {"minimum": 0}]}
    return schema


CASES = {
    "one_of_multiples": _items(
        {"oneOf": [*({"multipleOf": 0.5 + 1.7 * n} for n in range(40)), {"minimum": 0}]},
        lambda: [1039.25 + 7919 * n for n in range(80_000)],
    ),
    "any_of_constants": _items({"anyOf": [{"const": f"x{n}"} for n in range(30)]}, lambda: ["x29"] * 60_000),
    "contains_in_contains": _items(
        {"contains": {"contains": {"const": 1}}}, lambda: [[[0] * 30 + [1]] * 10 for _ in range(600)]
    ),
    "unique_fractions": _items({"uniqueItems": True}, lambda: [[n + 0.5 for n in range(14)]] * 4000),
    "unique_objects": Case({"uniqueItems": True}, lambda: [{"a": [n, n + 0.5]} for n in range(20_000)]),
    "enum_of_fractions": _items({"enum": [n + 0.5 for n in range(500)]}, lambda: [499.5] * 20_000),
    "enum_of_objects": _items({"enum": [{"a": n} for n in range(500)]}, lambda: [{"a": 499}] * 5_000),
    "pattern_states": _items({"pattern": "1[01]{400}[2-9a-z]"}, _bits),
    "pattern_names": Case(
        {"patternProperties": {f"a{n}$": {"type": "integer"} for n in range(50)}},
        lambda: {f"k{n}": n for n in range(50_000)},
    ),
    "property_names": Case({"propertyNames": {"pattern": "^[a-z0-9]+$"}}, lambda: {f"k{n}": n for n in range(50_000)}),
    "dependencies": _items({"dependentRequired": {f"d{n}": ["x"] for n in range(200)}}, lambda: [{}] * 60_000),
    "unevaluated": _items(
        {"anyOf": [{"properties": {"a": True}}] * 30, "unevaluatedProperties": False}, lambda: [{"a": 1}] * 30_000
    ),
    "reference_chain": Case(
        {
            "items": {"$ref": "#/properties/value/$defs/n0"},
            "$defs": {
                **{f"n{n}": {"$ref": f"#/properties/value/$defs/n{n + 1}", "minimum": n} for n in range(30)},
                "n30": {"type": "integer"},
            },
        },
        lambda: [99] * 100_000,
    ),
    "all_of_ladder": _items(_ladder(25), lambda: [7] * 60_000),
    "recursive_choice": Case(
        {
            "$ref": "#/properties/value/$defs/t",
            "$defs": {
                "t": {
                    "anyOf": [
                        {"items": {"$ref": "#/properties/value/$defs/t"}, "contains": {"const": 1}, "type": "array"},
                        {"type": "array", "items": {"$ref": "#/properties/value/$defs/t"}},
                        {"type": "string"},
                    ]
                }
            },
        },
        lambda: _tree(15),
    ),
    "many_lists": Case({"type": "array"}, lambda: [[]] * 1_000_000),
    "many_numbers": Case({"items": {"type": "integer"}}, lambda: [1] * 2_000_000),
    "long_text": Case({"type": "string"}, lambda: "a, [b] " * 500_000),
}
