"""Schemas of every kind, and values that often fit them: few names, few numbers, all keywords.

They are made by a plain generator from one number: thousands a second, and the number alone brings a case back.
"""

from random import Random
from typing import Any

NAMES = ["a", "b", "ab", "x y", "$top"]
NUMBERS = [0, 1, 2, 3, -1, 1.5]
TEXTS = ["", "a", "ab", "b", "1", "2024-01-01"]
SCALARS = [*NUMBERS, *TEXTS, True, False, None]
TYPES = ["string", "number", "integer", "boolean", "object", "array", "null"]
PATTERNS = ["^a", "b$", "^[0-9]+$"]
REFERENCES = ["#/$defs/A", "#/$defs/B", "#/definitions/C", "#", "#/properties/a", "#/$defs/none", "https://x.test/y"]

LEAVES = {
    "type": lambda random: random.choice(TYPES) if random.random() < 0.8 else random.sample(TYPES, 2),
    "enum": lambda random: some(random, SCALARS, 1),
    "const": lambda random: random.choice(SCALARS),
    "minimum": lambda random: random.choice(NUMBERS),
    "maximum": lambda random: random.choice(NUMBERS),
    "exclusiveMinimum": lambda random: random.choice(NUMBERS),
    "multipleOf": lambda random: random.choice([1, 2, 0.5]),
    "minLength": lambda random: random.randrange(3),
    "maxLength": lambda random: random.randrange(3),
    "pattern": lambda random: random.choice(PATTERNS),
    "format": lambda random: random.choice(["date", "ipv4", "odd"]),
    "minItems": lambda random: random.randrange(3),
    "maxItems": lambda random: random.randrange(3),
    "uniqueItems": lambda random: random.random() < 0.5,
    "minContains": lambda random: random.randrange(3),
    "minProperties": lambda random: random.randrange(2),
    "maxProperties": lambda random: random.randrange(3),
    "required": lambda random: some(random, NAMES, 0),
    "dependentRequired": lambda random: {random.choice(NAMES): some(random, NAMES, 0)},
    "description": lambda random: "Said.",
    "default": lambda random: random.choice(SCALARS),
    "title": lambda random: "T",
    "x-more": lambda random: 1,
}
MAPS = ["properties", "properties", "properties", "dependentSchemas"]
SINGLE = ["additionalProperties", "unevaluatedProperties", "propertyNames", "items", "items", "contains"]
SINGLE += ["unevaluatedItems", "not", "if", "then", "else"]
LISTS = ["anyOf", "oneOf", "allOf", "prefixItems"]
KEYWORDS = [*LEAVES, *MAPS, *SINGLE, *LISTS, *LISTS, "$ref", "$ref", "patternProperties"]
MALFORMED = {"type": "str", "required": True, "items": [{}], "enum": [], "pattern": "(?=", "minLength": -1, "anyOf": []}


def some(random: Random, pool: list[Any], least: int) -> list[Any]:
    return random.sample(pool, random.randint(least, 3))


def make_part(random: Random, depth: int) -> Any:
    """One subschema."""
    if random.random() < 0.1:
        return random.random() < 0.5
    return {word: make_rule(random, word, depth) for word in random.sample(KEYWORDS, random.randint(0, 4))}


def make_rule(random: Random, keyword: str, depth: int) -> Any:
    if keyword in LEAVES:
        return LEAVES[keyword](random)
    if keyword == "$ref":
        return random.choice(REFERENCES)

    def part() -> Any:
        return make_part(random, depth - 1) if depth > 0 else {"type": random.choice(TYPES)}

    if keyword in SINGLE:
        return part()
    if keyword in LISTS:
        return [part() for _ in range(random.randint(1, 3))]
    names = PATTERNS if keyword == "patternProperties" else NAMES
    return {name: part() for name in some(random, names, 0)}


def make_schema(random: Random, *, malformed: bool = False) -> dict[str, Any]:
    """The schema of a tool's arguments."""
    schema = make_part(random, 2)
    schema = schema if isinstance(schema, dict) else {}
    schema.setdefault("properties", {name: make_part(random, 2) for name in some(random, NAMES, 1)})
    if random.random() < 0.5:
        schema |= {"$defs": {"A": make_part(random, 1), "B": make_part(random, 1)}}
        schema |= {"definitions": {"C": make_part(random, 1)}}
    if random.random() < 0.3:
        schema["$schema"] = "http://json-schema.org/draft-07/schema#"
    if malformed:
        name, value = random.choice([*MALFORMED.items()])
        schema["properties"] = {**schema["properties"], "bad": {name: value}, name: value}
    return schema | {"type": "object"}


def make_value(random: Random, depth: int = 2) -> Any:
    kind = random.random()
    if depth == 0 or kind < 0.6:
        return random.choice(SCALARS)
    if kind < 0.8:
        return [make_value(random, depth - 1) for _ in range(random.randrange(3))]
    return make_arguments(random, depth - 1)


def make_arguments(random: Random, depth: int = 2) -> dict[str, Any]:
    return {name: make_value(random, depth) for name in some(random, NAMES, 0)}
