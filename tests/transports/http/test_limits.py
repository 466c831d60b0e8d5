"""Who keeps a place and who makes room, decided without a socket."""

import resource

import pytest

from toolcrib.transports.http.limits import (
    BATCH,
    FILES_KEPT,
    IN_BODY,
    IN_HEAD,
    JUST_CAME,
    KEPT_ALIVE,
    LINGERING,
    SILENT,
    SPARE_PLACES,
    Places,
    address_of,
)

HERE = ("127.0.0.1", 40000)
THERE = ("192.0.2.7", 40000)


class Guest:
    """A connection in a given state."""

    def __init__(self, kind: int | None = JUST_CAME, since: float = 0.0) -> None:
        self.kind, self.since = kind, since
        self.dropped = False

    def waits(self) -> tuple[int, float] | None:
        return None if self.kind is None else (self.kind, self.since)

    def abort(self) -> None:
        self.dropped = True

    def stop(self) -> None: ...

    def check_time(self, now: float) -> None: ...


def filled(places: Places, guests: list[Guest], peer: object = HERE) -> list[Guest]:
    """Give each a place, as one that has sent something."""
    for guest in guests:
        assert places.take(guest, peer)
        places.hear(guest)
    return guests


def test_the_silent_have_half_of_the_places_and_the_oldest_goes_first():
    """The other half is reserved for those who send."""
    places = Places(10)
    guests = [Guest() for _ in range(7)]

    for guest in guests:
        places.take(guest, HERE)

    assert [guest.dropped for guest in guests] == [True, True, False, False, False, False, False]
    assert len(places.taken) == 5


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (LINGERING, SILENT),
        (SILENT, IN_HEAD),
        (IN_HEAD, KEPT_ALIVE),
        (KEPT_ALIVE, JUST_CAME),
        (JUST_CAME, IN_BODY),
    ],
)
def test_whoever_waits_for_the_least_makes_room_first(first: int, second: int):
    """Refused, silent, slow with a head, idle, new, slow with a body: in this order, whoever came first."""
    places = Places(2)
    later, sooner = filled(places, [Guest(second, 1.0), Guest(first, 9.0)])

    admitted = places.take(Guest(), HERE)

    assert (admitted, sooner.dropped, later.dropped) == (True, True, False)


def test_of_the_same_kind_the_oldest_makes_room():
    """Whoever has waited longest goes."""
    places = Places(2)
    new, old = filled(places, [Guest(KEPT_ALIVE, 5.0), Guest(KEPT_ALIVE, 1.0)])

    places.take(Guest(), HERE)

    assert (old.dropped, new.dropped) == (True, False)


def test_whoever_is_being_served_keeps_the_place():
    """With nobody to make room, the newcomer has none; beyond the spare ones nobody is even told."""
    places = Places(2)
    busy = filled(places, [Guest(None), Guest(None)])
    newcomers = [Guest(None) for _ in range(SPARE_PLACES)]

    admitted = []
    for newcomer in newcomers:
        admitted.append(places.take(newcomer, HERE))
        places.hear(newcomer)
    overrun_before = places.are_overrun
    places.take(Guest(None), HERE)

    assert not any(admitted)
    assert not any(guest.dropped for guest in busy)
    assert (overrun_before, places.are_overrun) == (False, True)


def test_one_address_has_three_quarters_of_the_places_at_most():
    """A quarter is left for all others; at home everybody has the same address and may have all."""
    away, home = Places(8), Places(8)
    filled(away, [Guest(None) for _ in range(6)], THERE)
    filled(home, [Guest(None) for _ in range(8)], HERE)

    assert not away.take(Guest(None), THERE)
    assert away.take(Guest(None), ("192.0.2.8", 1))


def test_of_two_places_one_is_left_for_others():
    """Of a single one there is nothing to leave."""
    two, single = Places(2), Places(1)
    filled(two, [Guest(None)], THERE)

    assert not two.take(Guest(None), THERE)
    assert single.take(Guest(None), THERE)


def test_nobody_else_makes_room_for_an_address_that_takes_too_much():
    """Where all of its own are busy it is refused, however idle others are."""
    places = Places(8)
    [other] = filled(places, [Guest(KEPT_ALIVE, 0.0)], ("192.0.2.8", 1))
    filled(places, [Guest(None) for _ in range(6)], THERE)

    admitted = places.take(Guest(None), THERE)

    assert (admitted, other.dropped) == (False, False)


def test_an_address_that_takes_too_much_makes_room_itself():
    """Its own idle connection goes, not an older one of somebody else."""
    places = Places(8)
    [other] = filled(places, [Guest(KEPT_ALIVE, 0.0)], ("192.0.2.8", 1))
    idle = filled(places, [Guest(KEPT_ALIVE, 5.0) for _ in range(6)], THERE)

    admitted = places.take(Guest(), THERE)

    assert (admitted, other.dropped, [guest.dropped for guest in idle].count(True)) == (True, False, 1)


def test_an_address_with_more_than_half_of_the_places_makes_room_for_others():
    """Its idle connections go before the silent ones of somebody else."""
    places = Places(8)
    crowd = filled(places, [Guest(KEPT_ALIVE, 5.0) for _ in range(5)], THERE)
    others = filled(places, [Guest(SILENT, 0.0) for _ in range(3)], ("192.0.2.8", 1))

    admitted = places.take(Guest(), ("192.0.2.9", 1))

    assert admitted
    assert [guest.dropped for guest in crowd].count(True) == 1
    assert not any(guest.dropped for guest in others)


def test_a_place_is_given_back_once():
    """Leaving twice frees one place."""
    places = Places(8)
    one, two = filled(places, [Guest(None), Guest(None)], THERE)

    places.leave(one)
    places.leave(one)
    places.leave(two)

    assert not places.taken


def test_whoever_leaves_frees_one_place_of_their_address_and_no_more():
    places = Places(8)
    busy = filled(places, [Guest(None) for _ in range(6)], THERE)

    places.leave(busy[0])

    assert [places.take(Guest(None), THERE) for _ in range(2)] == [True, False]


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        (("127.0.0.1", 1), ""),
        (("127.8.9.1", 1), ""),
        (("::1", 1, 0, 0), ""),
        (("::ffff:127.0.0.1", 1, 0, 0), ""),
        (("192.0.2.7", 1), "192.0.2.7"),
        (("::ffff:192.0.2.7", 1, 0, 0), "192.0.2.7"),
        (("2001:db8::1", 1, 0, 0), b"\x20\x01\x0d\xb8" + bytes(4)),
        (("fe80::1%eth0", 1, 0, 2), b"\xfe\x80" + bytes(6)),
        ("", ""),
        (None, ""),
    ],
)
def test_an_ipv6_network_counts_as_one_address(peer: object, address: str | bytes):
    """Whoever has one IPv6 address has 2^64 of them."""
    assert address_of(peer) == address


@pytest.mark.parametrize(
    ("soft", "most"),
    [(1000, 1000 - FILES_KEPT), (20, 16), (resource.RLIM_INFINITY, 1_000_000), (10_000_000, 5_000_000)],
)
def test_there_are_no_more_places_than_descriptors(monkeypatch, soft, most):
    """Some are kept for everything else; a few places there always are."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, resource.RLIM_INFINITY))

    assert Places(5_000_000).most == most


@pytest.mark.parametrize(("kind", "dropped"), [(KEPT_ALIVE, 3), (IN_BODY, 1)])
def test_one_look_makes_room_for_several_but_of_those_at_work_one_goes_only(kind, dropped):
    """A twentieth of all places at once, so that a flood pays for few looks."""
    places = Places(3 * BATCH)
    guests = filled(places, [Guest(kind, 1.0) for _ in range(3 * BATCH)])

    places.take(Guest(), HERE)

    assert [guest.dropped for guest in guests].count(True) == dropped


def test_what_is_no_address_counts_for_itself():
    assert address_of(("a pipe", 1)) == "a pipe"


def test_when_all_are_busy_nobody_else_has_a_place_wherever_they_come_from():
    """However small the share of each address is."""
    places = Places(4)
    filled(places, [Guest(None), Guest(None)], THERE)
    filled(places, [Guest(None), Guest(None)], ("192.0.2.8", 1))

    assert not places.take(Guest(None), ("192.0.2.9", 1))


def test_an_address_with_just_half_of_the_places_is_not_crowded():
    """Then the oldest goes, whoever it is."""
    places = Places(10)
    half = filled(places, [Guest(KEPT_ALIVE, 9.0) for _ in range(5)], THERE)
    rest = filled(places, [Guest(KEPT_ALIVE, float(number)) for number in range(5)], ("198.51.100.1", 1))

    assert places.take(Guest(), ("203.0.113.1", 1))
    assert [guest.dropped for guest in rest] == [True, False, False, False, False]
    assert not any(guest.dropped for guest in half)
