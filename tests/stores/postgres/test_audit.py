"""The audit log in PostgreSQL: nothing acknowledged is lost, nothing is written twice, whatever breaks."""

import asyncio
import random
import signal
import sys
import time
from itertools import count

import psycopg
import pytest
from tests.fleet import launcher
from tests.fleet.engines import a_postgres
from tests.fleet.lossy_wire import a_lossy_wire
from tests.fleet.running import until
from tests.stores.audit_logs import find, numbered, tamper_table, walk, written

from toolcrib.core.audit import AuditEntry
from toolcrib.core.errors import AuditUnavailable
from toolcrib.stores.audit.log import body_of
from toolcrib.stores.audit.writer import AuditSettings, QueuedAudit
from toolcrib.stores.postgres.audit import AuditTable
from toolcrib.stores.postgres.database import StoreSettings

QUICK = AuditSettings(linger_s=0.001, retry_s=0.02)


def place_of(settings: StoreSettings) -> AuditTable:
    return AuditTable(settings, "postgresql://here")


@pytest.fixture
def place(store_settings: StoreSettings) -> AuditTable:
    return place_of(store_settings)


def tools(place: AuditTable) -> list[str]:
    return [entry.tool or entry.event for entry in find(place)]


@pytest.mark.parametrize("cut", ["before", "after"])
async def test_a_connection_that_is_lost_during_a_commit_is_made_anew_unnoticed(postgres, place, cut):
    """Whether the commit came through or not, every entry stands there once, and nobody is refused."""
    async with a_lossy_wire(postgres.port) as wire:
        there = place_of(StoreSettings(wire.url(place.settings.url)))
        log = QueuedAudit(there, time.time_ns, settings=QUICK)
        await log.commit(AuditEntry("call", tool="first"))
        wire.cut = cut

        waiting = asyncio.gather(*(log.commit(entry) for entry in numbered(3)))
        await waiting
        await log.close()

    assert wire.cuts == 1
    assert sorted(tools(place)) == ["first", "tool1", "tool2", "tool3"]
    assert walk(place).fault is None


@pytest.mark.parametrize(("cut", "refused"), [("before", []), ("after", ["refused"])])
async def test_what_became_of_a_commit_is_found_out_before_anything_else_is_written(postgres, place, cut, refused):
    """The server is away meanwhile: who waits is refused, what was noted is written once."""
    async with a_lossy_wire(postgres.port) as wire:
        there = place_of(StoreSettings(wire.url(place.settings.url)))
        log = QueuedAudit(there, time.time_ns, settings=QUICK)
        await log.commit(AuditEntry("call", tool="first"))
        wire.cut, wire.is_shut_by_a_cut = cut, True

        for entry in numbered(3):
            log.note(entry)
        with pytest.raises(AuditUnavailable, match="the shared database cannot be used"):
            await log.commit(AuditEntry("call", tool="refused"))
        while_away = log.status()
        log.note(AuditEntry("call", tool="later"))
        wire.is_open = True
        await asyncio.to_thread(until, lambda: log.status().backlog == 0, deadline_s=150, what="written")
        await log.commit(AuditEntry("call", tool="last"))
        after = log.status()
        await log.close()

    assert (while_away.backlog, bool(while_away.problem)) == (3, True)
    assert (after.problem, after.lost) == ("", 0)
    assert tools(place) == ["first", "tool1", "tool2", "tool3", *refused, "later", "last"]
    assert walk(place).fault is None


async def test_backends_that_are_ended_again_and_again_lose_and_double_nothing(store_settings, place):
    """Ended wherever they are: while they wait, insert or commit."""
    log = QueuedAudit(place, time.time_ns, settings=QUICK)
    numbers, acknowledged, is_over, chance = count(1), [], asyncio.Event(), random.Random(7)

    async def write() -> None:
        while not is_over.is_set():
            number = next(numbers)
            try:
                await log.commit(AuditEntry("call", tool=f"t{number}"))
            except AuditUnavailable:
                continue
            acknowledged.append(f"t{number}")
            log.note(AuditEntry("call", tool=f"n{number}"))

    def disturb() -> None:
        ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = %s"
        with psycopg.connect(store_settings.url, autocommit=True) as connection:
            for _ in range(20):
                goal = len(acknowledged) + chance.randrange(12)
                until(lambda goal=goal: len(acknowledged) >= goal, deadline_s=150, what="entries")
                connection.execute(ended, (connection.info.dbname,))

    writers = [asyncio.ensure_future(write()) for _ in range(8)]
    await asyncio.to_thread(disturb)
    is_over.set()
    await asyncio.gather(*writers)
    await log.close()

    found = tools(place)
    assert len(set(found)) == len(found)
    assert set(acknowledged) | {f"n{name[1:]}" for name in acknowledged} <= set(found)
    assert walk(place).fault is None


async def test_a_crash_of_postgres_loses_nothing_acknowledged(tmp_path):
    """It is killed under load, twice; whoever is refused meanwhile knows it."""
    with a_postgres(("autovacuum=off", "shared_buffers=32MB", "wal_buffers=1MB")) as engine:
        place = place_of(StoreSettings(engine.fresh_database(), timeout_s=2))
        logs = [QueuedAudit(place, time.time_ns, settings=QUICK) for _ in range(2)]
        numbers, acknowledged, is_over, is_up = count(1), [], asyncio.Event(), asyncio.Event()
        is_up.set()

        async def write(log: QueuedAudit) -> None:
            while not is_over.is_set():
                number = next(numbers)
                try:
                    await log.commit(AuditEntry("call", tool=f"t{number}"))
                except AuditUnavailable:
                    await is_up.wait()
                    continue
                acknowledged.append(f"t{number}")
                log.note(AuditEntry("call", tool=f"n{number}"))

        writers = [asyncio.ensure_future(write(log)) for log in logs for _ in range(4)]
        for _ in range(2):
            goal = len(acknowledged) + 60
            await asyncio.to_thread(until, lambda goal=goal: len(acknowledged) >= goal, deadline_s=150, what="entries")
            is_up.clear()
            await asyncio.to_thread(engine.stop, signal.SIGQUIT)
            await asyncio.to_thread(engine.start)
            is_up.set()
        is_over.set()
        await asyncio.gather(*writers)
        for log in logs:
            await asyncio.to_thread(until, lambda log=log: log.status().backlog == 0, deadline_s=150, what="written")
            await log.close()
        found, finding = tools(place), walk(place)

    assert finding.fault is None
    assert len(set(found)) == len(found)
    assert set(acknowledged) | {f"n{name[1:]}" for name in acknowledged} <= set(found)
    assert [log.status().lost for log in logs] == [0, 0]


WRITER = """
import asyncio, os, sys, time
from toolcrib.core.audit import AuditEntry
from toolcrib.core.errors import AuditUnavailable
from toolcrib.stores.audit.writer import QueuedAudit
from toolcrib.stores.postgres.audit import AuditTable
from toolcrib.stores.postgres.database import StoreSettings

async def main():
    log = QueuedAudit(AuditTable(StoreSettings(sys.argv[1]), ""), time.time_ns)
    async def work(name):
        for number in range(10**9):
            try:
                await log.commit(AuditEntry("call", caller=sys.argv[2], tool=f"{sys.argv[2]}-{name}-{number}"))
            except AuditUnavailable:  # not in time on a machine that is busy: not acknowledged
                continue
            os.write(1, f"{sys.argv[2]}-{name}-{number}\\n".encode())
    await asyncio.gather(*(work(str(name)) for name in range(8)))

asyncio.run(main())
"""


def test_replicas_that_are_killed_lose_nothing_acknowledged(store_settings, place, tmp_path):
    """Three write one chain; each is killed in the middle of it, and one comes after them."""
    outputs = [tmp_path / name for name in ("one", "two", "three")]
    replicas = []
    for output in outputs:
        with output.open("wb") as file:
            command = [sys.executable, "-c", WRITER, store_settings.url, output.name]
            replicas.append(launcher.popen(command, is_example=True, stdout=file))
    for replica, output in zip(replicas, outputs, strict=True):
        until(lambda output=output: output.read_text().count("\n") > 50, deadline_s=150, what="entries")
        replica.kill()
        replica.wait()
    asyncio.run(written(place, numbered(1)))

    acknowledged = {line for output in outputs for line in output.read_text().split("\n")[:-1]}
    found = tools(place)
    assert len(set(found)) == len(found)
    assert acknowledged <= set(found)
    assert found[-1] == "tool1"
    assert walk(place).fault is None


async def test_a_replica_that_stands_still_while_it_writes_does_not_stop_the_others(place):
    """PostgreSQL ends what holds the chain's end too long."""
    settings = StoreSettings(place.settings.url, timeout_s=4.0)
    await written(place, numbered(1))
    stuck = place_of(settings).open()
    await asyncio.to_thread(stuck._lock_head)

    log = QueuedAudit(place_of(settings), time.time_ns, settings=QUICK)
    log.note(AuditEntry("call", tool="next"))
    await asyncio.to_thread(until, lambda: log.status().written == 1, deadline_s=150, what="written")
    await log.close()
    await asyncio.to_thread(stuck.append, [b'{"time":1,"event":"call","tool":"woken"}'])
    stuck.close()

    assert tools(place) == ["tool1", "next", "woken"]
    assert walk(place).fault is None


async def test_fleets_of_one_database_do_not_see_each_other(place):
    """Each has its own chain, which begins with one."""
    other = place_of(StoreSettings(place.settings.url, name="other's {fleet}"))
    await written(place, numbered(2))
    await written(other, numbered(1))

    assert (tools(place), tools(other)) == (["tool1", "tool2"], ["tool1"])
    assert (walk(place).entries, walk(other).entries) == (2, 1)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE toolcrib.audit_entry SET body = ''",
        "DELETE FROM toolcrib.audit_entry WHERE seq = 1",
        "TRUNCATE toolcrib.audit_entry",
        "DELETE FROM toolcrib.audit_head",
        "TRUNCATE toolcrib.audit_head",
    ],
)
async def test_entries_cannot_be_changed_by_accident(store_settings, place, statement):
    """The table itself refuses what is no append."""
    await written(place, numbered(2))

    with (
        psycopg.connect(store_settings.url) as connection,
        pytest.raises(psycopg.Error, match="audit entries are never"),
    ):
        connection.execute(statement)
    assert tools(place) == ["tool1", "tool2"]


@pytest.mark.parametrize("change", ["tool = 'other'", "time = 5", "caller = 'eve'", "outcome = 'failure'"])
async def test_columns_that_no_longer_say_what_the_entry_says_are_found(store_settings, place, change):
    """Whoever searches goes by them."""
    await written(place, numbered(3))
    tamper_table(store_settings, f"UPDATE entry SET {change} WHERE seq = 2")

    assert walk(place).fault.words == "record 2 was edited"


async def test_an_entry_put_in_behind_the_log_is_found(store_settings, place):
    """Even one that looks like the others."""
    await written(place, numbered(3))
    columns = "hash, body, time, event, tool, caller, execution, decision, outcome"
    one_more = f"INSERT INTO entry (fleet, seq, {columns}) SELECT fleet, 4, {columns} FROM entry LIMIT 1"
    tamper_table(store_settings, one_more)

    assert walk(place).fault.words == "record 4 was edited"


async def test_what_is_acknowledged_is_on_disk_whatever_the_database_is_set_to(store_settings, place):
    """A database that is told not to wait for its disk waits for it here."""
    with psycopg.connect(store_settings.url, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {connection.info.dbname} SET synchronous_commit = off")
    log = place.open()
    try:
        log._lock_head()
        answer = log._run("SHOW synchronous_commit").get_value(0, 0)
    finally:
        log.close()

    assert answer == b"on"


async def test_a_database_that_is_away_is_told_without_its_address():
    """By whoever writes, reads and looks."""
    away = AuditTable(StoreSettings("postgresql://me:hunter2@127.0.0.1:1/x", timeout_s=0.2), "postgresql://***@here/x")
    log = QueuedAudit(away, time.time_ns)
    errors = []
    for attempt in (away.check, lambda: find(away)):
        with pytest.raises(AuditUnavailable) as caught:
            attempt()
        errors.append(str(caught.value))
    with pytest.raises(AuditUnavailable) as caught:
        await log.commit(AuditEntry("start"))
    await log.close()

    assert caught.value.message == (
        "The audit log cannot be written: the shared database cannot be used (it does not answer)."
    )
    assert caught.value.hint == "Check [store] url and that PostgreSQL runs; `toolcrib db status` tells more."
    assert all("it does not answer" in error for error in errors)
    assert not any("hunter2" in error for error in [*errors, str(caught.value), str(log.status())])
    assert log.status().place == "postgresql://***@here/x (name 'main')"


async def test_a_database_that_hangs_refuses_whoever_waits_and_takes_what_was_noted_when_it_is_back(postgres, place):
    async with a_lossy_wire(postgres.port) as wire:
        log = QueuedAudit(
            place_of(StoreSettings(wire.url(place.settings.url), timeout_s=4.0)), time.time_ns, settings=QUICK
        )
        await log.commit(AuditEntry("call", tool="first"))
        wire.flows.clear()
        log.note(AuditEntry("call", tool="noted"))
        with pytest.raises(AuditUnavailable, match="it does not answer"):
            await asyncio.wait_for(log.commit(AuditEntry("call", tool="refused")), 150)
        wire.flows.set()
        log.note(AuditEntry("call", tool="last"))
        await log.close()

    assert [tool for tool in tools(place) if tool != "refused"] == ["first", "noted", "last"]
    assert walk(place).fault is None


async def test_a_hanging_database_is_given_up_after_one_timeout_and_not_tried_again_at_once(postgres, place):
    """The time is for all of it: a second connection would wait as long again for the same silence."""
    async with a_lossy_wire(postgres.port) as wire:
        log = place_of(StoreSettings(wire.url(place.settings.url), timeout_s=4.0)).open()
        await asyncio.to_thread(log.append, [body_of(1, AuditEntry("call", tool="first"))])
        wire.flows.clear()
        with pytest.raises(AuditUnavailable, match="it does not answer"):
            await asyncio.to_thread(log.append, [body_of(2, AuditEntry("call", tool="second"))])
        wire.flows.set()
        log.close()

    assert wire.accepted == 1
