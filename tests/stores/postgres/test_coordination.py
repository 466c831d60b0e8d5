"""PostgreSQL as what replicas agree through: crashes, restarts, and statements that hang."""

import os
import signal

import pytest
from tests.fleet.engines import a_postgres
from tests.stores.coordination.members import postgres_members, until

from toolcrib.core.coordination import Claim
from toolcrib.core.errors import CoordinationUnavailable, StoreUnavailable
from toolcrib.core.limits import Rate
from toolcrib.stores.coordination.coordinator import Coordinator
from toolcrib.stores.postgres.coordination import SWEEP_S, PgEpochMemory, in_time, open_line
from toolcrib.stores.postgres.database import PgDatabase, StoreSettings

CLAIM = Claim("tool read", Rate(3, 300.0))
OTHER = Claim("tool write", Rate(1000, 0.8))


async def answers(member: Coordinator) -> bool:
    try:
        await member.use([OTHER])
    except CoordinationUnavailable:
        return False
    return True


async def works(member: Coordinator) -> bool:
    return await answers(member) and await member.use([OTHER]) is None


async def test_counts_survive_a_restart_and_a_crash_closes_what_is_limited_until_they_are_back():
    with a_postgres() as engine:
        members = await postgres_members(engine)
        member = await members.join()
        for _ in range(3):
            await member.use([CLAIM])
        engine.stop(signal.SIGINT)
        with pytest.raises(CoordinationUnavailable, match="it does not answer"):
            await member.use([CLAIM])
        engine.start()
        await until(lambda: answers(member))
        settling_after_restart, full_after_restart = member.status().settling_s, await member.use([CLAIM])
        engine.stop(signal.SIGQUIT)
        engine.start()
        await until(lambda: answers(member))
        settling_after_crash = member.status().settling_s
        await until(lambda: works(member))
        full_after_crash = await member.use([CLAIM])
        await members.close()

    assert (settling_after_restart, full_after_restart is None) == (0, False)
    assert (settling_after_crash > 0, full_after_crash is None) == (True, False)


async def test_a_statement_that_hangs_is_cut_off(store_settings):
    """What is asked takes longer than any test may."""
    line = await open_line(store_settings)

    with pytest.raises(CoordinationUnavailable, match="it does not answer"):
        await in_time(line, line.execute("SELECT pg_sleep(3600)"), 0.2)
    await line.close()


async def test_a_database_that_hangs_is_away_within_the_timeout_and_found_again():
    with a_postgres() as engine:
        members = await postgres_members(engine, timeout_s=4.0)
        member = await members.join()
        pids = await member._engine._do("SELECT pid FROM pg_stat_activity WHERE application_name = 'toolcrib'")
        for (pid,) in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(CoordinationUnavailable, match="it does not answer"):
                await member.use([CLAIM])
        finally:
            for (pid,) in pids:
                os.kill(pid, signal.SIGCONT)
        await until(lambda: works(member))
        await members.close()


async def test_an_epoch_is_remembered_for_each_engine_and_fleet(store_settings):
    database = PgDatabase(store_settings)
    memory, other = PgEpochMemory(database, "redis"), PgEpochMemory(database, "postgresql")
    before = await memory.recall()
    await memory.remember("one")
    await memory.remember("two")

    assert (before, await memory.recall(), await other.recall()) == ("", "two", "")
    await database.close()


async def test_what_nobody_asks_for_any_more_is_swept_away(postgres):
    members = await postgres_members(postgres)
    member = await members.join()
    await member.use([Claim("old", Rate(3, 0.01)), Claim("new", Rate(3, 60.0))])
    await member.put("old", b"", 0.01)
    await member.put("new", b"", 60.0)
    engine = member._engine

    async def is_swept() -> bool:
        engine._swept_at = -SWEEP_S
        await member.use([OTHER])
        tables = ("use_count", "use_stamp", "kept_value")
        found = [await engine._do(f"SELECT key FROM toolcrib.{table} WHERE fleet = %(fleet)s") for table in tables]
        return [[row for row in rows if row != ("tool write",)] for rows in found] == [[("new",)]] * 3

    await until(is_swept)
    await members.close()


async def test_only_the_uses_that_can_matter_are_kept(postgres):
    members = await postgres_members(postgres)
    member = await members.join()
    often = Claim("often", Rate(10, 0.001))

    async def hundred_uses() -> bool:
        await member.use([often])
        [(latest,)] = await member._engine._do("SELECT latest FROM toolcrib.use_count WHERE fleet = %(fleet)s")
        return latest >= 100

    await until(hundred_uses)
    [(kept,)] = await member._engine._do("SELECT count(*) FROM toolcrib.use_stamp WHERE fleet = %(fleet)s")
    await members.close()

    assert 10 <= kept <= 20


@pytest.mark.parametrize("word", ["hello", "{}", '{"topic": 3}', "[1]"])
async def test_a_strange_word_deafens_nobody(postgres, word):
    members = await postgres_members(postgres)
    one, two = await members.several(2)
    heard: list[bytes] = []
    await two.subscribe("news", heard.append, lambda: None)
    await one._engine._database.rows("SELECT pg_notify(%s, %s)", (one._engine._channel, word))
    await one.publish("news", b"still there")
    await until(lambda: _has(heard))
    await members.close()

    assert heard == [b"still there"]


async def _has(heard: list[bytes]) -> bool:
    return bool(heard)


async def test_connections_are_there_again_as_soon_as_the_database_is():
    with a_postgres() as engine:
        database = PgDatabase(StoreSettings(engine.url(), timeout_s=0.5))
        assert await database.rows("SELECT 1") == [(1,)]
        engine.stop(signal.SIGQUIT)
        for _ in range(6):
            with pytest.raises(StoreUnavailable):
                await database.rows("SELECT 1")
        engine.start()
        await until(lambda: _answers(database))
        await database.close()


async def _answers(database: PgDatabase) -> bool:
    try:
        await database.rows("SELECT 1")
    except StoreUnavailable:
        return False
    return True
