"""Start: a limit holds at the moment a call runs, however long the call waited since it was let in."""

import asyncio
from collections.abc import Callable

import pytest

from toolcrib.calls.layers.audit import witness
from toolcrib.calls.layers.breaker import Breakers
from toolcrib.calls.layers.fleet_limit import fleet_limit
from toolcrib.calls.layers.limit import FRESH_S, WAIT_MAX_S, limit, pause, start
from toolcrib.calls.pipeline import Layer, Step, Subject, compose
from toolcrib.core.access import Caller
from toolcrib.core.audit import AuditEntry
from toolcrib.core.coordination import Claim, Full
from toolcrib.core.errors import RateLimited
from toolcrib.core.limits import USUAL, CommonLimits, Rate, ToolLimits
from toolcrib.core.offers import Tool
from toolcrib.core.requests import Request, Result
from toolcrib.testing import ManualClock, MemoryAudit

DONE = Result({"content": []})
A_SECOND = ToolLimits(rate=Rate(20, 1.0))


class HeldLog(MemoryAudit):
    """An audit log that takes nothing before it is told to, as one whose database is away."""

    def __init__(self) -> None:
        super().__init__()
        self.back = asyncio.Event()
        self.waiting = 0

    async def commit(self, entry: AuditEntry) -> None:
        self.waiting += 1
        await self.back.wait()
        await super().commit(entry)


class CountingFleet:
    """What the limit layer needs of other replicas: one window, counted by the same clock."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock, self._uses = clock, list[float]()

    async def use(self, claims: tuple[Claim, ...]) -> Full | None:
        now, (claim,) = self._clock(), claims
        self._uses = [at for at in self._uses if at > now - claim.rate.window_s]
        if len(self._uses) >= claim.rate.count:
            return Full(claim, self._uses[0] + claim.rate.window_s - now)
        self._uses.append(now)
        return None


class Bench:
    """Limits, the audit log, and the moment of running, with a clock in hand."""

    def __init__(self, limits: ToolLimits = A_SECOND, common: CommonLimits = USUAL, *, fleet: bool = False) -> None:
        self.clock, self.log = ManualClock(100.0), HeldLog()
        self.ran: list[float] = []
        self.sleepers: list[tuple[float, asyncio.Event]] = []
        breakers = Breakers(self.clock)
        first: Layer = (
            fleet_limit(common, breakers, CountingFleet(self.clock), self.sleep)
            if fleet
            else limit(common, breakers, self.sleep)
        )
        subject = Subject("db__write", "db", Tool("write", limits=limits))
        self.step: Step = compose([first, witness(self.log), start(common, self.clock)], subject, self.run)

    async def run(self, _: Request) -> Result:
        self.ran.append(self.clock())
        return DONE

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.Event()
        self.sleepers.append((self.clock() + seconds, woken))
        await woken.wait()

    async def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        for due, woken in self.sleepers:
            if due <= self.clock():
                woken.set()
        self.sleepers = [(due, woken) for due, woken in self.sleepers if not woken.is_set()]
        await settled()

    def call(self, caller: str = "a") -> "asyncio.Future[Result]":
        async def made() -> Result:
            return await self.step(Request("db__write", "write", {}, caller=Caller(caller)))

        return asyncio.ensure_future(made())


async def settled() -> None:
    """Let everything run that can without time passing."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.parametrize("fleet", [False, True], ids=["one process", "replicas"])
async def test_calls_that_waited_for_the_audit_log_run_no_faster_than_their_limit(fleet):
    """Forty of a tool with twenty a second, let in over two seconds while the log was away."""
    bench = Bench(fleet=fleet)
    calls = [bench.call() for _ in range(20)]
    await settled()
    await bench.advance(1.0)
    calls += [bench.call() for _ in range(20)]
    await settled()
    await bench.advance(1.0)
    let_in = bench.log.waiting

    bench.log.back.set()
    await settled()
    at_once = len(bench.ran)
    await bench.advance(1.0)
    await bench.advance(1.0)
    await asyncio.gather(*calls)

    assert (let_in, at_once, len(bench.ran)) == (40, 20, 40)
    assert all(sum(at <= other < at + 1.0 for other in bench.ran) <= 20 for at in bench.ran)


async def test_a_call_that_runs_at_once_is_counted_once():
    """Nothing is taken back and nothing counted anew: the limit is used up exactly."""
    bench = Bench()
    bench.log.back.set()

    outcomes = await asyncio.gather(*(bench.call() for _ in range(21)), return_exceptions=True)

    assert len(bench.ran) == 20
    assert [type(outcome) for outcome in outcomes if isinstance(outcome, Exception)] == [RateLimited]


async def test_a_call_that_was_held_up_is_not_charged_twice():
    """What was counted when it was let in is taken back: it did not run then."""
    bench = Bench(limits=ToolLimits(rate=Rate(2, 60.0)), common=CommonLimits(caller_rate=Rate(2, 60.0)))
    held = bench.call()
    await settled()
    await bench.advance(2 * FRESH_S)
    bench.log.back.set()
    await held
    second, third = await asyncio.gather(bench.call(), bench.call(), return_exceptions=True)

    assert second is DONE
    assert isinstance(third, RateLimited)


async def test_a_call_whose_limit_has_no_room_for_long_is_refused_after_all():
    """With the time to try again; it keeps no place until then."""
    bench = Bench(limits=ToolLimits(rate=Rate(1, 60.0)))
    held = bench.call()
    await settled()
    await bench.advance(61.0)
    other = bench.call()
    await settled()
    bench.log.back.set()
    await other
    with pytest.raises(RateLimited) as refused:
        await held

    assert refused.value.details["retry_after_s"] > WAIT_MAX_S


def test_tools_without_a_rate_are_not_held_up():
    """There is no layer for them."""

    async def run(_: Request) -> Result:
        return DONE

    clock: Callable[[], float] = ManualClock()

    assert start(USUAL, clock)(Subject("db__write", "db", Tool("write")), run) is run


async def test_a_call_that_no_limit_let_in_needs_no_new_count():
    """However long it waited: there is nobody to ask."""
    clock = ManualClock(100.0)

    async def run(_: Request) -> Result:
        return DONE

    step = start(USUAL, clock)(Subject("db__write", "db", Tool("write", limits=A_SECOND)), run)

    assert await step(Request("db__write", "write", {})) is DONE


@pytest.mark.parametrize(("waited_s", "renewed"), [(FRESH_S, 0), (FRESH_S * 1.01, 1)])
async def test_a_call_is_renewed_from_the_moment_it_is_not_fresh_any_more(waited_s, renewed):
    clock, asked = ManualClock(0.0), list[Request]()

    async def run(_: Request) -> Result:
        return DONE

    async def renew(call: Request) -> None:
        asked.append(call)

    call = Request("db__write", "write", {})
    call.context.renew, call.context.admitted_at = renew, 0.0
    clock.advance(waited_s)
    await start(USUAL, clock)(Subject("db__write", "db", Tool("write", limits=A_SECOND)), run)(call)

    assert len(asked) == renewed


@pytest.mark.parametrize("wait_s", [WAIT_MAX_S, WAIT_MAX_S + 0.1])
async def test_a_call_waits_for_room_as_long_as_it_may_and_says_for_what(wait_s):
    call, seen = Request("db__write", "write", {}), list[tuple[float, str]]()
    refused = RateLimited("no room", details={"retry_after_s": wait_s})
    call.context.waited_s = 1.0

    async def sleep(seconds: float) -> None:
        seen.append((seconds, call.context.waits_for))

    if wait_s > WAIT_MAX_S:
        with pytest.raises(RateLimited):
            await pause(call.context, refused, sleep)
        assert (seen, call.context.waited_s) == ([], 1.0)
    else:
        await pause(call.context, refused, sleep)
        assert seen == [(WAIT_MAX_S, "never ran: its limits had no room for it")]
        assert (call.context.waits_for, call.context.waited_s) == ("", 1.0 + WAIT_MAX_S)


@pytest.mark.parametrize(
    ("limits", "common", "has_layer"),
    [
        (ToolLimits(), USUAL, False),
        (ToolLimits(rate=Rate(1, 1.0)), USUAL, True),
        (ToolLimits(server_rate=Rate(1, 1.0)), USUAL, True),
        (ToolLimits(), CommonLimits(caller_rate=Rate(1, 1.0)), True),
    ],
)
def test_whatever_is_counted_is_counted_anew(limits, common, has_layer):
    """A rate of the tool, of its server, or of its callers; without one there is nothing to do."""

    async def run(_: Request) -> Result:
        return DONE

    step = start(common, ManualClock())(Subject("db__write", "db", Tool("write", limits=limits)), run)

    assert (step is not run) is has_layer


async def test_how_fresh_a_call_is_counts_from_when_it_was_let_in():
    """Whatever the clock said then."""
    clock, asked = ManualClock(100.0), list[Request]()

    async def run(_: Request) -> Result:
        return DONE

    async def renew(call: Request) -> None:
        asked.append(call)

    call = Request("db__write", "write", {})
    call.context.renew, call.context.admitted_at = renew, 100.0
    await start(USUAL, clock)(Subject("db__write", "db", Tool("write", limits=A_SECOND)), run)(call)

    assert asked == []
