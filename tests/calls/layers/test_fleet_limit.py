"""Fleet limit: rates and places of servers hold over all replicas; refusals are those of one process."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.fleet.engines import a_redis
from tests.stores.coordination.members import Members, quick, redis_members, until

from toolcrib.calls.gate import Gate
from toolcrib.calls.layers.breaker import Breakers
from toolcrib.calls.layers.fleet_limit import PASS_ON_S, FleetAdmission, FleetBook, _rated, fleet_limit
from toolcrib.calls.pipeline import Step, Subject
from toolcrib.core.access import Caller
from toolcrib.core.coordination import Claim, Coordination, Full
from toolcrib.core.errors import CoordinationUnavailable, RateLimited, SourceUnavailable
from toolcrib.core.limits import UNLIMITED, USUAL, CommonLimits, Rate, ToolLimits
from toolcrib.core.offers import Tool
from toolcrib.core.requests import Request, Result
from toolcrib.stores.redis.engine import RedisSettings, open_redis_coordination
from toolcrib.testing import ManualClock

DONE = Result({"content": []})


@pytest.fixture
async def members(redis) -> AsyncIterator[Members]:
    made = await redis_members(redis)
    yield made
    await made.close()


class Slow:
    """A tool of all replicas that works until it is released; knows how many run at once."""

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


async def do(_: Request) -> Result:
    return DONE


class Replica:
    """The limit layer of one replica."""

    def __init__(self, fleet: Coordination, common: CommonLimits = USUAL) -> None:
        self.clock = ManualClock()
        self.breakers = Breakers(self.clock)
        self.layer = fleet_limit(common, self.breakers, fleet)

    def step(self, limits: ToolLimits = UNLIMITED, following: Step = do, server: str = "files") -> Step:
        return self.layer(Subject(f"{server}__read", server, Tool("read", limits=limits)), following)


def call(caller: str = "a") -> Request:
    return Request("files__read", "read", {}, caller=Caller(caller))


async def refused(step: Step, caller: str = "a") -> RateLimited | None:
    try:
        await step(call(caller))
    except RateLimited as error:
        return error
    return None


async def running(slow: Slow, number: int) -> None:
    async def so_many() -> bool:
        return slow.running == number

    await until(so_many)


async def test_a_rate_is_used_up_by_all_replicas_together_and_refused_in_the_usual_words(members):
    one, other = [Replica(member) for member in await members.several(2)]
    limits = ToolLimits(rate=Rate(3, 60.0), server_rate=Rate(100, 60.0))
    steps = [one.step(limits), other.step(limits)]

    outcomes = [await refused(steps[n % 2]) for n in range(4)]

    assert outcomes[:3] == [None, None, None]
    error = outcomes[3]
    assert str(error).startswith("files__read was refused: this tool has used up its 3 calls per 1m. Try again in ")
    assert error.details["limit"] == "tool"
    assert 50 < error.details["retry_after_s"] <= 60


async def test_callers_and_servers_count_over_all_replicas_too(members):
    two = await members.several(2)
    one, other = [Replica(member, CommonLimits(caller_rate=Rate(2, 60.0))) for member in two]
    limits = ToolLimits(server_rate=Rate(3, 60.0))

    outcomes = [
        await refused(replica.step(limits), caller)
        for replica, caller in [(one, "a"), (other, "a"), (one, "a"), (other, "b"), (one, "b")]
    ]

    assert [outcome and outcome.details["limit"] for outcome in outcomes] == [None, None, "caller", None, "server"]


async def test_the_places_of_a_server_are_those_of_all_replicas(members):
    limits, slow = ToolLimits(parallel=3), Slow()
    steps = [Replica(member).step(limits, slow) for member in await members.several(2)]
    calls = [asyncio.create_task(steps[n % 2](call())) for n in range(10)]
    await running(slow, 3)
    slow.released.set()

    async with asyncio.timeout(150):
        results = await asyncio.gather(*calls)

    assert results == [DONE] * 10
    assert slow.most == 3


async def test_within_a_replica_a_place_goes_to_the_callers_in_turn(members):
    """A caller with many calls does not push the others back."""
    [member] = await members.several(1)
    slow = Slow()
    step = Replica(member).step(ToolLimits(parallel=1), slow)
    calls = [asyncio.create_task(step(call("greedy")))]
    await running(slow, 1)
    calls += [asyncio.create_task(step(call("greedy"))) for _ in range(5)]
    await asyncio.sleep(0)
    calls += [asyncio.create_task(step(call("modest")))]
    slow.released.set()

    async with asyncio.timeout(150):
        await asyncio.gather(*calls)

    assert "modest" in slow.callers[:4]


async def test_a_replica_with_a_long_queue_lets_the_others_have_their_turn(members):
    """A place goes from hand to hand here only for a while."""
    two = await members.several(2)
    busy, other = Replica(two[0]), Replica(two[1])
    served = list[str]()

    async def work(made: Request) -> Result:
        served.append(made.caller.id)
        busy.clock.advance(PASS_ON_S)
        return DONE

    calls = [asyncio.create_task(busy.step(ToolLimits(parallel=1), work)(call("busy"))) for _ in range(200)]

    async def has_begun() -> bool:
        return len(served) > 2

    await until(has_begun)
    await other.step(ToolLimits(parallel=1), work)(call("other"))
    await asyncio.gather(*calls)

    assert served.index("other") < 100


async def test_a_call_that_is_cancelled_while_it_waits_leaves_its_place_to_others(members):
    limits, slow = ToolLimits(parallel=1), Slow()
    one, other = [Replica(member).step(limits, slow) for member in await members.several(2)]
    first = asyncio.create_task(one(call()))
    await running(slow, 1)
    waiting = [asyncio.create_task(one(call())) for _ in range(3)]
    await asyncio.sleep(0.05)
    for each in waiting:
        each.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    slow.released.set()
    await first

    async with asyncio.timeout(150):
        assert await other(call()) is DONE
        assert await one(call()) is DONE


async def test_a_full_queue_refuses_in_the_usual_words(members):
    [member] = await members.several(1)
    slow = Slow()
    step = Replica(member, CommonLimits(queue=1)).step(ToolLimits(parallel=1), slow)
    first = asyncio.create_task(step(call()))
    await running(slow, 1)
    others = [asyncio.create_task(step(call())) for _ in range(2)]
    done, waiting = await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)
    slow.released.set()
    await asyncio.gather(first, *waiting)
    error = done.pop().exception()

    assert isinstance(error, RateLimited)
    assert "server 'files' has 1 calls under way and 1 waiting" in str(error)
    assert error.details["limit"] == "parallel"


async def test_nobody_takes_a_place_for_a_server_that_is_left_alone(members):
    [member] = await members.several(1)
    replica = Replica(member)
    for _ in range(5):
        replica.breakers.of("files").fail("it hangs.", 0.0)

    with pytest.raises(SourceUnavailable, match="is left alone"):
        await replica.step(ToolLimits(parallel=1))(call())


async def test_what_nothing_is_said_of_and_native_tools_need_nobody_else():
    """Away from the fleet, unlimited calls go on; limited ones are told to come back."""
    with a_redis() as engine:
        fleet = await open_redis_coordination(RedisSettings(engine.url(), timeout_s=4.0), quick())
        engine.stop()
        replica = Replica(fleet)

        unlimited = [await replica.step()(call()), await replica.step(server="")(call())]
        with pytest.raises(CoordinationUnavailable) as rate:
            await replica.step(ToolLimits(rate=Rate(1, 1.0)))(call())
        with pytest.raises(CoordinationUnavailable) as place:
            await replica.step(ToolLimits(parallel=1))(call())
        await fleet.close()

    assert unlimited == [DONE, DONE]
    assert [error.value.code for error in (rate, place)] == ["TOOL_UNAVAILABLE"] * 2
    assert rate.value.retryable
    assert rate.value.details["retry_after_s"] == 1.0


async def test_those_who_wait_for_a_place_are_told_when_the_engine_goes_away():
    with a_redis() as engine:
        fleet = await open_redis_coordination(RedisSettings(engine.url(), timeout_s=4.0), quick())
        slow = Slow()
        step = Replica(fleet).step(ToolLimits(parallel=1), slow)
        first = asyncio.create_task(step(call()))
        await running(slow, 1)
        second = asyncio.create_task(step(call()))
        await asyncio.sleep(0.05)
        engine.stop()

        async with asyncio.timeout(150):
            with pytest.raises(CoordinationUnavailable):
                await second
        slow.released.set()

        assert await first is DONE
        await fleet.close()


class TwoFull:
    """A fleet that has no room at first, then some."""

    def __init__(self, refusals: int) -> None:
        self.refusals, self.asked = refusals, 0

    async def use(self, claims: tuple[Claim, ...]) -> Full | None:
        self.asked += 1
        return Full(claims[0], 0.5) if self.asked <= self.refusals else None


@pytest.mark.parametrize(("waited_s", "asked"), [(0.05, 0), (0.06, 3)])
async def test_a_call_let_in_too_long_ago_is_counted_anew_as_soon_as_there_is_room(waited_s, asked):
    """It waits as long as the refusal says, and asks again."""
    clock, fleet, slept = ManualClock(0.0), TwoFull(2), list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    admission = FleetAdmission("files", fleet, lambda _: (Claim("tool read", Rate(1, 1.0)),), clock, sleep)
    made = call()
    made.context.admitted_at = 0.0
    clock.advance(waited_s)

    await admission.renew(made)

    assert (fleet.asked, slept) == (asked, [0.5, 0.5] if asked else [])
    assert made.context.admitted_at == (clock() if asked else 0.0)


async def test_a_call_beyond_a_servers_rate_is_told_whose_it_is():
    claims = (Claim("server files", Rate(2, 1.0)),)
    admission = FleetAdmission("files", TwoFull(1), lambda _: claims, ManualClock(), asyncio.sleep)

    with pytest.raises(RateLimited, match="server 'files' has used up its 2 calls per 1s") as refused:
        await admission.admit(call())

    assert refused.value.details == {"limit": "server", "rate": "2/1s", "retry_after_s": 0.5}


async def test_what_was_let_in_is_run_and_its_result_handed_on():
    fleet = TwoFull(0)
    layer = fleet_limit(USUAL, Breakers(ManualClock()), fleet)
    step = layer(Subject("files__read", "files", Tool("read", limits=ToolLimits(rate=Rate(1, 1.0)))), do)

    assert (await step(made := call()), fleet.asked, made.context.renew is not None) == (DONE, 1, True)


async def test_a_call_for_which_there_is_no_room_uses_up_no_rate():
    """It is refused before anybody counts it."""
    fleet, gate = TwoFull(0), Gate("server 'files'", 0, 0, ManualClock())
    admission = FleetAdmission("files", fleet, lambda _: (), ManualClock(), asyncio.sleep)

    with pytest.raises(RateLimited):
        await _rated(gate, admission, do)(call())

    assert fleet.asked == 0


async def test_the_latest_word_on_the_places_of_a_server_counts():
    book = FleetBook(USUAL, Breakers(ManualClock()), TwoFull(0))
    tools = [Tool(name, limits=ToolLimits(parallel=places)) for name, places in (("read", 1), ("write", 3))]

    first, second = (book.placed(Subject(f"files__{tool.name}", "files", tool), do)[0] for tool in tools)

    assert first is second
    assert first.most == 3
