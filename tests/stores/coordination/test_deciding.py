"""What a replica knows of its own part."""

from toolcrib.core.coordination import Claim
from toolcrib.core.limits import Rate
from toolcrib.stores.coordination.deciding import PARTS, Mirror

HOUR = Claim("tool read", Rate(1000, 3600.0))
HOUR_US = 3_600_000_000


def parts(mirror: Mirror) -> tuple[tuple[int, int], ...]:
    return next(iter(mirror.wishes("me")))[5]


def test_uses_of_long_windows_are_put_back_and_those_of_short_ones_are_not():
    mirror = Mirror(60.0)
    mirror.note(Claim("short", Rate(5, 60.0)), 1)
    mirror.note(HOUR, 10 * HOUR_US)
    mirror.held["ticket"] = "server files"

    assert list(mirror.wishes("me")) == [
        ("back", "tool read", 1000, HOUR_US, "me tool read", ((10 * HOUR_US, 1),)),
        ("keep", ("server files", "ticket")),
    ]


def test_uses_close_together_are_remembered_as_made_at_the_latest_of_them():
    """Never earlier than they were: they would be forgotten too soon."""
    mirror = Mirror(60.0)
    for second in range(7200):
        mirror.note(HOUR, 10 * HOUR_US + second * 1_000_000)

    remembered = parts(mirror)

    assert len(remembered) <= PARTS + 1
    assert 3600 <= sum(uses for _, uses in remembered) <= 3600 + 3600 // PARTS
    assert remembered[-1][0] == 10 * HOUR_US + 7199 * 1_000_000


def test_the_keys_used_least_lately_make_room():
    mirror = Mirror(60.0, keys_max=3)
    for number in (1, 2, 3, 1, 4):
        mirror.note(Claim(f"caller {number}", Rate(5, 600.0)), number)

    assert [wish[1] for wish in mirror.wishes("me") if wish[0] == "back"] == ["caller 3", "caller 1", "caller 4"]
