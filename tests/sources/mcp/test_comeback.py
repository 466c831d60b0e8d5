"""How soon a server that went away is tried again, to the exact instant, and whether calls wait for it."""

import pytest

from toolcrib.sources.mcp.comeback import (
    BACKOFF_FIRST_S,
    BACKOFF_MAX_S,
    GRACE_S,
    PAUSE_WAITED_S,
    RESTART_DELAYS_S,
    STABLE_AFTER_S,
    Comeback,
    SupervisorSettings,
)
from toolcrib.sources.mcp.redactor import NO_SECRETS

NOW = 1_000.0


@pytest.fixture
def comeback() -> Comeback:
    return Comeback()


def lose(comeback: Comeback, now: float = NOW, lasted_s: float = 0.0, *, has_answered: bool = False) -> None:
    """A connection of ``lasted_s`` ends."""
    comeback.note_connected()
    comeback.has_answered = has_answered
    comeback.note_loss(now, lasted_s)


def test_the_usual_patience_is_as_documented():
    assert SupervisorSettings() == SupervisorSettings((0.0, 2.0, 4.0), 30.0, 600.0, NO_SECRETS)
    assert (STABLE_AFTER_S, BACKOFF_FIRST_S, BACKOFF_MAX_S, GRACE_S, PAUSE_WAITED_S) == (10.0, 0.5, 30.0, 20.0, 5.0)
    assert RESTART_DELAYS_S == (0.0, 0.0, 0.2, 0.5)


def test_a_server_that_was_never_up_is_tried_at_once_and_not_waited_for(comeback):
    assert (comeback.wait_s(0.0), comeback.is_awaited(0.0), comeback.is_known_good(0.0)) == (0.0, False, False)
    assert comeback.has_answered is False


def test_pauses_double_with_every_failed_attempt_up_to_half_a_minute(comeback):
    pauses = []
    for _ in range(8):
        comeback.note_failed_attempts(NOW, is_final=False)
        pauses.append(comeback.wait_s(NOW))

    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


def test_a_pause_is_over_at_its_end(comeback):
    comeback.note_failed_attempts(NOW, is_final=False)

    assert [comeback.wait_s(NOW + passed) for passed in (0.2, 0.5, 9.0)] == [pytest.approx(0.3), 0.0, 0.0]


def test_a_server_that_could_not_be_brought_up_is_not_waited_for(comeback):
    lose(comeback)
    comeback.note_failed_attempts(NOW, is_final=False)

    assert not comeback.is_awaited(NOW)


def test_the_first_loss_of_an_unused_connection_costs_no_pause_and_the_next_ones_do(comeback):
    pauses = []
    for _ in range(3):
        lose(comeback)
        pauses.append(comeback.wait_s(NOW))

    assert pauses == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(("lasted_s", "pause_s"), [(STABLE_AFTER_S, 0.0), (STABLE_AFTER_S - 0.001, 1.0)])
def test_a_connection_that_held_for_a_while_clears_the_record(comeback, lasted_s, pause_s):
    lose(comeback)

    lose(comeback, lasted_s=lasted_s)

    assert comeback.wait_s(NOW) == pause_s
    assert not comeback.is_known_good(NOW)


def test_a_server_that_answered_is_good_until_its_grace_is_over(comeback):
    comeback.note_failed_attempts(NOW, is_final=False)

    lose(comeback, has_answered=True)

    assert comeback.wait_s(NOW) == 0.0
    assert [comeback.is_known_good(NOW + passed) for passed in (0.0, GRACE_S - 0.001, GRACE_S)] == [True, True, False]


def test_calls_wait_through_the_grace_even_when_an_attempt_failed(comeback):
    lose(comeback, has_answered=True)
    comeback.note_failed_attempts(NOW, is_final=False)

    assert [comeback.is_awaited(NOW + passed) for passed in (0.0, GRACE_S - 0.001, GRACE_S)] == [True, True, False]


def test_after_a_final_failure_nobody_waits(comeback):
    lose(comeback, has_answered=True)

    comeback.note_failed_attempts(NOW, is_final=True)

    assert not comeback.is_awaited(NOW)
    assert not comeback.is_known_good(NOW)


def test_calls_wait_for_a_lost_server_only_where_its_pause_is_short(comeback):
    awaited = []
    for _ in range(5):
        lose(comeback)
        awaited.append((comeback.wait_s(NOW), comeback.is_awaited(NOW)))

    assert awaited == [(0.0, True), (1.0, True), (2.0, True), (4.0, True), (8.0, False)]
    assert comeback.is_awaited(NOW + 8.0 - PAUSE_WAITED_S)
    assert not comeback.is_awaited(NOW + 8.0 - PAUSE_WAITED_S - 0.001)


def test_a_new_connection_has_answered_nothing_yet(comeback):
    comeback.has_answered = True

    comeback.note_connected()

    assert comeback.has_answered is False


def test_forgiven_failures_are_forgotten(comeback):
    for _ in range(3):
        comeback.note_failed_attempts(NOW, is_final=False)

    comeback.forgive()

    assert comeback.wait_s(NOW) == 0.0
    comeback.note_failed_attempts(NOW, is_final=False)
    assert comeback.wait_s(NOW) == BACKOFF_FIRST_S


def test_what_is_over_is_over_at_any_time_of_the_clock(comeback):
    """A clock may only just have begun."""
    comeback.has_answered = True
    comeback.note_loss(0.0, 0.0)
    after_loss = comeback.wait_s(0.0)
    comeback.note_failed_attempts(0.0, is_final=True)
    is_good = comeback.is_known_good(0.0)
    comeback.forgive()

    assert (after_loss, is_good, comeback.wait_s(0.0)) == (0.0, False, 0.0)
