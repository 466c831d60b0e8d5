"""The breaker as a machine: what it does with failures, successes and time."""

from hypothesis import given
from hypothesis import strategies as st

from toolcrib.calls.layers.breaker import FAILURES_MAX, Breaker, Breakers
from toolcrib.testing import ManualClock


def opened(now: float = 0.0) -> Breaker:
    breaker = Breaker()
    for _ in range(FAILURES_MAX):
        breaker.fail("gone.", now)
    return breaker


def test_the_fifth_failure_in_a_row_opens_it():
    """Not the fourth, and not five with a success among them."""
    breaker = Breaker()

    four = [breaker.fail("gone.", 0.0) for _ in range(4)]
    breaker.succeed()
    five = [breaker.fail("gone.", 0.0) for _ in range(5)]

    assert four + five == [False] * 8 + [True]
    assert breaker.standing(0.0) == ("open", 1.0)


def test_after_the_pause_one_call_is_let_through_and_no_other_meanwhile():
    """Half-open: somebody has to try."""
    breaker = opened()

    assert (breaker.begin_try(0.9), breaker.state(0.9)) == (False, "open")
    assert (breaker.state(1.0), breaker.wait_s(1.0)) == ("half-open", 0.0)
    assert (breaker.begin_try(1.0), breaker.begin_try(1.0)) == (True, False)
    assert (breaker.state(50.0), breaker.wait_s(50.0)) == ("half-open", 1.0)


def test_a_try_that_succeeds_closes_it_and_one_that_says_nothing_leaves_the_next_to_try():
    """The pause begins anew with the next trouble."""
    breaker = opened()
    breaker.begin_try(1.0)
    breaker.end_try()

    assert breaker.begin_try(1.0)
    breaker.succeed()

    assert (breaker.state(1.0), breaker.failures) == ("closed", 0)
    for _ in range(FAILURES_MAX):
        breaker.fail("gone.", 5.0)
    assert breaker.wait_s(5.0) == 1.0


def test_the_pause_doubles_with_every_failed_try_up_to_a_minute():
    """1, 2, 4 … 32, 60, 60."""
    breaker, now, pauses = opened(), 0.0, []
    for _ in range(9):
        pauses.append(breaker.wait_s(now))
        now += breaker.wait_s(now)
        assert breaker.begin_try(now)
        breaker.fail("still gone.", now, was_try=True)

    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]


def test_stragglers_do_not_lengthen_the_pause():
    """Calls that were under way when it opened fail later; that is the same trouble."""
    breaker = opened()

    late = [breaker.fail("gone.", 0.5) for _ in range(20)]

    assert (any(late), breaker.wait_s(0.5)) == (False, 0.5)


def test_a_forgiven_breaker_is_not_opened_by_the_try_that_was_under_way():
    """Its failure counts as the first one."""
    clock = ManualClock(0.0)
    breakers = Breakers(clock)
    breaker = breakers.of("files")
    for _ in range(FAILURES_MAX):
        breaker.fail("gone.", 0.0)
    breaker.begin_try(1.0)

    breakers.forgive("files")
    breakers.forgive("nobody")
    breaker.fail("gone.", 2.0, was_try=True)

    assert (breakers.standing("files"), breaker.failures) == (("closed", 0.0), 1)


EVENTS = st.sampled_from(["fail", "succeed", "call", "lost", "nothing"])


@given(st.lists(st.tuples(EVENTS, st.integers(0, 90))))
def test_whatever_happens_a_call_is_let_through_within_a_minute(events):
    """No order of events shuts a server out for longer, or lets two tries run at once."""
    breaker, now, trying = Breaker(), 0.0, False
    for event, gap in events:
        now += gap / 10
        if event == "call" and not breaker.is_closed:
            begun = breaker.begin_try(now)
            assert not (begun and trying)
            trying = trying or begun
        elif event == "succeed":
            breaker.succeed()
            trying = False
        elif event == "nothing" and trying:
            breaker.end_try()
            trying = False
        elif event in ("fail", "lost"):
            breaker.fail(event, now, was_try=trying and event == "fail")
            trying = trying and event == "lost" and not breaker.is_closed

    assert breaker.wait_s(now) <= 60.0
    assert breaker.is_closed or trying or breaker.begin_try(now + 60.0)
