"""Bringing a shared database up to date: from nothing, again, by many at once, and not backwards."""

import asyncio

import pytest

from toolcrib.core.errors import StoreUnavailable
from toolcrib.stores.postgres.database import PgDatabase, StoreSettings
from toolcrib.stores.postgres.migrate import need_current, status, steps, upgrade


@pytest.fixture
async def empty(postgres):
    database = PgDatabase(StoreSettings(postgres.empty_database()))
    yield database
    await database.close()


async def test_a_new_database_takes_every_step_once(empty):
    before = await status(empty)
    taken = await upgrade(empty)
    after = await status(empty)

    assert before.missing == steps() == tuple(taken)
    assert after.is_current
    assert [entry.version for entry in after.applied] == [step.version for step in steps()]
    assert await upgrade(empty) == []


async def test_of_many_who_upgrade_at_once_one_does_it(empty):
    done = await asyncio.gather(*(upgrade(empty) for _ in range(5)))

    assert sorted(map(len, done)) == [0, 0, 0, 0, len(steps())]


async def test_a_database_without_tables_is_refused_with_the_command_that_helps(empty):
    with pytest.raises(StoreUnavailable, match="toolcrib db upgrade"):
        await need_current(empty)


async def test_steps_of_a_newer_version_are_left_alone(empty):
    await upgrade(empty)
    await empty.rows("INSERT INTO toolcrib.step (version, name, hash) VALUES (999, 'later', 'x')")

    with pytest.raises(StoreUnavailable, match="999 later"):
        await need_current(empty)
    with pytest.raises(StoreUnavailable, match="999 later"):
        await upgrade(empty)


async def test_a_database_that_is_away_is_told_without_its_address():
    database = PgDatabase(StoreSettings("postgresql://me:hunter2@127.0.0.1:1/x", timeout_s=0.2))
    with pytest.raises(StoreUnavailable) as caught:
        await status(database)
    await database.close()

    assert "hunter2" not in str(caught.value)
    assert "does not answer" in str(caught.value)
