"""Things that are changed as a whole: by one replica at a time, and so that the others can tell."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from toolcrib.stores.postgres.database import PgDatabase

if TYPE_CHECKING:
    from psycopg import AsyncConnection

WAIT = "SELECT set_config('lock_timeout', '5s', true), set_config('idle_in_transaction_session_timeout', '30s', true)"
"""Nobody waits for ever for a replica that stands still in the middle of a change."""
HOLD = """
INSERT INTO toolcrib.mark (fleet, what) VALUES (%s, %s)
ON CONFLICT (fleet, what) DO UPDATE SET stamp = gen_random_uuid()
"""
STAMP = "SELECT stamp FROM toolcrib.mark WHERE fleet = %s AND what = %s"


@asynccontextmanager
async def changing(database: PgDatabase, what: str) -> "AsyncIterator[AsyncConnection[Any]]":
    """A transaction in which nobody else changes the same thing, also if there is nothing of it yet."""
    async with database.transaction() as connection:
        await connection.execute(WAIT)
        await connection.execute(HOLD, (database.name, what))
        yield connection


async def stamp_of(database: PgDatabase, what: str) -> str:
    """What is different after every change; empty before the first one."""
    rows = await database.rows(STAMP, (database.name, what))
    return str(rows[0][0]) if rows else ""
