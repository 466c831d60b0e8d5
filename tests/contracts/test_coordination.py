"""What replicas are promised of each other, held against each engine there is."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import pairwise

import pytest
from tests.stores.coordination.members import Hub, Members, postgres_members, quick, redis_members, until

from toolcrib.core.coordination import Claim, CoordinationStatus
from toolcrib.core.limits import Rate
from toolcrib.stores.coordination.coordinator import Coordinator


async def open_members(kind: str, request: pytest.FixtureRequest) -> Members:
    engine = request.getfixturevalue(kind)
    return await (postgres_members(engine) if kind == "postgres" else redis_members(engine))


@pytest.fixture(params=["redis", "valkey", "postgres"])
async def members(request):
    """Over an engine that can lose what it knows, and whose members can be killed."""
    made = await open_members(request.param, request)
    yield made
    await made.close()


@pytest.fixture(params=["memory", "redis", "valkey", "postgres"])
async def anybody(request):
    """What the protocol alone promises holds in one process too."""
    made = Hub() if request.param == "memory" else await open_members(request.param, request)
    yield made
    await made.close()


def most_in_a_window(stamps: list[int], window_us: int) -> int:
    """The most uses in any stretch of that length."""
    ordered, first, most = sorted(stamps), 0, 0
    for last, stamp in enumerate(ordered):
        while ordered[first] + window_us <= stamp:
            first += 1
        most = max(most, last - first + 1)
    return most


async def admitted(member: Coordinator, claim: Claim, stamps: list[int]) -> None:
    """One use, and when it was, if it was."""
    counted = await member.count([claim])
    if counted.full is None:
        stamps.append(counted.at_us)


async def test_uses_of_all_replicas_count_together(anybody: Hub | Members):
    one, other = await anybody.several(2)
    claim = Claim("tool read", Rate(3, 60.0))

    outcomes = [await member.use([claim]) for member in (one, other, one, other, one)]

    assert outcomes[:3] == [None, None, None]
    assert [full.claim for full in outcomes[3:] if full] == [claim, claim]
    assert all(59 < full.wait_s <= 60 for full in outcomes[3:] if full)


async def test_of_many_at_once_as_many_get_through_as_may(anybody: Hub | Members):
    claim = Claim("tool read", Rate(25, 60.0))
    uses = [member.use([claim]) for member in await anybody.several(3) for _ in range(30)]

    outcomes = await asyncio.gather(*uses)

    assert outcomes.count(None) == 25


async def test_all_claims_are_counted_or_none_and_the_longest_wait_is_told(anybody: Hub | Members):
    one, other = await anybody.several(2)
    rare, rarer, often = Claim("a", Rate(1, 30.0)), Claim("b", Rate(1, 60.0)), Claim("c", Rate(2, 60.0))
    await one.use([rare, rarer])

    refusals = [await other.use([often, rare, rarer]) for _ in range(5)]
    after = [await other.use([often]) for _ in range(3)]

    assert {full.claim for full in refusals if full} == {rarer}
    assert [full is None for full in after] == [True, True, False]


async def test_no_stretch_of_the_window_has_more_uses_than_the_rate(members: Members):
    """Whoever asks, and whenever: judged by the engine's own stamps."""
    claim, stamps = Claim("tool read", Rate(7, 0.2)), list[int]()
    three = await members.several(3)

    async def hammer(member: Coordinator) -> None:
        while not stamps or max(stamps) - min(stamps) < 900_000:
            await admitted(member, claim, stamps)
            await asyncio.sleep(random.random() / 100)

    await asyncio.gather(*(hammer(member) for member in three for _ in range(3)))

    assert most_in_a_window(stamps, 200_000) == 7
    assert len(stamps) >= 4 * 7


@pytest.mark.parametrize("seed", range(2))
async def test_no_loss_of_counts_lets_a_limit_be_exceeded(members: Members, seed: int):
    """Short and long windows, places that are held, a replica that is killed, one that joins, and two losses."""
    chance = random.Random(seed)
    short, long = Claim("short", Rate(5, 0.8)), Claim("long", Rate(12, 1.6))
    stamps: dict[Claim, list[int]] = {short: [], long: []}
    living = await members.several(3)
    over = asyncio.Event()

    async def hammer(member: Coordinator, claim: Claim) -> None:
        while not over.is_set() and member in members.all:
            await admitted(member, claim, stamps[claim])
            await asyncio.sleep(chance.random() / 50)

    def more_than(number: int) -> Callable[[], Awaitable[bool]]:
        async def is_more() -> bool:
            return len(stamps[short]) > number

        return is_more

    async def disturb() -> None:
        for _ in range(2):
            await asyncio.sleep(chance.random() / 2)
            await until(more_than(len(stamps[short])))  # lost in the very moment when it counts
            await members.lose()
        joined = await members.join()
        busy.extend(asyncio.create_task(hammer(joined, claim)) for claim in stamps)

    busy = [asyncio.create_task(hammer(member, claim)) for member in living for claim in stamps]
    doomed = await members.join()
    for _ in range(4):
        await admitted(doomed, short, stamps[short])
    await members.kill(doomed)
    await disturb()
    began = {claim: len(found) for claim, found in stamps.items()}

    async def came_back() -> bool:
        return all(len(found) > began[claim] + 3 for claim, found in stamps.items())

    await until(came_back)
    over.set()
    await asyncio.gather(*busy)

    assert most_in_a_window(stamps[short], 800_000) <= 5
    assert most_in_a_window(stamps[long], 1_600_000) <= 12


async def test_after_a_loss_a_refusal_says_when_it_is_over(members: Members):
    one, other = await members.several(2)
    claim = Claim("tool read", Rate(3, 0.8))
    await one.use([claim])
    await members.lose()

    full = await other.use([claim])

    assert full is not None
    assert 0 < full.wait_s <= 0.8
    assert 0 < other.status().settling_s <= 0.8

    async def is_open() -> bool:
        return await other.use([claim]) is None

    await until(is_open)
    assert other.status().settling_s == 0


async def test_places_held_before_a_loss_stay_taken_after_it(members: Members):
    one, other = await members.several(2)
    held = [await one.take_place("server files", 2) for _ in range(2)]
    await members.lose()

    async def has_settled() -> bool:
        refused = await other.take_place("server files", 2)
        assert refused is None
        return await other.use([Claim("probe", Rate(1000, 1.5))]) is None

    await until(has_settled)
    assert await other.take_place("server files", 2) is None
    one.give_back("server files", str(held[0]))

    async def gets_it() -> bool:
        return await other.take_place("server files", 2) is not None

    await until(gets_it)


async def test_a_place_goes_to_one_and_then_to_the_next(anybody: Hub | Members):
    one, other = await anybody.several(2)
    ticket = await one.take_place("server files", 1)
    refused = await other.take_place("server files", 1)
    waiting = asyncio.create_task(other.on_free("server files", 5.0))
    await asyncio.sleep(0)
    one.give_back("server files", str(ticket))

    await waiting

    assert refused is None
    await until(lambda: other.take_place("server files", 1))
    assert await one.take_place("server files", 1) is None


async def test_other_gates_have_places_of_their_own(anybody: Hub | Members):
    one, other = await anybody.several(2)
    await one.take_place("server files", 1)

    assert await other.take_place("server web", 1) is not None


async def test_replicas_take_turns_at_a_gate_they_all_want(members: Members):
    """One that is always there does not keep the others out."""
    three, rounds = await members.several(3), Counter[int]()

    async def want(number: int) -> None:
        member = three[number]
        while sum(rounds.values()) < 60:
            ticket = await member.take_place("server files", 1)
            if ticket is None:
                await member.on_free("server files", 5.0)
                continue
            rounds[number] += 1
            member.give_back("server files", ticket)

    async with asyncio.timeout(150):
        await asyncio.gather(*(want(number) for number in range(3)))

    assert min(rounds.values()) >= 10


async def test_a_replica_that_lives_keeps_its_place_longer_than_the_lease(members: Members):
    one, other = await members.several(2)
    await one.take_place("server files", 1)
    first = (await other.count([Claim("clock", Rate(10_000, 1.0))])).at_us

    async def two_leases_later() -> bool:
        assert await other.take_place("server files", 1) is None
        return (await other.count([Claim("clock", Rate(10_000, 1.0))])).at_us - first > 1_800_000

    await until(two_leases_later)


async def test_a_replica_that_dies_gives_its_places_back(members: Members):
    one, other = await members.several(2)
    for _ in range(3):
        await one.take_place("server files", 3)
    await members.kill(one)

    await until(lambda: other.take_place("server files", 3), deadline_s=150)


async def test_closing_gives_places_back_at_once(members: Members):
    one, other = await members.join(quick(lease_s=600.0)), await members.join()
    await one.take_place("server files", 1)
    members.all.remove(one)
    await one.close()

    assert await other.take_place("server files", 1) is not None


async def test_a_wish_for_a_place_that_is_cancelled_leaves_no_trace(members: Members):
    one, other = await members.join(quick(lease_s=600.0)), await members.join()
    for turns in range(4):
        wish = asyncio.create_task(one.take_place("server files", 1))
        for _ in range(turns):
            await asyncio.sleep(0)
        wish.cancel()
        await asyncio.gather(wish, return_exceptions=True)
        for held in [ticket for ticket in [wish.cancelled() or wish.result()] if isinstance(ticket, str)]:
            one.give_back("server files", held)

    await until(lambda: other.take_place("server files", 1), deadline_s=150)


async def test_whoever_stops_waiting_for_a_place_does_not_hold_up_the_line(members: Members):
    one, impatient, other = await members.join(), await members.join(quick(patience_s=600.0)), await members.join()
    ticket = await one.take_place("server files", 1)
    assert await impatient.take_place("server files", 1) is None
    waiting = asyncio.create_task(impatient.on_free("server files", 5.0))
    await asyncio.sleep(0)
    assert await other.take_place("server files", 1) is None
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    one.give_back("server files", str(ticket))

    await until(lambda: other.take_place("server files", 1), deadline_s=150)


async def test_one_leads_and_the_next_when_it_lets_go(anybody: Hub | Members):
    one, other = await anybody.several(2)
    lease = await one.lead("discovery of files", 30.0)
    refused = await other.lead("discovery of files", 30.0)
    elsewhere = await other.lead("discovery of web", 30.0)
    assert lease is not None
    await lease.release()

    after = await other.lead("discovery of files", 30.0)
    await lease.release()

    assert (refused, elsewhere is None, after is None) == (None, False, False)
    assert await one.lead("discovery of files", 30.0) is None


async def test_a_lease_is_kept_while_its_holder_lives_and_ends_with_it(members: Members):
    one, other = await members.several(2)
    await one.lead("discovery", 0.3)
    first = (await other.count([Claim("clock", Rate(10_000, 1.0))])).at_us

    async def three_times_later() -> bool:
        assert await other.lead("discovery", 0.3) is None
        return (await other.count([Claim("clock", Rate(10_000, 1.0))])).at_us - first > 900_000

    await until(three_times_later)
    await members.kill(one)
    await until(lambda: other.lead("discovery", 0.3), deadline_s=150)


async def test_an_engine_clock_that_is_set_back_keeps_nothing_closed_for_longer_than_its_own_time(members: Members):
    """An hour back: rates, places, turns in a line and leases of replicas that died are free in their usual time."""
    one, waiting, other = await members.several(3)
    claim, rare = Claim("tool read", Rate(2, 0.8)), Claim("tool write", Rate(1, 60.0))
    for use in (claim, claim, rare):
        await one.use([use])
    await one.take_place("server files", 1)
    await waiting.take_place("server files", 1)
    await one.lead("discovery", 0.3)
    for dead in (one, waiting):
        await members.kill(dead)
    await members.set_back()

    still_full = await other.use([rare])

    assert still_full is not None
    assert 0 < still_full.wait_s <= 60
    await until(lambda: _is_none(other.use([claim])), deadline_s=150)
    await until(lambda: other.take_place("server files", 1), deadline_s=150)
    await until(lambda: other.lead("discovery", 0.3), deadline_s=150)


async def test_an_engine_clock_that_is_set_back_after_a_loss_prolongs_no_settling(members: Members):
    one = await members.join()
    claim = Claim("tool read", Rate(3, 0.8))
    await one.use([claim])
    await members.lose()
    await one.use([claim])
    await members.set_back()

    full = await one.use([claim])

    assert full is not None
    assert 0 < full.wait_s <= 0.8
    await until(lambda: _is_none(one.use([claim])), deadline_s=150)


async def _is_none(answer: Awaitable[object]) -> bool:
    return await answer is None


async def test_news_reach_all_others_once_and_in_order(anybody: Hub | Members):
    three = await anybody.several(3)
    heard: list[list[bytes]] = [[], [], []]
    for member, told in zip(three, heard, strict=True):
        await member.subscribe("events", told.append, lambda: None)
        await member.subscribe("else", lambda body: pytest.fail(f"not ours: {body!r}"), lambda: None)
    bodies = [b"", b"\x00\x1f\xff news", b"x" * 100_000, *(str(n).encode() for n in range(20))]

    for body in bodies:
        await three[0].publish("events", body)

    async def all_came() -> bool:
        return heard[1] == heard[2] == bodies

    await until(all_came)
    assert heard[0] == []


async def test_who_does_not_listen_any_more_is_not_told(anybody: Hub | Members):
    one, other = await anybody.several(2)
    first, second = list[bytes](), list[bytes]()
    leave = await other.subscribe("events", first.append, lambda: None)
    await other.subscribe("events", second.append, lambda: None)
    await leave()
    await leave()
    await one.publish("events", b"late")

    async def came() -> bool:
        return second == [b"late"]

    await until(came)
    assert first == []


async def test_a_listener_that_fails_does_not_deafen_the_others(members: Members):
    one, other = await members.several(2)
    reported, heard = list[object](), list[bytes]()
    asyncio.get_running_loop().set_exception_handler(lambda _, told: reported.append(told["exception"]))
    await other.subscribe("events", lambda body: [][len(body)], lambda: None)
    await other.subscribe("events", heard.append, lambda: None)
    await one.publish("events", b"first")
    await one.publish("events", b"second")

    async def both_came() -> bool:
        return heard == [b"first", b"second"]

    await until(both_came)
    assert [type(error) for error in reported] == [IndexError, IndexError]


async def test_values_are_kept_for_all_until_their_time_is_over(anybody: Hub | Members):
    one, other = await anybody.several(2)
    await one.put("short", b"\x00 value", 0.3)
    await one.put("long", b"first", 60.0)
    await one.put("long", b"second", 60.0)
    kept = await other.get("short"), await other.get("long"), await other.get("none")
    await other.forget("long")
    await other.forget("none")

    async def is_over() -> bool:
        return await other.get("short") is None

    await until(is_over)
    assert kept == (b"\x00 value", b"second", None)
    assert await one.get("long") is None


async def test_all_is_well_and_nothing_settles_at_the_first_start(members: Members):
    member = await members.join(quick())

    assert member.status() == CoordinationStatus(members.engine, member.status().replica)
    assert await member.use([Claim("tool read", Rate(1, 60.0))]) is None


async def test_stamps_only_go_forward(members: Members):
    one, other = await members.several(2)
    clock = Claim("clock", Rate(10_000, 1.0))

    stamps = [(await member.count([clock])).at_us for _ in range(10) for member in (one, other)]

    assert all(earlier <= later for earlier, later in pairwise(stamps))
