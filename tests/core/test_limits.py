"""Limits as values, and how they are told."""

import pytest

from toolcrib.core.limits import Rate, retry_after_s, try_again


@pytest.mark.parametrize(
    ("rate", "written"),
    [
        (Rate(10, 1.0), "10/1s"),
        (Rate(600, 60.0), "600/1m"),
        (Rate(3, 90.0), "3/90s"),
        (Rate(100, 7200.0), "100/2h"),
        (Rate(1, 86400.0), "1/1d"),
        (Rate(5, 0.5), "5/500ms"),
    ],
)
def test_a_rate_is_shown_as_it_is_written(rate, written):
    """In the largest unit that fits."""
    assert str(rate) == written


@pytest.mark.parametrize(
    ("wait_s", "told_s"), [(0.0, 0.1), (0.01, 0.1), (0.1, 0.1), (0.11, 0.2), (1.0, 1.0), (59.99, 60.0), (2.5e6, 2.5e6)]
)
def test_a_wait_is_never_told_too_short(wait_s, told_s):
    """Rounded up to tenths of a second, and never to nothing."""
    assert retry_after_s(wait_s) == told_s
    assert try_again(wait_s) == f"Try again in {f'{told_s:.1f}'.removesuffix('.0')} s."
