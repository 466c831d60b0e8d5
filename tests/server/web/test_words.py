"""Numbers and moments as people read them."""

from datetime import UTC, datetime

import pytest

from toolcrib.server.web.words import ago, count, duration, kind, short, span

NOW = datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (count(1, "tool"), "1 tool"),
        (count(1234, "tool"), "1,234 tools"),
        (count(2, "entry", "entries"), "2 entries"),
        (short(950), "950"),
        (short(1234), "1.2k"),
        (short(34_000), "34k"),
        (short(1_500_000), "1.5M"),
        (duration(0.0004), "0.4 ms"),
        (duration(0.035), "35 ms"),
        (duration(1.23), "1.2 s"),
        (duration(200), "3 min"),
        (span(45), "45 seconds"),
        (span(3600), "1 hour"),
        (span(200_000), "2 days"),
        (ago("2026-01-02T11:59:58Z", NOW), "just now"),
        (ago("2026-01-02T11:57:00Z", NOW), "3 min ago"),
        (ago("2026-01-01T11:00:00Z", NOW), "1 d ago"),
        (ago("", NOW), ""),
        (ago("nonsense", NOW), ""),
    ],
)
def test_words(made: str, expected: str):
    assert made == expected


def test_kinds_of_arguments_are_told_with_their_size():
    """As the live view keeps them."""
    shapes = ["string 9", "string 1", "array 2", "object 1", "integer", "other"]

    assert [kind(shape) for shape in shapes] == [
        "string of 9 characters",
        "string of 1 character",
        "array of 2 items",
        "object of 1 field",
        "integer",
        "other",
    ]
