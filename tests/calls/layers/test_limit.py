"""Limit: what is beyond a rate is refused, what is beyond the places waits its turn, and everybody is told when."""

import asyncio
from dataclasses import replace

import msgspec
import pytest

from toolcrib.calls.gate import Gate, MovingWindow, RateWindows
from toolcrib.calls.layers.breaker import Breakers
from toolcrib.calls.layers.deadline import deadline
from toolcrib.calls.layers.limit import Admission, current_stay, holds_place, limit, native
from toolcrib.calls.pipeline import Step, Subject
from toolcrib.config.model import Config, ServerConfig, ToolConfig
from toolcrib.core.access import EVERYTHING, Caller
from toolcrib.core.errors import CallTimeout, RateLimited, SourceUnavailable
from toolcrib.core.limits import UNLIMITED, USUAL, CommonLimits, Rate, ToolLimits
from toolcrib.core.offers import Tool
from toolcrib.core.requests import Request, Result
from toolcrib.testing import FakeSource, ManualClock, memory_crib

DONE = Result({"content": []})


async def do(_: Request) -> Result:
    return DONE


class Bench:
    """One limit layer with a clock in hand; every call is made of a tool with limits of its own."""

    def __init__(self, common: CommonLimits = USUAL) -> None:
        self.clock = ManualClock()
        self.breakers = Breakers(self.clock)
        self.layer = limit(common, self.breakers)

    def step(
        self, name: str = "read", server: str = "files", limits: ToolLimits = UNLIMITED, following: Step = do
    ) -> Step:
        return self.layer(Subject(f"{server}__{name}", server, Tool(name, limits=limits)), following)

    async def refused(self, step: Step, caller: str = "a") -> RateLimited | None:
        """Why a call is refused; ``None`` if it is not."""
        try:
            await step(Request("files__read", "read", {}, caller=Caller(caller)))
        except RateLimited as error:
            return error
        return None


async def test_a_tool_is_called_as_often_as_it_may_and_then_refused_until_it_may_again():
    """The refusal says whose limit it is, and when."""
    bench = Bench()
    step = bench.step(limits=ToolLimits(rate=Rate(3, 60.0)))
    granted = [await bench.refused(step) for _ in range(3)]
    bench.clock.advance(17.25)

    error = await bench.refused(step)

    assert granted == [None, None, None]
    assert str(error) == "files__read was refused: this tool has used up its 3 calls per 1m. Try again in 42.8 s."
    assert error.details == {"limit": "tool", "rate": "3/1m", "retry_after_s": 42.8}
    assert (error.code, error.retryable) == ("TOOL_RATE_LIMITED", True)
    bench.clock.advance(42.8)
    assert await bench.refused(step) is None


async def test_all_tools_of_a_server_count_together():
    """And those of another server do not."""
    bench = Bench()
    limits = ToolLimits(server_rate=Rate(2, 1.0))
    read, write = bench.step("read", limits=limits), bench.step("write", limits=limits)
    other = bench.step("read", server="other", limits=limits)

    outcomes = [await bench.refused(step) for step in (read, write, other, read, other)]

    assert [outcome and outcome.details["limit"] for outcome in outcomes] == [None, None, None, "server", None]
    assert str(outcomes[3]).startswith("files__read was refused: server 'files' has used up its 2 calls per 1s.")


async def test_each_caller_has_its_own_count_over_all_tools():
    """Native ones included."""
    bench = Bench(CommonLimits(caller_rate=Rate(2, 1.0)))
    read, native = bench.step("read"), bench.step("add", server="")

    outcomes = [
        await bench.refused(step, caller) for step, caller in [(read, "a"), (native, "a"), (read, "a"), (read, "b")]
    ]

    assert [outcome and outcome.details["limit"] for outcome in outcomes] == [None, None, "caller", None]
    assert str(outcomes[2]).startswith("files__read was refused: caller 'a' has used up its 2 calls per 1s.")


async def test_a_call_that_one_limit_refuses_is_not_counted_by_the_others():
    """Nobody pays for what was not done."""
    bench = Bench(CommonLimits(caller_rate=Rate(3, 10.0)))
    rare, free = bench.step("rare", limits=ToolLimits(rate=Rate(1, 5.0))), bench.step("free")
    await bench.refused(rare)

    refusals = [await bench.refused(rare) for _ in range(10)]
    outcomes = [await bench.refused(free) for _ in range(3)]

    assert {refusal.details["limit"] for refusal in refusals} == {"tool"}
    assert [outcome and outcome.details["limit"] for outcome in outcomes] == [None, None, "caller"]


async def test_new_limits_hold_at_once_and_what_was_counted_stays_counted():
    """Layers are composed anew when a definition changes; the counts are not theirs."""
    bench = Bench()
    step = bench.step(limits=ToolLimits(rate=Rate(2, 60.0), server_rate=Rate(3, 60.0)))
    await bench.refused(step)
    await bench.refused(step)

    wider = bench.step(limits=ToolLimits(rate=Rate(5, 60.0), server_rate=Rate(3, 60.0)))
    outcomes = [await bench.refused(wider) for _ in range(2)]

    assert [outcome and outcome.details["limit"] for outcome in outcomes] == [None, "server"]
    unlimited = bench.step()
    assert [await bench.refused(unlimited) for _ in range(20)] == [None] * 20


class Slow:
    """A tool that works until it is released; knows how many run at once."""

    def __init__(self) -> None:
        self.released = asyncio.Event()
        self.running = self.most = 0
        self.callers: list[str] = []

    async def __call__(self, call: Request) -> Result:
        self.running += 1
        self.most = max(self.most, self.running)
        self.callers.append(call.caller.id)
        try:
            await self.released.wait()
        finally:
            self.running -= 1
        return DONE


def call(caller: str = "a") -> Request:
    return Request("files__read", "read", {}, caller=Caller(caller))


async def test_a_refusal_for_want_of_room_costs_no_rate():
    """The queue is looked at first."""
    bench, slow = Bench(CommonLimits(parallel=1, queue=0)), Slow()
    step = bench.step(limits=ToolLimits(rate=Rate(2, 60.0)), following=slow)
    first = asyncio.create_task(step(call()))
    await asyncio.sleep(0)

    refusals = [await bench.refused(step) for _ in range(5)]
    slow.released.set()
    await first

    assert {refusal.details["limit"] for refusal in refusals} == {"parallel"}
    assert await bench.refused(step) is None


async def test_waiting_for_a_place_counts_against_the_deadline_and_says_so():
    """A call that never ran is not told to ask for less."""
    bench, slow = Bench(CommonLimits(parallel=1)), Slow()
    subject = Subject("files__read", "files", Tool("read"))
    step = deadline(60.0)(subject, bench.layer(subject, slow))
    first = asyncio.create_task(step(call()))
    await asyncio.sleep(0)

    hurried = msgspec.structs.replace(call(), timeout_s=0.001)
    with pytest.raises(CallTimeout) as late:
        await step(hurried)

    assert str(late.value) == (
        "files__read never ran: server 'files' had no place for it within 0.001 s. Try again in 0.1 s."
    )
    assert late.value.details == {"timeout_s": 0.001, "retry_after_s": 0.1}
    slow.released.set()
    await first
    assert await step(call()) is DONE
    assert slow.most == 1


async def test_nobody_waits_for_a_server_that_is_left_alone():
    """With all places taken by calls that hang, the breaker's word comes at once."""
    bench, slow = Bench(CommonLimits(parallel=1)), Slow()
    step = bench.step(following=slow)
    first = asyncio.create_task(step(call()))
    await asyncio.sleep(0)
    for _ in range(5):
        bench.breakers.of("files").fail("it hangs.", bench.clock())

    with pytest.raises(SourceUnavailable, match="'files' failed 5 times in a row and is left alone; last: it hangs"):
        await step(call())

    slow.released.set()
    await first


async def test_a_native_tool_that_calls_another_needs_no_second_place():
    """Otherwise those that hold all places would wait for each other for ever."""
    bench = Bench(CommonLimits(parallel=2, queue=100))
    inner = bench.step("inner", server="")
    everybody = asyncio.Barrier(2)

    async def outer_work(made: Request) -> Result:
        await everybody.wait()
        return await inner(made)

    outer = bench.step("outer", server="", following=outer_work)
    results = await asyncio.gather(*(outer(call()) for _ in range(6)))

    assert results == [DONE] * 6


async def test_what_a_native_tool_leaves_running_holds_no_place():
    """A task that outlives its call waits like anybody."""
    bench, slow = Bench(CommonLimits(parallel=1)), Slow()
    hold = bench.step("slow", server="", following=slow)
    left: list[asyncio.Task[Result]] = []
    go = asyncio.Event()

    async def later() -> Result:
        await go.wait()
        return await hold(call("left behind"))

    async def leaves_a_task(_: Request) -> Result:
        left.append(asyncio.create_task(later()))
        return DONE

    await bench.step("leaver", server="", following=leaves_a_task)(call())
    first = asyncio.create_task(hold(call("first")))
    await asyncio.sleep(0)
    go.set()
    for _ in range(5):
        await asyncio.sleep(0)

    assert slow.callers == ["first"]
    slow.released.set()
    await asyncio.gather(first, *left)
    assert slow.most == 1


# Through a whole Crib


async def slow_crib_calls(count: int, config: Config | None = None) -> tuple[Slow, list[Result]]:
    files, slow = FakeSource("files", ["read"]), Slow()
    files.answers["read"] = slow
    async with memory_crib(files, config=config) as made:
        await made.crib.current()
        tasks = [asyncio.create_task(made.crib.call("files__read")) for _ in range(count)]
        for _ in range(10):
            await asyncio.sleep(0)
        slow.released.set()
        return slow, await asyncio.gather(*tasks)


@pytest.mark.parametrize(("count", "most"), [(50, 50), (200, 50)])
async def test_fifty_calls_run_at_once_and_two_hundred_all_succeed(count, most):
    """By default, on one slow server; never more than fifty reach it together."""
    slow, results = await slow_crib_calls(count)

    assert (slow.most, [result.success for result in results]) == (most, [True] * count)


async def test_places_rates_and_queue_come_from_the_configuration():
    """A server's own number goes before the one for all."""
    server = ServerConfig("files", command="files", parallel=2)
    config = Config({"files": server}, limits=CommonLimits(parallel=7, queue=3))

    slow, results = await slow_crib_calls(10, config)

    assert slow.most == 2
    assert [result.success for result in results] == [True] * 5 + [False] * 5
    assert {result.error.code for result in results[5:]} == {"TOOL_RATE_LIMITED"}
    assert all(result.error.details["retry_after_s"] >= 0.1 for result in results[5:])
    assert all("Try again in " in result.text for result in results[5:])


async def test_one_call_is_not_starved_by_five_hundred_of_somebody_else():
    """It is among the next to get a place."""
    files, order = FakeSource("files", ["read"]), []
    turn = asyncio.Semaphore(0)

    async def answer(made: Request) -> str:
        await turn.acquire()
        order.append(made.caller.id)
        return "done"

    files.answers["read"] = answer
    async with memory_crib(files, config=Config(limits=CommonLimits(parallel=5))) as made:
        await made.crib.current()
        busy = [
            asyncio.create_task(made.crib.call("files__read", caller=Caller("busy", grants=EVERYTHING)))
            for _ in range(505)
        ]
        await asyncio.sleep(0)
        quiet = asyncio.create_task(made.crib.call("files__read", caller=Caller("quiet", grants=EVERYTHING)))
        await asyncio.sleep(0)
        for _ in range(506):
            turn.release()
        results = await asyncio.gather(quiet, *busy)

    assert all(result.success for result in results)
    assert order.index("quiet") <= 7


async def test_a_reload_changes_limits_and_forgets_no_counts():
    """The tool's rate stays used up, the server's places grow while calls are under way."""
    files, slow = FakeSource("files", ["read", "rare"]), Slow()
    files.answers["read"] = slow
    tools = {"rare": ToolConfig(rate=Rate(1, 3600.0))}
    before = ServerConfig("files", command="files", parallel=1, tools=tools)
    async with memory_crib(files, config=Config({"files": before})) as made:
        crib = made.crib
        await crib.current()
        rare = [await crib.call("files__rare") for _ in range(2)]
        tasks = [asyncio.create_task(crib.call("files__read")) for _ in range(3)]
        await asyncio.sleep(0)
        running = slow.running
        await crib.servers.apply({"files": replace(before, parallel=3, rate=Rate(100, 1.0))})
        rare.append(await crib.call("files__rare"))
        for _ in range(5):
            await asyncio.sleep(0)
        grown = slow.running
        slow.released.set()
        await asyncio.gather(*tasks)
        closed = files.closed

    assert [result.success for result in rare] == [True, False, False]
    assert rare[2].error.details["limit"] == "tool"
    assert (running, grown, closed) == (1, 3, False)


async def test_a_native_tools_place_is_no_place_on_the_server_it_calls():
    """A full server refuses it like anybody, before its rate is touched."""
    bench, slow = Bench(CommonLimits(parallel=1, queue=0)), Slow()
    step = bench.step(limits=ToolLimits(rate=Rate(2, 60.0)), following=slow)
    outer = bench.step("outer", server="", following=step)
    first = asyncio.create_task(step(call()))
    await asyncio.sleep(0)

    refused = await bench.refused(outer)
    slow.released.set()
    await first

    assert refused.details["limit"] == "parallel"
    assert await bench.refused(step) is None


async def test_a_native_tool_keeps_its_place_after_it_has_called_one_behind_another_gate():
    """A Crib can be a source of another: its native tools have places of their own."""
    inner, outer = (Gate(name, 1, 0, ManualClock()) for name in ("inner", "outer"))
    call = Request("a", "a", {})
    beside, again = native(inner, do), native(outer, do)

    async def work(call: Request) -> Result:
        await beside(call)
        assert [holds_place(current_stay(), gate) for gate in (inner, outer)] == [False, True]
        return await again(call)

    assert await native(outer, work)(call) is DONE
    assert (inner.busy, outer.busy, current_stay()) == (0, 0, None)


async def test_a_caller_too_many_is_refused_until_another_is_forgotten():
    """The memory of callers is bounded, and those in use are not forgotten."""
    clock = ManualClock(10.0)
    admission = Admission("files", {}, RateWindows(Rate(5, 60.0), keys_max=1), clock, asyncio.sleep)
    first, second = (Request("files__read", "read", {}, caller=Caller(name)) for name in "ab")
    admission.admit(first)
    clock.advance(20.0)

    with pytest.raises(
        RateLimited, match=r"^files__read was refused: too many callers at once\. Try again in 40 s\.$"
    ) as no:
        admission.admit(second)
    clock.advance(40.0)
    admission.admit(second)

    assert no.value.details == {"limit": "callers", "retry_after_s": 40.0}
    assert second.context.admitted_at == 70.0


@pytest.mark.parametrize(("waited_s", "admitted_at"), [(0.0, 0.0), (0.05, 0.0), (0.051, 0.051)])
async def test_a_call_is_counted_anew_only_if_it_was_let_in_too_long_ago(waited_s, admitted_at):
    clock = ManualClock(0.0)
    window = MovingWindow(Rate(1, 60.0))
    admission = Admission("files", {window: "tool"}, None, clock, asyncio.sleep)
    call = Request("files__read", "read", {})
    admission.admit(call)
    clock.advance(waited_s)

    await admission.renew(call)

    assert call.context.admitted_at == pytest.approx(admitted_at)
    assert window.wait_s(clock()) == pytest.approx(admitted_at + 60.0 - clock())


async def test_a_rate_that_is_taken_away_and_given_again_begins_anew():
    bench, slowly = Bench(), ToolLimits(rate=Rate(1, 60.0))
    await bench.refused(bench.step(limits=slowly))
    bench.step()

    assert await bench.refused(bench.step(limits=slowly)) is None
