"""What every place for discovery records promises."""

import asyncio
from dataclasses import replace

import pytest

from toolcrib.config.lock import Pin, Record
from toolcrib.core.kinds import DiscoveryStatus
from toolcrib.stores.lockfile import MemoryRecords

ODD = 'odd \\ "name" 🌍\0'
FULL = Record(
    "files",
    "success",
    ({"name": "read", "description": ODD, "inputSchema": {"type": "object", "z": 1, "a": 2}},),
    "2026-01-02T03:04:05Z",
    error="x",
    config_hash="abc",
    era="2025-06-18",
    ttl_s=60.0,
    problems=("one",),
    pins={"read": Pin("hash", "identity", "2026-01-02T03:04:05Z", {"name": "read", "inputSchema": {}})},
)


@pytest.fixture(params=["memory", "file", "postgres"])
def records(request, ledgers_of):
    return MemoryRecords() if request.param == "memory" else ledgers_of(request.param).open()


async def test_a_record_comes_back_as_it_was_put(records):
    await records.update("files", lambda _: FULL)

    assert await records.read() == {"files": FULL}


async def test_a_change_is_given_what_there_is_and_none_removes_it(records):
    seen = []

    def change(stored):
        seen.append(stored)
        return FULL if stored is None else None

    await records.update("files", change)
    await records.update("files", change)

    assert seen == [None, FULL]
    assert await records.read() == {}


async def test_the_last_that_was_asked_for_is_the_last_that_is_written(records):
    await asyncio.gather(*(records.update("files", lambda _, n=n: replace(FULL, error=str(n))) for n in range(20)))

    assert (await records.read())["files"].error == "19"


async def test_a_change_that_fails_leaves_everything_as_it_was(records):
    await records.update("files", lambda _: FULL)

    def fail(stored):
        raise KeyError(stored.server)

    with pytest.raises(KeyError):
        await records.update("files", fail)

    assert await records.read() == {"files": FULL}


async def test_replicas_see_each_others_records_at_once(ledgers):
    one, other = ledgers.open(), ledgers.open()
    await one.update(ODD, lambda _: replace(FULL, server=ODD))

    assert await other.read() == {ODD: replace(FULL, server=ODD)}
    assert (await other.lock()).records == await one.read()


async def test_replicas_that_pin_at_once_lose_none_of_each_others_pins(ledgers):
    """Also for a server nobody had a record of."""
    replicas = [ledgers.open() for _ in range(3)]

    def pin(name):
        def change(stored):
            known = stored or Record("files", DiscoveryStatus.SUCCESS)
            return replace(known, pins={**known.pins, name: Pin(name, "here")})

        return change

    await asyncio.gather(
        *(replica.update("files", pin(f"{number}-{n}")) for number, replica in enumerate(replicas) for n in range(8))
    )

    found = (await replicas[0].read())["files"].pins
    assert sorted(found) == sorted(f"{number}-{n}" for number in range(3) for n in range(8))


async def test_the_stamp_is_another_after_every_change_and_the_same_without_one(ledgers):
    one, other = ledgers.open(), ledgers.open()
    stamps = [await other.stamp()]
    await one.update("files", lambda _: FULL)
    stamps.append(await other.stamp())
    await one.write("files__read", "ann", True, "terminal")
    stamps.append(await other.stamp())

    assert len(set(stamps)) == 3
    assert await one.stamp() == stamps[-1]
