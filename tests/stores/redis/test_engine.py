"""Redis and Valkey as what replicas agree through: what only this engine can do to them."""

import asyncio
import os
import signal

import pytest
from tests.fleet.engines import a_redis
from tests.stores.coordination.members import Members, quick, redis_members, until

from toolcrib.core.coordination import Claim
from toolcrib.core.errors import CoordinationUnavailable
from toolcrib.core.limits import Rate
from toolcrib.stores.coordination.coordinator import Coordinator
from toolcrib.stores.postgres.coordination import PgEpochMemory
from toolcrib.stores.postgres.database import PgDatabase
from toolcrib.stores.redis.engine import RedisEngine, RedisSettings, make_client, open_redis_coordination

CLAIM = Claim("tool read", Rate(3, 0.8))


@pytest.fixture
async def members(redis):
    made = await redis_members(redis)
    yield made
    await made.close()


@pytest.fixture
async def client(members: Members):
    one = await members.join()
    made = make_client(one._engine._settings)
    yield made
    await made.aclose()


async def works(member: Coordinator) -> bool:
    try:
        return await member.use([CLAIM]) is None
    except CoordinationUnavailable:
        return False


async def test_while_redis_is_away_everything_is_refused_at_once_and_goes_on_when_it_is_back():
    with a_redis() as engine:
        settings = RedisSettings(engine.url(), timeout_s=60.0)
        member, gaps = await open_redis_coordination(settings, quick()), list[int]()
        await until(lambda: works(member))
        await member.subscribe("events", lambda _: None, lambda: gaps.append(1))
        engine.stop()
        for wish in (
            member.use([CLAIM]),
            member.take_place("server files", 1),
            member.lead("discovery", 1.0),
            member.publish("events", b""),
            member.put("key", b"", 1.0),
            member.get("key"),
            member.forget("key"),
        ):
            with pytest.raises(CoordinationUnavailable, match="Redis cannot be used: it does not answer"):
                await wish
        away = member.status()
        engine.start()

        await until(lambda: works(member))

        async def told_of_the_gap() -> bool:
            return gaps == [1]

        await until(told_of_the_gap)
        assert away.problem == "Redis cannot be used: it does not answer."
        assert member.status().problem == ""
        await member.close()


async def test_no_restart_of_the_engine_lets_a_limit_be_exceeded():
    """Not even by a newcomer that finds an empty engine before those who know better are back."""
    with a_redis() as engine:
        settings = RedisSettings(engine.url(), timeout_s=60.0)
        members = [await open_redis_coordination(settings, quick()) for _ in range(3)]
        stamps, over = list[int](), asyncio.Event()

        async def hammer(member: Coordinator) -> None:
            while not over.is_set():
                try:
                    counted = await member.count([CLAIM])
                except CoordinationUnavailable:
                    counted = None
                if counted is not None and counted.full is None:
                    stamps.append(counted.at_us)
                await asyncio.sleep(0.005)

        async def three_more() -> None:
            number = len(stamps)

            async def came() -> bool:
                return len(stamps) >= number + 3

            await until(came)

        busy = [asyncio.create_task(hammer(member)) for member in members]
        await three_more()
        for _ in range(2):
            engine.stop()
            engine.start()
            newcomer = await open_redis_coordination(settings, quick())
            members.append(newcomer)
            busy.append(asyncio.create_task(hammer(newcomer)))
            await three_more()
        over.set()
        await asyncio.gather(*busy)
        for member in members:
            await member.close()

    assert all(later - earlier >= 800_000 for earlier, later in zip(sorted(stamps), sorted(stamps)[3:], strict=False))


async def test_a_redis_that_hangs_costs_one_timeout_and_not_one_for_each_call():
    """Whoever comes later is refused without waiting for anything."""
    with a_redis() as engine:
        settings = RedisSettings(engine.url(), timeout_s=3.0)
        client = make_client(settings)
        pid = (await client.info("server"))["process_id"]
        await client.aclose()
        member = await open_redis_coordination(settings, quick())
        await until(lambda: works(member))
        os.kill(pid, signal.SIGSTOP)
        try:
            outcomes = await asyncio.gather(*(member.use([CLAIM]) for _ in range(20)), return_exceptions=True)
            with pytest.raises(CoordinationUnavailable):
                member.use([CLAIM]).send(None)
        finally:
            os.kill(pid, signal.SIGCONT)

        await until(lambda: works(member))
        await member.close()
        assert {type(outcome) for outcome in outcomes} == {CoordinationUnavailable}


async def test_an_engine_that_is_away_at_the_start_is_found_later():
    with a_redis() as engine:
        engine.stop()
        member = await open_redis_coordination(RedisSettings(engine.url(), timeout_s=4.0), quick())
        before, gaps = member.status(), list[int]()
        await member.subscribe("events", lambda _: None, lambda: gaps.append(1))
        engine.start()

        await until(lambda: works(member))

        assert before.problem
        await member.close()


async def test_a_wrong_password_is_told_without_the_address():
    with a_redis() as engine:
        url = engine.url().replace("redis://", "redis://me:hunter2@")
        member = await open_redis_coordination(RedisSettings(url, timeout_s=4.0), quick())
        problem = member.status().problem
        await member.close()

    assert problem == "Redis cannot be used: it does not let us in."


async def test_an_older_copy_of_the_data_counts_as_a_loss(members: Members, client):
    """As after a failover, or a restart from a snapshot: the epoch is there, but decisions are missing."""
    member = members.all[0]
    await member.use([CLAIM])
    copy = {key: await client.dump(key) for key in await client.keys()}
    for _ in range(2):
        await member.use([CLAIM])
    await client.flushdb()
    for key, value in copy.items():
        await client.restore(key, 0, value)

    assert await member.use([CLAIM]) is not None
    assert member.status().settling_s > 0


async def test_an_engine_that_was_started_anew_counts_as_a_loss_even_with_its_data(members: Members, client):
    epoch = next(key for key in await client.keys() if key.endswith(b":epoch"))
    await client.hset(epoch, "run", "another")

    assert await members.all[0].use([CLAIM]) is not None


async def test_scripts_that_were_forgotten_are_sent_again(members: Members, client):
    await client.script_flush()

    assert await members.all[0].use([CLAIM]) is None


async def test_a_newcomer_that_remembers_nothing_waits_for_those_who_might(members: Members, client):
    """It finds an empty engine, but others listen: they come and say what was lost."""
    old = await members.join(quick(beat_s=0.3))
    claim = Claim("tool read", Rate(3, 60.0))
    for _ in range(3):
        await old.use([claim])
    await members.lose()
    newcomer = await members.join()
    first = await newcomer.use([claim])

    async def is_open() -> bool:
        probe = await newcomer.use([Claim("probe", Rate(1, 60.0))])
        return probe is None

    assert first is not None
    await until(is_open)
    assert await newcomer.use([claim]) is not None


async def test_the_store_remembers_the_epoch_when_no_replica_does(redis, store_settings):
    """All replicas are gone and Redis is emptied: the next one knows that there was something."""
    database = PgDatabase(store_settings)
    memory, members = PgEpochMemory(database, "redis"), await redis_members(redis)
    first = await members.join(memory=memory)
    started = await first.use([CLAIM])
    members.all.remove(first)
    await first.close()
    await members.lose()
    second = await members.join(memory=memory)

    refused = await second.use([CLAIM])

    assert (started, refused is None) == (None, False)
    await members.close()
    await database.close()


async def test_a_young_engine_needs_no_settling_if_the_store_knows_of_no_other(store_settings):
    database = PgDatabase(store_settings)
    with a_redis() as engine:
        settings = RedisSettings(engine.url())
        member = await open_redis_coordination(settings, quick(settle_s=3600.0), PgEpochMemory(database, "redis"))
        outcome = await member.use([CLAIM])
        await member.close()
    await database.close()

    assert outcome is None


async def test_all_keys_lie_together_and_none_stays_for_ever_but_the_epoch(members: Members, client):
    member = members.all[0]
    await member.use([CLAIM])
    await member.take_place("server files", 1)
    await member.take_place("server files", 1)
    await member.lead("discovery", 5.0)
    await member.put("key", b"", 5.0)
    keys = await client.keys()
    name = client.connection_pool.connection_kwargs and member._engine._settings.name

    lasting = [key for key in keys if await client.ttl(key) < 0]

    assert len(keys) == 7
    assert all(key.startswith(f"toolcrib:{{{name}}}:".encode()) for key in keys)
    assert [key.rpartition(b":")[2] for key in lasting] == [b"epoch"]


async def test_wishes_of_one_turn_are_one_command(members: Members, client):
    member = members.all[0]
    before = (await client.info("commandstats"))["cmdstat_evalsha"]["calls"]
    await asyncio.gather(*(member.use([Claim("much", Rate(1000, 1.0))]) for _ in range(200)))
    after = (await client.info("commandstats"))["cmdstat_evalsha"]["calls"]

    assert after - before < 10


def test_an_engine_says_nothing_of_its_address():
    engine = RedisEngine(RedisSettings("redis://me:hunter2@nowhere:1"), quick())

    assert "hunter2" not in repr(engine._settings)


async def test_many_who_come_at_once_wait_for_a_connection(members):
    member = await members.join()
    await asyncio.gather(*(member.put(f"k{number}", b"v", 10.0) for number in range(200)))

    assert await asyncio.gather(*(member.get(f"k{number}") for number in range(200))) == [b"v"] * 200
