"""Deadline: late calls are cancelled and say so; cancellation from outside stays what it is."""

import asyncio
import importlib

import pytest

from toolcrib.calls.layers.deadline import Alarm, Alarms, deadline
from toolcrib.calls.pipeline import Step, Subject
from toolcrib.core.errors import CallTimeout, ToolFailed
from toolcrib.core.offers import Tool
from toolcrib.core.requests import Request, RequestContext, Result

TINY_S = 0.001
SLOW = Subject("slow", "", Tool("slow"))


@pytest.fixture(autouse=True, params=["own timer", "shared timer"])
def timers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Short deadlines have a timer of their own, long ones share one; the same holds for both."""
    if request.param == "shared timer":
        module = importlib.import_module("toolcrib.calls.layers.deadline")
        monkeypatch.setattr(module, "PRECISE_BELOW_S", 0.0)
        monkeypatch.setattr(module, "SWEEP_S", TINY_S)


class Slow:
    """A tool that works until it is released, and notes how it ended."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.released = asyncio.Event()
        self.was_cancelled = False

    async def __call__(self, call: Request) -> Result:
        self.started.set()
        try:
            await self.released.wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        return Result({"content": []})


def with_deadline(following: Step, default_s: float = 60.0, tool_s: float | None = None) -> Step:
    return deadline(default_s)(Subject("slow", "", Tool("slow", timeout_s=tool_s)), following)


def call(timeout_s: float | None = None) -> Request:
    return Request("slow", "slow", {}, timeout_s=timeout_s)


async def test_a_call_in_time_is_left_alone():
    """The result is the tool's own, and no cancellation is left behind."""
    slow = Slow()
    slow.released.set()

    result = await with_deadline(slow)(call())

    assert result.mcp == {"content": []}
    assert asyncio.current_task().cancelling() == 0


async def test_a_call_that_takes_too_long_is_cancelled_and_says_so():
    """The work ends, and the error names the tool and the limit."""
    slow = Slow()

    with pytest.raises(CallTimeout) as late:
        await with_deadline(slow, TINY_S)(call())

    assert slow.was_cancelled
    assert str(late.value) == (
        "slow did not finish within 0.001 s and was cancelled. Ask for less at once, or raise the timeout."
    )
    assert late.value.details == {"timeout_s": TINY_S}
    assert asyncio.current_task().cancelling() == 0


@pytest.mark.parametrize(
    ("default_s", "tool_s", "call_s"), [(TINY_S, None, None), (60.0, TINY_S, None), (60.0, 60.0, TINY_S)]
)
async def test_the_callers_limit_counts_first_then_the_tools_then_the_default(default_s, tool_s, call_s):
    """The nearest one decides."""
    with pytest.raises(CallTimeout):
        await with_deadline(Slow(), default_s, tool_s)(call(call_s))


async def test_cancellation_from_outside_is_raised_as_it_is():
    """Somebody who cancels a call is not told of a timeout."""
    slow = Slow()
    task = asyncio.create_task(with_deadline(slow)(call()))
    await slow.started.wait()

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert slow.was_cancelled


async def test_cancellation_from_outside_wins_over_a_deadline_at_the_same_moment():
    """When both come before the work ends, the caller's own wish is honoured."""
    both = asyncio.Event()

    async def stubborn(_: Request) -> Result:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            both.set()
            await asyncio.Event().wait()
        raise AssertionError

    task = asyncio.create_task(with_deadline(stubborn, TINY_S)(call()))
    await both.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("outcome", [Result({"content": []}), ToolFailed("gave up")])
async def test_a_tool_that_swallows_the_cancellation_leaves_none_behind(outcome):
    """Its result or error counts, and the next deadline of the same task works as ever."""

    async def swallowing(_: Request) -> Result:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if isinstance(outcome, Exception):
                raise outcome from None
        return outcome

    try:
        ended: object = await with_deadline(swallowing, TINY_S)(call())
    except ToolFailed as error:
        ended = error

    assert ended is outcome
    assert asyncio.current_task().cancelling() == 0
    with pytest.raises(CallTimeout):
        await with_deadline(Slow(), TINY_S)(call())


async def test_a_deadline_works_in_a_task_that_is_already_being_cancelled():
    """Cleaning up after a cancellation may call tools too; only the deadline's own is taken back."""

    async def clean_up() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            with pytest.raises(CallTimeout):
                await with_deadline(Slow(), TINY_S)(call())
            return f"cleaned up, cancelled {asyncio.current_task().cancelling()} time"
        raise AssertionError

    task = asyncio.create_task(clean_up())
    await asyncio.sleep(0)
    task.cancel()

    assert await task == "cleaned up, cancelled 1 time"


async def test_many_deadlines_of_one_layer_each_end_their_own_call():
    """Late ones are cancelled, the others finish."""
    late, patient = [Slow() for _ in range(5)], [Slow() for _ in range(5)]
    layer = deadline(60.0)

    def run(slow: Slow, timeout_s: float) -> "asyncio.Task[Result]":
        return asyncio.ensure_future(layer(Subject("slow", "", Tool("slow")), slow)(call(timeout_s)))

    tasks = [*(run(slow, TINY_S) for slow in late), *(run(slow, 60.0) for slow in patient)]
    await asyncio.wait(tasks[:5])
    for slow in patient:
        slow.released.set()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(outcome) for outcome in outcomes] == [CallTimeout] * 5 + [Result] * 5
    assert [slow.was_cancelled for slow in late + patient] == [True] * 5 + [False] * 5


async def test_a_finished_calls_deadline_passes_without_cancelling_whoever_made_the_call():
    """The task goes on to other work; what it did before cannot be late any more."""
    slow, loop, passed = Slow(), asyncio.get_running_loop(), asyncio.Event()
    slow.released.set()
    await with_deadline(slow, TINY_S)(call())
    loop.call_later(3 * TINY_S, passed.set)  # timers fire in the order of their times: the deadline's came before

    await passed.wait()

    assert asyncio.current_task().cancelling() == 0


async def test_a_deadline_is_kept_however_often_it_was_looked_at_before():
    with pytest.raises(CallTimeout):
        await with_deadline(Slow(), 20 * TINY_S)(call())


class Timers:
    """What of an event loop the shared timer uses, with a clock that stands still."""

    def __init__(self, now: float) -> None:
        self.now, self.asked = now, list[float]()

    def time(self) -> float:
        return self.now

    def call_later(self, delay_s: float, *_: object) -> None:
        self.asked.append(delay_s)


async def late_task(alarms: Alarms) -> tuple[Alarm, "asyncio.Task[object]"]:
    """A task with a long deadline that does not end when it is cancelled."""
    ready: asyncio.Future[Alarm] = asyncio.get_running_loop().create_future()

    async def work() -> None:
        ready.set_result(alarms.set(60.0, call().context))
        for _ in range(2):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue

    task = asyncio.ensure_future(work())
    return await ready, task


async def test_a_long_deadline_rings_once_and_from_its_very_moment_on():
    """One look before it rings nothing and looks again; one after it does not ring a second time."""
    alarms = Alarms()
    alarm, task = await late_task(alarms)
    seen = []
    for now in (alarm.due - TINY_S, alarm.due, alarm.due + 1.0):
        timers = Timers(now)
        alarms._sweep(timers)
        await asyncio.sleep(0)
        seen.append((task.cancelling(), len(timers.asked)))
    task.cancel()
    await task

    assert seen == [(0, 1), (1, 0), (1, 0)]


async def test_long_deadlines_share_one_timer(monkeypatch):
    timers = Timers(0.0)
    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", timers.call_later)
    alarms = Alarms()

    made = [alarms.set(60.0, call().context) for _ in range(3)]

    assert (len(timers.asked), {alarm.timer for alarm in made}) == (1, {None})


async def test_a_call_whose_server_asked_people_is_not_late_before_they_have_answered():
    """Other deadlines pass meanwhile; the time they took does not count."""
    slow, asked = Slow(), call()
    asked.context.asking = 1
    step = with_deadline(slow, TINY_S)
    waiting = asyncio.ensure_future(step(asked))
    await slow.started.wait()
    for _ in range(3):
        with pytest.raises(CallTimeout):
            await with_deadline(Slow(), TINY_S)(call())
    was_cancelled = slow.was_cancelled
    asked.context.asking, asked.context.asked_s = 0, 60.0
    slow.released.set()

    assert (await waiting).mcp == {"content": []}
    assert not was_cancelled


async def test_a_call_is_late_when_its_own_time_is_over_after_people_have_answered():
    """They do not buy it more than what they took."""
    slow, asked = Slow(), call()
    asked.context.asked_s = TINY_S

    with pytest.raises(CallTimeout):
        await with_deadline(slow, TINY_S)(asked)

    assert slow.was_cancelled


async def test_a_call_whose_caller_asks_for_its_result_later_goes_on():
    """Beyond the usual limit, for as long as it was told it may."""
    slow, later = Slow(), call()
    later.context.may_last_until = asyncio.get_running_loop().time() + 60
    running = asyncio.ensure_future(with_deadline(slow, TINY_S)(later))
    await slow.started.wait()
    for _ in range(3):
        with pytest.raises(CallTimeout):
            await with_deadline(Slow(), TINY_S)(call())
    slow.released.set()

    assert (await running).mcp == {"content": []}


@pytest.mark.parametrize(("tool_s", "caller_s"), [(TINY_S, None), (None, TINY_S)])
async def test_a_limit_that_somebody_set_holds_whether_its_caller_waits_or_not(tool_s, caller_s):
    """For the tool, or for this very call."""
    slow, later = Slow(), call(caller_s)
    later.context.may_last_until = asyncio.get_running_loop().time() + 60

    with pytest.raises(CallTimeout):
        await with_deadline(slow, tool_s=tool_s)(later)


async def test_a_call_that_tells_how_far_it_is_goes_on_unless_its_caller_set_the_limit():
    """Each word of it counts as a new beginning."""

    async def run(caller_s: float | None) -> bool:
        slow, loop = Slow(), asyncio.get_running_loop()
        made = call(caller_s)
        made.context.progressed_at = loop.time() + 60.0
        running = asyncio.ensure_future(deadline(TINY_S, 3600.0)(SLOW, slow)(made))
        loop.call_later(50 * TINY_S, slow.released.set)
        try:
            return (await running).success
        except CallTimeout:
            return False

    assert [await run(None), await run(TINY_S)] == [True, False]


@pytest.mark.parametrize(
    ("progressed_at", "now", "is_put_off"),
    [(0.0, 40.0, False), (15.0, 40.0, True), (15.0, 46.0, False), (95.0, 109.0, True), (95.0, 111.0, False)],
)
async def test_it_ends_when_it_tells_nothing_more_and_at_the_latest_when_all_its_time_is_over(
    progressed_at, now, is_put_off
):
    """It began at 10, may be silent for 30 and take 100 in all."""
    alarm = Alarm(asyncio.current_task(), RequestContext(progressed_at=progressed_at), 0, 40.0)
    alarm.patience = 30.0, 100.0

    assert alarm.is_put_off(now) is is_put_off


async def test_a_call_that_told_how_far_it_was_and_is_late_says_so():
    made = call()
    made.context.progressed_at = 0.001

    with pytest.raises(CallTimeout, match="told how far it was"):
        await deadline(TINY_S, 3600.0)(SLOW, Slow())(made)


async def test_who_set_a_limit_of_their_own_hears_of_that_limit_however_far_the_call_was():
    """Progress puts off the usual limit only."""

    async def work(asked: Request) -> Result:
        asked.context.progressed_at = 1.0
        await asyncio.Event().wait()
        raise AssertionError

    with pytest.raises(CallTimeout, match=r"did not finish within 0\.001 s"):
        await with_deadline(work)(call(TINY_S))


async def test_each_wait_for_people_puts_a_deadline_off_by_just_as_long():
    """Once, however often it is looked at."""
    context = RequestContext()
    alarm = Alarm(asyncio.current_task(), context, 0, due=10.0)
    context.asked_s = 5.0

    assert [alarm.is_put_off(14.9), alarm.is_put_off(15.0)] == [True, False]
    context.asked_s = 7.0
    assert [alarm.is_put_off(16.9), alarm.is_put_off(17.0)] == [True, False]
