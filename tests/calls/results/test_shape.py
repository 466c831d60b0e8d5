"""Shapes: keys, kinds and counts, never more than helps."""

import msgspec
from msgspec import Raw

from toolcrib.calls.results.shape import shape_of


def shape(value) -> str:
    return shape_of(Raw(msgspec.json.encode(value)))


def test_kinds_counts_and_the_first_item_are_told():
    """Long strings with their size."""
    value = {"a": 1, "b": None, "c": [True], "d": [], "e": {}, "f": "x" * 500, "g": [[1.5, 2]]}

    assert shape(value) == (
        "{a: number, b: null, c: [1 × boolean], d: [0 items], e: {}, f: string of 500 bytes, g: [1 × [2 × number]]}"
    )


def test_many_keys_are_counted():
    """The first twenty are named."""
    assert shape({f"k{number}": 1 for number in range(30)}).endswith("k19: number, … 10 more}")


def test_wide_and_deep_data_is_drawn_only_so_far():
    """Twenty keys, each with twenty keys, each with twenty keys."""
    value: object = 1
    for _ in range(3):
        value = {f"key{number}": value for number in range(20)}

    assert len(shape(value)) < 20_000


def test_nesting_ends_in_a_count():
    """Six levels are enough."""
    value: object = 1
    for _ in range(50):
        value = {"a": value}

    assert shape(value) == "{a: " * 6 + "{1 keys}" + "}" * 6
