"""The coordination of members of one process: what other engines promise, at its simplest."""

import asyncio

import pytest
from tests.doubles.coordination import MemoryHub
from tests.doubles.replicas import so

from toolcrib.core.coordination import Claim
from toolcrib.core.errors import CoordinationUnavailable
from toolcrib.core.limits import Rate
from toolcrib.testing import ManualClock


async def test_uses_of_all_members_count_together_in_every_window():
    clock = ManualClock(100.0)
    hub = MemoryHub(clock)
    one, two, claim = hub.join("one"), hub.join("two"), Claim("tool", Rate(2, 10.0))
    taken = [await one.use([claim]), await two.use([claim])]
    clock.advance(4)
    full = await one.use([claim])
    clock.advance(6)

    assert (taken, full.wait_s, await two.use([claim])) == ([None, None], 6.0, None)


async def test_of_several_claims_all_are_counted_or_none():
    hub = MemoryHub()
    one, narrow, wide = hub.join("one"), Claim("narrow", Rate(1, 60.0)), Claim("wide", Rate(2, 60.0))
    await one.use([narrow])

    assert (await one.use([wide, narrow])).claim == narrow
    assert [await one.use([wide]), await one.use([wide])] == [None, None]


async def test_places_are_given_back_by_those_who_leave_and_those_who_die():
    hub = MemoryHub()
    one, two = hub.join("one"), hub.join("two")
    ticket = await one.take_place("gate", 2)
    await one.take_place("gate", 2)
    full = await two.take_place("gate", 2)
    waiting = asyncio.create_task(two.on_free("gate", 60))
    await asyncio.sleep(0)
    one.give_back("gate", ticket)
    await waiting
    first = await two.take_place("gate", 2)
    one.die()

    assert (full, bool(first), bool(await two.take_place("gate", 2))) == (None, True, True)


async def test_one_leads_until_it_lets_go_or_its_time_is_over():
    clock = ManualClock(100.0)
    hub = MemoryHub(clock)
    one, two = hub.join("one"), hub.join("two")
    lease = await one.lead("work", 10)
    refused = await two.lead("work", 10)
    await lease.release()
    second = await two.lead("work", 10)
    clock.advance(11)
    third = await one.lead("work", 10)
    await second.release()

    assert (refused, third is not None, await two.lead("work", 10)) == (None, True, None)


async def test_others_hear_what_is_published_and_those_cut_off_hear_of_a_gap():
    hub = MemoryHub()
    one, two, three = hub.join("one"), hub.join("two"), hub.join("three")
    heard: dict[str, list[bytes]] = {"one": [], "two": [], "three": []}
    gaps: list[str] = []
    for name, member in (("one", one), ("two", two), ("three", three)):
        await member.subscribe("news", heard[name].append, lambda name=name: gaps.append(name))
    three.cut()
    await one.publish("news", b"x")
    await so(lambda: heard["two"])
    with pytest.raises(CoordinationUnavailable):
        await three.publish("news", b"y")
    problem = three.status().problem
    three.mend()

    assert (heard, gaps) == ({"one": [], "two": [b"x"], "three": []}, ["three"])
    assert (problem, three.status().problem) == ("it does not answer", "")


async def test_values_are_kept_for_all_for_their_time():
    clock = ManualClock(100.0)
    hub = MemoryHub(clock)
    one, two = hub.join("one"), hub.join("two")
    await one.put("a", b"1", 10)
    await one.put("b", b"2", 10)
    kept = await two.get("a")
    await two.forget("a")
    clock.advance(11)

    assert (kept, await one.get("a"), await two.get("b")) == (b"1", None, None)
