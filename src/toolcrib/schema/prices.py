"""What the keywords of a schema cost a validator, in steps of a tenth of a microsecond, as upper bounds.

Measured with jsonschema_rs (``./dev bench validation`` shows whether they still hold): numbers are compared as exact
fractions, which makes ``multipleOf``, ``enum`` and ``uniqueItems`` hundreds of times as costly as the rest.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

STEPS_PER_MS = 10_000

_INTEGER, _FRACTION = 12, 100
"""Comparing a number with one that may be written in another way."""
_MULTIPLE_OF_INTEGER, _MULTIPLE_OF_FRACTION = 40, 250
_UNIQUE_TEXTS, _UNIQUE_ANY = 15, 750
"""Small arrays are compared pair by pair."""
_FORMAT, _FORMAT_REGEX = 10, 5_000
_STATES_PER_STEP = 20
_STATES_PER_REPEAT = 8
_STATES_MAX = 1 << 20
_REPEAT = re.compile(r"\{(\d{1,6})?,?(\d{1,6})?\}")
_SCALARS = frozenset({"string", "boolean", "null"})


class Price(msgspec.Struct, frozen=True):
    """Steps for each piece of a value (an item, a member, a name), and for each byte of it."""

    piece: int = 0
    byte: int = 0

    def __add__(self, other: "Price") -> "Price":
        return Price(self.piece + other.piece, self.byte + other.byte)

    def __mul__(self, times: int) -> "Price":
        return Price(self.piece * times, self.byte * times)

    def __or__(self, other: "Price") -> "Price":
        """The most of both: a piece is looked at by one of two schemas."""
        return Price(max(self.piece, other.piece), max(self.byte, other.byte))


FREE = Price()
VISIT = Price(1)


def own_price(node: Mapping[str, Any]) -> Price:
    """What a schema's own keywords cost, without the schemas below it."""
    total = VISIT
    for keyword, value in node.items():
        if (price := _PRICES.get(keyword)) is not None:
            total += price(value, node)
    return total


def _enum(options: Any, _: Mapping[str, Any]) -> Price:
    if not isinstance(options, list) or all(isinstance(option, str) for option in options):
        return VISIT  # texts are looked up
    return Price(1 + sum(map(_comparison, options)))


def _const(option: Any, _: Mapping[str, Any]) -> Price:
    return Price(_comparison(option))


def _comparison(option: Any) -> int:
    """What it costs to hold a value against this one."""
    total, parts = 0, [option]
    while parts:
        part = parts.pop()
        if isinstance(part, (dict, list)):
            parts.extend(part.values() if isinstance(part, dict) else part)
            total += 5 + len(part)
        elif isinstance(part, float):
            total += _FRACTION
        else:
            total += _INTEGER if isinstance(part, int) else 1
    return total


def _multiple_of(divisor: Any, _: Mapping[str, Any]) -> Price:
    return Price(_MULTIPLE_OF_INTEGER if isinstance(divisor, int) else _MULTIPLE_OF_FRACTION)


def _limit(limit: Any, _: Mapping[str, Any]) -> Price:
    """Numbers of any length are compared digit by digit."""
    return Price(2, 4 if isinstance(limit, int) and abs(limit) >= 1 << 63 else 1)


def _unique(wanted: Any, node: Mapping[str, Any]) -> Price:
    if wanted is not True:
        return FREE
    items = node.get("items")
    kind = items.get("type") if isinstance(items, Mapping) else None
    return Price(_UNIQUE_TEXTS if isinstance(kind, str) and kind in _SCALARS else _UNIQUE_ANY, 1)


def _format(name: Any, _: Mapping[str, Any]) -> Price:
    return Price(_FORMAT_REGEX if name == "regex" else _FORMAT, 1)


def _pattern(pattern: Any, _: Mapping[str, Any]) -> Price:
    return Price(3, 1 + _states(str(pattern)) // _STATES_PER_STEP)


def _patterns(patterns: Any, _: Mapping[str, Any]) -> Price:
    return sum((_pattern(pattern, {}) for pattern in patterns), FREE) if isinstance(patterns, dict) else FREE


def _states(pattern: str) -> int:
    """About how many states a matcher may have to follow at once: bounded repetitions multiply them."""
    states = _STATES_PER_REPEAT
    for least, most in _REPEAT.findall(pattern):
        states = min(_STATES_MAX, states * max(1, int(least or 1), int(most or 1)))
    return len(pattern) // 8 if states == _STATES_PER_REPEAT else len(pattern) + states


def _names(names: Any, _: Mapping[str, Any]) -> Price:
    return Price(1 + len(names) // 4) if isinstance(names, (list, dict)) else FREE


def _dependencies(members: Any, _: Mapping[str, Any]) -> Price:
    if not isinstance(members, dict):
        return FREE
    return Price(2 * sum(1 + len(part) for part in members.values() if isinstance(part, (list, dict))))


_PRICES: Mapping[str, Callable[[Any, Mapping[str, Any]], Price]] = (
    {"enum": _enum, "const": _const, "multipleOf": _multiple_of, "uniqueItems": _unique, "format": _format}
    | dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _limit)
    | dict.fromkeys(("pattern",), _pattern)
    | dict.fromkeys(("patternProperties",), _patterns)
    | dict.fromkeys(("required",), _names)
    | dict.fromkeys(("dependentRequired", "dependentSchemas", "dependencies"), _dependencies)
    | dict.fromkeys(("minLength", "maxLength", "contentEncoding", "contentMediaType"), lambda *_: Price(1, 1))
)
