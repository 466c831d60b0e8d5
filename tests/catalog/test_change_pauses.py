"""Change pauses: a server that says its tools changed is asked soon, one that always says so ever less."""

from toolcrib.catalog.flights import CALM_S, CHANGE_PAUSE_S, LONGEST_S, ChangePauses


def test_who_says_so_all_the_time_is_asked_ever_less():
    """Until half a minute lies between; a server that was calm for a while is asked at once again."""
    pauses, now, waited = ChangePauses(), 0.0, []
    for _ in range(10):
        waited.append(pauses.next_s("files", now))
        now += waited[-1]

    assert waited == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, LONGEST_S, LONGEST_S]
    assert pauses.next_s("other", now) == CHANGE_PAUSE_S
    assert pauses.next_s("files", now + LONGEST_S + CALM_S) == CHANGE_PAUSE_S


def test_a_server_that_is_replaced_begins_anew():
    """The name alone is no reason to ask it less."""
    pauses = ChangePauses()
    pauses.next_s("files", 0.0)
    pauses.forget("files")

    assert pauses.next_s("files", 0.1) == CHANGE_PAUSE_S
