"""A database that hangs is away like one that refuses: whoever asks is told in time, and it comes back by itself."""

import subprocess
import sys
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from tests.doubles.coordination import MemoryHub
from tests.fleet.lossy_wire import a_lossy_wire

from toolcrib.config.model import Config
from toolcrib.core.coordination import SessionEntry
from toolcrib.core.errors import StoreUnavailable
from toolcrib.crib.replicas import join_fleet
from toolcrib.stores.paths import Environment
from toolcrib.stores.postgres.backend import PostgresBackend
from toolcrib.stores.postgres.coordination import PgSessionBook
from toolcrib.stores.postgres.database import PgDatabase

TIMEOUT_S = 1.0
ENTRY = SessionEntry("k", "anna", "", "2025-06-18", 1_700_000_000.0)


@asynccontextmanager
async def behind_a_wire(postgres, store_settings):
    async with a_lossy_wire(postgres.port) as wire:
        database = PgDatabase(replace(store_settings, url=wire.url(store_settings.url), timeout_s=TIMEOUT_S))
        try:
            yield database, wire
        finally:
            wire.flows.set()
            await database.close()


async def test_a_database_that_hangs_is_away_until_it_answers_again(postgres, store_settings):
    async with behind_a_wire(postgres, store_settings) as (database, wire):
        backend = PostgresBackend(Config(), Environment(), database.settings)
        backend.database, backend.coordination = database, MemoryHub().join("a")
        fleet = await join_fleet(backend, "a", lambda event: None)
        store = fleet.engines[0]
        told = []
        for flows in (wire.flows.set, wire.flows.clear, wire.flows.clear, wire.flows.set):
            flows()
            await store.check(fleet.emit)
            told.append(store.problem)

    away = "The shared database cannot be used: it does not answer."
    assert told == ["", away, away, ""]


async def test_sessions_of_a_database_that_hangs_cannot_be_looked_up(postgres, store_settings):
    async with behind_a_wire(postgres, store_settings) as (database, wire):
        book = PgSessionBook(database)
        await book.open(ENTRY)
        wire.flows.clear()
        with pytest.raises(StoreUnavailable):
            await book.find(ENTRY.key)
        wire.flows.set()

        assert await book.find(ENTRY.key) == ENTRY


async def test_a_statement_without_an_answer_is_given_up_in_time_and_long_work_is_not(store_settings):
    database = PgDatabase(replace(store_settings, timeout_s=TIMEOUT_S))
    try:
        with pytest.raises(StoreUnavailable, match="does not answer"):
            await database.quick_rows("SELECT pg_sleep(3600)")

        assert await database.rows("SELECT 1 FROM pg_sleep(1.5)") == [(1,)]
    finally:
        await database.close()


def test_whoever_asks_for_no_documents_does_not_wait_for_numpy():
    """Start-up is a feature, with a shared database too: `ls`, completion and tokens need no vectors."""
    script = "import sys, toolcrib.stores.postgres.backend; print('numpy' in sys.modules)"

    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert result.stdout.strip() == "False"
