"""The gate: never more inside than there are places, nobody starved, no place lost."""

import asyncio
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.calls.gate import Gate
from toolcrib.core.access import Caller
from toolcrib.core.errors import RateLimited
from toolcrib.core.requests import Request
from toolcrib.testing import ManualClock


def call(caller: str = "a", name: str = "slow") -> Request:
    return Request(name, name, {}, caller=Caller(caller))


class Visits:
    """Calls that go in, stay until they are told to leave, and are noted in the order they got in."""

    def __init__(self, places: int, queue_max: int = 1000) -> None:
        self.clock = ManualClock(100.0)
        self.gate = Gate("server 'x'", places, queue_max, self.clock)
        self.inside: list[str] = []
        self.entered: list[str] = []
        self.numbers: list[int] = []
        self.most = 0
        self._numbers = itertools.count()
        self._leave: dict[str, asyncio.Event] = {}

    def start(self, caller: str) -> "asyncio.Task[None]":
        """A call that tries to get in."""
        return asyncio.create_task(self._visit(caller, f"{caller}{next(self._numbers)}"))

    async def _visit(self, caller: str, name: str) -> None:
        gate = self.gate
        if gate.busy < gate.places:
            gate.busy += 1
        else:
            await gate.wait(call(caller, name))
        try:
            self.inside.append(name)
            self.entered.append(caller)
            self.numbers.append(int(name.removeprefix(caller)))
            self.most = max(self.most, len(self.inside))
            self._leave[name] = asyncio.Event()
            await self._leave[name].wait()
        finally:
            self.inside.remove(name)
            gate.busy -= 1
            if gate.waiting:
                gate.admit()

    def send_out(self) -> None:
        """Tell the one that is longest inside to leave."""
        for name in self.inside:
            if not self._leave[name].is_set():
                self._leave[name].set()
                return


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def empty(visits: Visits) -> None:
    """Send everybody out, until nobody is left."""
    while visits.inside:
        visits.send_out()
        await settle()


async def test_who_finds_a_free_place_does_not_wait():
    """As many at once as there are places; the next one waits."""
    visits = Visits(3)
    tasks = [visits.start("a") for _ in range(4)]
    await settle()

    assert (len(visits.inside), visits.gate.busy, visits.gate.waiting) == (3, 3, 1)
    await empty(visits)
    assert (visits.most, visits.gate.busy, visits.gate.waiting) == (3, 0, 0)
    await asyncio.gather(*tasks)


async def test_callers_take_turns_and_within_one_the_first_comes_first():
    """One call of somebody else is not behind five hundred."""
    visits = Visits(1)
    tasks = [visits.start("busy") for _ in range(500)]
    await settle()
    tasks += [visits.start("quiet"), visits.start("third"), visits.start("quiet")]
    await settle()

    for _ in range(6):
        visits.send_out()
        await settle()

    assert visits.entered == ["busy", "busy", "quiet", "third", "busy", "quiet", "busy"]
    await empty(visits)
    assert visits.entered[7:] == ["busy"] * 496
    assert [number for number in visits.numbers if number < 500] == list(range(500))
    await asyncio.gather(*tasks)


async def test_nobody_walks_past_the_queue():
    """A place that becomes free belongs to who waits, even if somebody new comes in the same moment."""
    visits = Visits(1)
    tasks = [visits.start("a"), visits.start("b")]
    await settle()

    visits.send_out()
    await asyncio.sleep(0)
    tasks.append(visits.start("c"))
    await settle()
    await empty(visits)

    assert visits.entered == ["a", "b", "c"]
    await asyncio.gather(*tasks)


async def test_a_place_given_in_the_moment_of_a_cancellation_goes_to_the_next():
    """The future is set, the task not yet woken, and then it is cancelled."""
    visits = Visits(1)
    first, second, third = visits.start("a"), visits.start("b"), visits.start("c")
    await settle()

    visits.gate.resize(2)
    given = visits.gate.busy, visits.gate.waiting
    second.cancel()
    await settle()

    assert (given, second.cancelled(), visits.entered) == ((2, 1), True, ["a", "c"])
    assert (visits.gate.busy, visits.gate.waiting) == (2, 0)
    await empty(visits)
    await asyncio.gather(first, third)


async def test_one_who_is_being_cancelled_is_not_given_a_place():
    """The other order: cancelled, not yet woken, and then a place becomes free."""
    visits = Visits(1)
    first, second, third = visits.start("a"), visits.start("b"), visits.start("c")
    await settle()

    second.cancel()
    visits.gate.resize(2)
    await settle()

    assert (second.cancelled(), visits.entered, visits.gate.busy) == (True, ["a", "c"], 2)
    await empty(visits)
    await asyncio.gather(first, third)


async def test_a_wait_that_is_dropped_with_its_coroutine_leaves_the_queue():
    """A loop that is torn down closes coroutines without cancelling them."""
    gate = Gate("server 'x'", 0, 10, ManualClock())
    waiting = gate.wait(call())
    waiting.send(None)

    waiting.close()

    assert (gate.waiting, gate.busy) == (0, 0)


async def test_more_places_let_waiting_calls_in_and_fewer_wait_until_enough_have_left():
    """A new configuration holds at once, without ending anybody."""
    visits = Visits(2)
    tasks = [visits.start("a") for _ in range(6)]
    await settle()

    visits.gate.resize(4)
    await settle()
    grown = len(visits.inside)
    visits.gate.resize(1)
    sizes = []
    while visits.inside:
        visits.send_out()
        await settle()
        sizes.append(len(visits.inside))

    assert (grown, sizes) == (4, [3, 2, 1, 1, 1, 0])
    await asyncio.gather(*tasks)


async def test_a_full_queue_refuses_and_says_when_to_try_again():
    """In words, and as a number."""
    visits = Visits(1, queue_max=2)
    tasks = [visits.start("a") for _ in range(3)]
    await settle()

    with pytest.raises(RateLimited) as refused:
        await visits.gate.wait(call())

    assert str(refused.value) == (
        "slow was refused: server 'x' has 1 calls under way and 2 waiting, which is all it may have. Try again in 2 s."
    )
    assert refused.value.details == {"limit": "parallel", "retry_after_s": 2.0}
    await empty(visits)
    await asyncio.gather(*tasks)


async def test_the_time_to_try_again_follows_the_pace_of_the_queue():
    """Ten seconds a call and five in line: not before that, and never more than a minute."""
    visits = Visits(1, queue_max=5)
    tasks = [visits.start("a") for _ in range(30)]
    await settle()
    for _ in range(20):
        visits.clock.advance(10.0)
        visits.send_out()
        tasks.append(visits.start("a"))
        await settle()

    with pytest.raises(RateLimited) as refused:
        visits.gate.check_room(call())

    assert 40.0 < refused.value.details["retry_after_s"] <= 60.0
    await empty(visits)
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_queue_filled_by_one_caller_has_room_for_another():
    """The newest call of whoever has most in it is turned away instead."""
    visits = Visits(1, queue_max=3)
    busy = [visits.start("busy") for _ in range(4)]
    await settle()
    visits.gate.check_room(call("quiet"))
    quiet = visits.start("quiet")
    await settle()

    assert [task.done() for task in busy] == [False, False, False, True]
    with pytest.raises(RateLimited, match=r"busy3 was refused: .* Try again in 3 s\."):
        await busy[3]
    await empty(visits)
    assert visits.entered == ["busy", "busy", "quiet", "busy"]
    await asyncio.gather(quiet, *busy[:3])


async def test_who_has_as_many_in_the_queue_as_anybody_displaces_nobody():
    """Otherwise two callers would push each other out for ever."""
    visits = Visits(1, queue_max=2)
    tasks = [visits.start("a"), visits.start("a"), visits.start("b")]
    await settle()

    with pytest.raises(RateLimited):
        visits.gate.check_room(call("b"))
    with pytest.raises(RateLimited):
        visits.gate.check_room(call("c"))
    await empty(visits)
    await asyncio.gather(*tasks)


class Watched:
    """What somebody who looks on is told of a call."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def begin(self, step: str) -> None:
        self.told.append(f"{step} begins")

    def end(self, step: str) -> None:
        self.told.append(f"{step} ends")


async def test_a_call_knows_what_it_waits_for_and_how_long_it_did():
    """For the words of its deadline, for whoever judges the server, and for whoever looks on."""
    visits = Visits(1)
    first, waiting = visits.start("a"), call("b")
    waiting.context.live = watched = Watched()
    await settle()
    task = asyncio.create_task(visits.gate.wait(waiting))
    await settle()
    during, told = waiting.context.waits_for, list(watched.told)
    visits.clock.advance(3.0)
    visits.send_out()
    await task

    assert (during, waiting.context.waits_for, waiting.context.waited_s) == (
        "never ran: server 'x' had no place for it",
        "",
        3.0,
    )
    assert (told, watched.told) == (["queue begins"], ["queue begins", "queue ends"])
    await first


STEPS = st.one_of(
    st.tuples(st.just("come"), st.sampled_from("abc")),
    st.tuples(st.just("leave"), st.none()),
    st.tuples(st.just("cancel"), st.integers(0, 30)),
    st.tuples(st.just("resize"), st.integers(1, 4)),
    st.tuples(st.just("tick"), st.integers(1, 3)),
)


@given(st.integers(1, 3), st.integers(0, 5), st.lists(STEPS, max_size=60))
def test_no_order_of_coming_leaving_and_cancelling_loses_a_place(places, queue_max, steps):
    """Whatever happens between two turns of the loop: nobody too many inside, and in the end every place is free."""
    asyncio.run(_play(Visits(places, queue_max), steps))


async def _play(visits: Visits, steps) -> None:
    gate, tasks, allowed = visits.gate, [], visits.gate.places
    for step, argument in steps:
        if step == "come":
            tasks.append(visits.start(argument))
        elif step == "leave":
            visits.send_out()
        elif step == "cancel" and tasks:
            tasks[argument % len(tasks)].cancel()
        elif step == "resize":
            allowed = max(allowed, argument)
            gate.resize(argument)
        elif step == "tick":
            for _ in range(argument):
                await asyncio.sleep(0)
        assert len(visits.inside) <= gate.busy <= allowed
        assert gate.waiting == sum(len(line) for line in gate._lines.values()) <= visits.gate._queue_max
        assert not gate.waiting or gate.busy >= gate.places
    await settle()
    await empty(visits)
    ended = await asyncio.gather(*tasks, return_exceptions=True)

    assert (gate.busy, gate.waiting, dict(gate._lines)) == (0, 0, {})
    assert {type(end) for end in ended} <= {type(None), RateLimited, asyncio.CancelledError}


async def test_a_gate_without_a_queue_has_room_while_a_place_is_free():
    visits = Visits(1, queue_max=0)
    visits.gate.check_room(call())
    inside = visits.start("a")
    await settle()

    with pytest.raises(RateLimited):
        visits.gate.check_room(call())
    await empty(visits)
    await inside


async def test_time_in_which_nobody_waited_says_nothing_of_the_pace():
    visits = Visits(1, queue_max=1)
    first = visits.start("a")
    await settle()
    visits.clock.advance(500.0)
    second = visits.start("a")
    await settle()
    visits.clock.advance(2.0)
    visits.send_out()
    await settle()
    third = visits.start("a")
    await settle()

    with pytest.raises(RateLimited) as refused:
        visits.gate.check_room(call())

    assert refused.value.details["retry_after_s"] == 1.0
    await empty(visits)
    await asyncio.gather(first, second, third)


async def test_one_who_gives_up_leaves_the_rest_of_their_line_in_the_queue():
    """Their other call is let in, and so is everybody else."""
    visits = Visits(1)
    tasks = [visits.start(caller) for caller in "xaab"]
    await settle()
    tasks[1].cancel()
    await settle()
    waiting = visits.gate.waiting
    await empty(visits)
    await asyncio.gather(*tasks, return_exceptions=True)

    assert (waiting, visits.entered, visits.gate.waiting, visits.gate.busy) == (2, ["x", "a", "b"], 0, 0)


async def test_who_is_turned_away_from_the_queue_leaves_no_place_behind():
    """They had none."""
    visits = Visits(1, queue_max=3)
    tasks = [visits.start("busy") for _ in range(4)]
    await settle()
    tasks.append(visits.start("quiet"))
    await settle()

    assert (visits.gate.busy, len(visits.inside), visits.gate.waiting) == (1, 1, 3)
    await empty(visits)
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_the_pace_of_the_queue_comes_nearer_to_what_it_was_lately():
    """By a fifth each time: at ten seconds a call 2.0, 3.6, then 4.88; five wait that long each."""
    visits = Visits(1, queue_max=5)
    tasks = [visits.start("a") for _ in range(6)]
    await settle()
    told = []
    for _ in range(3):
        visits.clock.advance(10.0)
        visits.send_out()
        await settle()
        tasks.append(visits.start("a"))
        await settle()
        with pytest.raises(RateLimited) as refused:
            visits.gate.check_room(call())
        told.append(refused.value.details["retry_after_s"])
    await empty(visits)
    await asyncio.gather(*tasks, return_exceptions=True)

    assert told == [10.0, 18.0, 24.5]
