"""Moving windows: exact, whatever the times; bounded, whoever comes."""

from hypothesis import given
from hypothesis import strategies as st

from toolcrib.calls.gate import MovingWindow, RateWindows, use_all
from toolcrib.core.limits import Rate

GAPS = st.lists(st.integers(0, 40).map(lambda tenths: tenths / 8), max_size=120)
RATES = st.builds(Rate, st.integers(1, 6), st.integers(1, 24).map(lambda tenths: tenths / 8))


def ask(window: MovingWindow, now: float) -> bool:
    """One use, if it is within the rate."""
    return use_all([window], now) is None


@given(RATES, GAPS)
def test_a_window_decides_like_somebody_who_looks_at_every_use_there_ever_was(rate, gaps):
    """A use is let through exactly if fewer than ``count`` lie within the window before it."""
    window, granted, now = MovingWindow(rate), [], 0.0
    for gap in gaps:
        now += gap
        recent = [use for use in granted if now < use + rate.window_s]
        allowed = len(recent) < rate.count

        assert ask(window, now) is allowed
        if allowed:
            granted.append(now)

    for start in granted:
        assert sum(start <= use < start + rate.window_s for use in granted) <= rate.count


@given(RATES, GAPS)
def test_the_wait_that_is_told_is_exact(rate, gaps):
    """After it there is a place; a moment earlier there is none."""
    window, now = MovingWindow(rate), 0.0
    for gap in gaps:
        now += gap
        wait_s = window.wait_s(now)
        assert window.wait_s(now + wait_s) == 0.0
        if wait_s:
            assert window.wait_s(now + wait_s - 1 / 16) > 0.0
        now += wait_s
        window.use(now)


def test_the_edge_of_a_window_gives_nothing_away():
    """Ten at the end of one second and ten at the start of the next are twenty in one second: half are refused."""
    window = MovingWindow(Rate(10, 1.0))

    first = sum(ask(window, 0.99) for _ in range(10))
    second = sum(ask(window, 1.01) for _ in range(10))

    assert (first, second, ask(window, 1.98), ask(window, 1.99)) == (10, 0, False, True)


@given(RATES, RATES, GAPS)
def test_a_rate_that_changes_goes_on_with_what_was_counted(old, new, gaps):
    """As far as the old rate had to remember it."""
    window, granted, now = MovingWindow(old), [], 0.0
    for gap in gaps:
        now += gap
        if ask(window, now):
            granted.append(now)

    window.change(new)

    known = granted[-old.count :]
    full = sum(now < use + new.window_s for use in known) >= new.count
    assert (window.wait_s(now) > 0) is full


@given(st.lists(RATES, max_size=4), GAPS)
def test_of_several_windows_all_are_used_or_none(rates, gaps):
    """A use that one of them refuses costs nothing with the others; the longest wait is the one that counts."""
    windows, alone, now = [MovingWindow(rate) for rate in rates], [MovingWindow(rate) for rate in rates], 0.0
    for gap in gaps:
        now += gap
        waits = [window.wait_s(now) for window in alone]

        full = use_all(windows, now)

        assert (full is None) is not any(waits)
        if full is None:
            for window in alone:
                window.use(now)
        else:
            assert full.wait_s(now) == max(waits)
        assert [window.wait_s(now) for window in windows] == [window.wait_s(now) for window in alone]


def test_idle_windows_make_room_for_others():
    """However many callers come by, only those that still count are remembered."""
    windows = RateWindows(Rate(2, 1.0), keys_max=3)
    for number in range(100):
        now = number / 2
        windows.of(f"caller {number}", now).use(now)

        assert len(windows) <= 3


def test_a_caller_for_whom_there_is_no_room_is_told_when_there_will_be():
    """Nobody who still counts is forgotten for a newcomer."""
    windows = RateWindows(Rate(2, 1.0), keys_max=2)
    windows.of("a", 0.0).use(0.0)
    windows.of("b", 0.25).use(0.25)

    assert windows.of("c", 0.5) is None
    assert windows.room_in_s(0.5) == 0.5
    windows.of("c", 1.0).use(1.0)
    assert (windows.of("a", 1.0), windows.room_in_s(1.0)) == (None, 0.25)


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 8).map(lambda eighths: eighths / 8))))
def test_a_full_table_never_grants_more_than_the_rate(uses):
    """Room is made only where it costs no exactness."""
    windows, granted, now = RateWindows(Rate(2, 1.0), keys_max=3), [], 0.0
    for key, gap in uses:
        now += gap
        window = windows.of(key, now)
        if window is not None and ask(window, now):
            granted.append((key, now))

    assert len(windows) <= 3
    for key, start in granted:
        assert sum(other == key and start <= use < start + 1.0 for other, use in granted) <= 2


def test_a_use_that_is_taken_back_makes_room():
    """One that is not there any more changes nothing."""
    window = MovingWindow(Rate(2, 10.0))
    for now in (1.0, 2.0):
        window.use(now)

    full = window.wait_s(3.0)
    window.take_back(5.0)
    still_full = window.wait_s(3.0)
    window.take_back(1.0)

    assert (full, still_full, window.wait_s(3.0)) == (8.0, 8.0, 0.0)


def test_a_window_that_nothing_was_counted_in_makes_room_at_once():
    """Somebody who was refused for another reason keeps nobody out."""
    windows = RateWindows(Rate(1, 60.0), keys_max=1)
    windows.of("refused", 0.0)

    assert windows.room_in_s(0.0) == 0.0
    assert windows.of("next", 0.0) is not None
