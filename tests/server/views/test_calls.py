"""Times as people write them."""

import time

import pytest

from toolcrib.server.views.calls import iso, moment_us


def test_a_time_is_so_long_ago_or_a_date():
    """Both as microseconds since 1970."""
    assert moment_us("1970-01-01T00:00:01Z") == 1_000_000
    assert moment_us("999999999.999999d") == 0
    assert moment_us(" 1.5h ") == pytest.approx((time.time() - 5400) * 1_000_000, abs=60_000_000)


@pytest.mark.parametrize("text", ["", "soon", "1y", "-1h", "9999999999d", "0001-01-01T00:00:00+23:00", "१h"])
def test_what_is_no_time_is_a_value_error(text):
    """Also what no calendar has."""
    with pytest.raises(ValueError):
        moment_us(text)


def test_a_time_no_calendar_has_is_shown_as_its_number():
    """A log can hold anything."""
    assert (iso(1_000_000), iso(10**20)) == ("1970-01-01T00:00:01.000000Z", str(10**20))
