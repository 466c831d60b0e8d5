"""Seals: what is carried by a client counts only for what it was given out for."""

import pytest

from toolcrib.core.access import Caller
from toolcrib.core.requests import Request
from toolcrib.core.seal import Seal, SealPurpose, is_sealed, subject_for, subject_of
from toolcrib.testing import ManualClock

ROUND = SealPurpose.ROUND


def test_what_was_sealed_is_found_again_until_its_time_is_over():
    """Whatever bytes it is."""
    clock = ManualClock(100.0)
    seal = Seal(clock)
    text = seal.close(ROUND, b"me", b"a.b\x00.c", 10.0)

    found = seal.open(ROUND, b"me", text)
    clock.advance(11.0)

    assert found is not None
    assert (found.payload, found.due) == (b"a.b\x00.c", 110)
    assert seal.open(ROUND, b"me", text) is None


def test_a_seal_is_good_for_one_purpose_and_one_subject_only():
    """Also if its beginning is exchanged."""
    seal = Seal(ManualClock())
    text = seal.close(ROUND, b"me", b"x", 10.0)
    renamed = text.replace("toolcrib.round.", "toolcrib.parked.")

    assert seal.open(ROUND, b"you", text) is None
    assert seal.open(SealPurpose.PARKED, b"me", renamed) is None
    assert [is_sealed(purpose, renamed) for purpose in SealPurpose] == [False, False, True]


def test_no_other_payload_fits_under_the_same_signature():
    """It is signed, too."""
    seal = Seal(ManualClock())
    one, other = (seal.close(ROUND, b"me", payload, 10.0) for payload in (b"x", b"y"))

    assert seal.open(ROUND, b"me", one[:-4] + other[-4:]) is None


@pytest.mark.parametrize("payload", [b"", b"x", b"xy", b"xyz"])
@pytest.mark.parametrize("more", ["-TAMPERED", "=", "!", "\n", "AAAA", "é"])
def test_nothing_can_be_added_to_a_seal(payload, more):
    """Not even what a lenient decoder passes over."""
    seal = Seal(ManualClock())

    assert seal.open(ROUND, b"me", seal.close(ROUND, b"me", payload, 10.0) + more) is None


def test_a_seal_is_used_up_once():
    """Each is different."""
    seal = Seal(ManualClock())
    first, second = (seal.open(ROUND, b"", seal.close(ROUND, b"", b"", 10.0)) for _ in range(2))
    assert first is not None
    assert second is not None

    assert [seal.spend(found) for found in (first, first, second)] == [True, False, True]


@pytest.mark.parametrize(
    "changes",
    [{"caller": Caller("bob", session="s")}, {"caller": Caller("ann")}, {"name": "b"}, {"arguments": {"x": 2}}],
)
def test_a_subject_is_one_caller_in_one_session_asking_for_one_thing(changes):
    """In whatever order the arguments stand."""
    usual = {"name": "a", "target": "", "arguments": {"x": 1, "y": 2}, "caller": Caller("ann", session="s")}

    same = Request(**(usual | {"arguments": {"y": 2, "x": 1}, "id": "other"}))

    assert subject_of(Request(**usual)) == subject_of(same)
    assert subject_of(Request(**(usual | changes))) != subject_of(same)
    assert subject_for(Caller("a", session="b")) != subject_for(Caller("a"), "b")
