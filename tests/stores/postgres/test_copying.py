"""Bringing a machine's files over: equal at the end, from wherever it was stopped, and never onto foreign rows."""

import asyncio

import psycopg
import pytest

from toolcrib.config.lock import Lock, Pin, Record, StandingAnswer, write_lock
from toolcrib.core.access import Grants
from toolcrib.core.errors import ConfigError
from toolcrib.core.kinds import DiscoveryStatus
from toolcrib.core.offers import SecurityLevel
from toolcrib.core.worklist import TaskChange
from toolcrib.stores.access_tokens import NewToken, TokenFile
from toolcrib.stores.postgres.copying import begin_anew, copy_part
from toolcrib.stores.postgres.copying_parts import lock_parts, task_parts, token_parts
from toolcrib.stores.postgres.database import PgDatabase, StoreSettings
from toolcrib.stores.postgres.lock import PgLedger
from toolcrib.stores.postgres.tokens import PgTokens
from toolcrib.stores.postgres.worklist import PgWorkList
from toolcrib.stores.worklist import SqliteWorkList

ODD = 'odd \\ "ä" 🌍\0'
LOCK = Lock(
    {
        name: Record(name, DiscoveryStatus.SUCCESS, ({"name": ODD},), pins={"a": Pin("h", "i")})
        for name in ("Ä", "b", "a-b", "B")
    },
    {
        tool: {caller: StandingAnswer(True, "2026-01-02T03:04:05Z", "x") for caller in ("ann", ODD)}
        for tool in ("z", "a")
    },
)


@pytest.fixture
async def database(store_settings):
    opened = PgDatabase(store_settings)
    yield opened
    await opened.close()


@pytest.fixture
async def home(tmp_path):
    """A machine with something of everything."""
    (tmp_path / "toolcrib.lock").write_text(write_lock(LOCK))
    tokens = TokenFile(tmp_path / "tokens.json", lambda: 1_000.0)
    for name in ("zoe", "ann", "bob"):
        tokens.create(NewToken(name, Grants(SecurityLevel.WRITE)))
    tokens.revoke("ann")
    for place in ("/b", "/a"):
        work = SqliteWorkList(tmp_path / "tasks.db", place, lambda: "now")
        await work.add("one", ODD)
        await work.add("two", after=[1])
        await work.add_note(2, ODD)
        await work.change(1, TaskChange(state="done"))
        await work.close()
    return tmp_path


def parts_of(home):
    return [
        *lock_parts(home / "toolcrib.lock"),
        *token_parts(home / "tokens.json", lambda: 1_000.0),
        *task_parts(home / "tasks.db"),
    ]


async def copy_all(database, home, batch=2):
    return [await copy_part(database, part, lambda _: None, batch) for part in parts_of(home)]


async def test_everything_is_there_afterwards_as_it_was_here(database, home):
    done = await copy_all(database, home)

    assert [(one.part, one.rows) for one in done] == [
        ("records", 4),
        ("answers", 4),
        ("tokens", 3),
        ("tasks", 4),
        ("notes", 2),
    ]
    assert await PgLedger(database).lock() == LOCK
    assert (
        PgTokens(database.settings, lambda: 1_000.0).read() == TokenFile(home / "tokens.json", lambda: 1_000.0).read()
    )
    for place in ("/a", "/b"):
        here, there = SqliteWorkList(home / "tasks.db", place, str), PgWorkList(database, place, str)
        assert await there.tasks() == await here.tasks()
        assert [await there.task(number) for number in (1, 2)] == [await here.task(number) for number in (1, 2)]
        await here.close()


async def test_a_second_run_finds_nothing_to_do_whatever_happened_since(database, home):
    await copy_all(database, home)
    await PgLedger(database).update("new", lambda _: Record("new"))
    again = await copy_all(database, home)

    assert all(one.is_done and not one.digest for one in again)
    assert "new" in await PgLedger(database).read()


async def test_what_was_stopped_goes_on_where_the_last_batch_ended(database, home):
    class StopError(Exception):
        pass

    def stop(_):
        raise StopError

    stops = 0
    for part in parts_of(home):
        while True:
            try:
                done = await copy_part(database, part, stop, 1)
                break
            except StopError:
                stops += 1
        assert done.is_done

    assert stops == 4 + 4 + 3 + 4 + 2
    assert await PgLedger(database).lock() == LOCK


async def test_a_machine_without_files_has_nothing_to_bring(database, tmp_path):
    done = await copy_all(database, tmp_path)

    assert [one.rows for one in done] == [0] * 5


async def test_rows_that_came_from_elsewhere_are_left_alone(database, home):
    await PgLedger(database).update("theirs", lambda _: Record("theirs"))

    with pytest.raises(ConfigError, match="came from elsewhere"):
        await copy_all(database, home)
    assert list(await PgLedger(database).read()) == ["theirs"]


async def test_what_another_machine_began_is_not_continued_here(database, home, tmp_path):
    await copy_all(database, home)
    other = tmp_path / "other"
    other.mkdir()

    with pytest.raises(ConfigError, match="were copied from"):
        await copy_all(database, other)
    with psycopg.connect(database.settings.url) as connection:
        connection.execute("UPDATE toolcrib.copying SET is_done = false")
    with pytest.raises(ConfigError, match="were copied from"):
        await begin_anew(database, parts_of(other)[0])


async def test_a_source_that_changed_meanwhile_is_told_and_can_be_begun_anew(database, home):
    part = parts_of(home)[0]

    def meddle(_):
        changed = Lock({name: Record(name, DiscoveryStatus.FAILED) for name in LOCK.records})
        (home / "toolcrib.lock").write_text(write_lock(changed))

    with pytest.raises(ConfigError, match="changed while they were copied") as caught:
        await copy_part(database, part, meddle, 2)
    await begin_anew(database, part)
    done = await copy_part(database, part, lambda _: None, 2)

    assert "--anew" in (caught.value.hint or "")
    assert done.rows == 4
    assert {record.status for record in (await PgLedger(database).read()).values()} == {"failed"}


async def test_beginning_anew_takes_away_nothing_that_others_brought(database, home):
    part = parts_of(home)[0]

    def stop(_):
        raise InterruptedError

    with pytest.raises(InterruptedError):
        await copy_part(database, part, stop, 2)
    with psycopg.connect(database.settings.url) as connection:
        connection.execute("INSERT INTO toolcrib.record (fleet, server, body) VALUES (%s, 'x', '{}')", (database.name,))
    with pytest.raises(ConfigError, match="of which 1 came from elsewhere"):
        await begin_anew(database, part)
    with psycopg.connect(database.settings.url) as connection:
        counts = connection.execute("SELECT (SELECT count(*) FROM toolcrib.record), copied FROM toolcrib.copying")

        assert counts.fetchall() == [(3, 2)]


async def test_of_two_that_copy_at_once_one_steps_back(database, home):
    """No row comes twice, and none is lost."""
    part = parts_of(home)[0]
    other = PgDatabase(StoreSettings(database.settings.url))
    ours = copy_part(database, part, lambda _: None, 1)
    theirs = copy_part(other, part, lambda _: None, 1)
    results = await asyncio.gather(ours, theirs, return_exceptions=True)
    done = await copy_part(database, part, lambda _: None, 1)
    await other.close()

    assert all(isinstance(result, ConfigError) or result.is_done for result in results)
    assert (done.rows, done.is_done) == (4, True)
    assert (await PgLedger(database).lock()).records == LOCK.records
