"""The lock in the shared database: every replica reads and changes the same records and answers."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from toolcrib.config.lock import Change, Lock, Record, StandingAnswer, read_record, timestamp, write_record
from toolcrib.stores.postgres.database import PgDatabase, from_text, to_text

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


MARK = "lock"

_RECORDS = "SELECT server, body FROM toolcrib.record WHERE fleet = %s ORDER BY server"
_RECORD = "SELECT body FROM toolcrib.record WHERE fleet = %s AND server = %s"
_PUT_RECORD = """
INSERT INTO toolcrib.record (fleet, server, body) VALUES (%s, %s, %s)
ON CONFLICT (fleet, server) DO UPDATE SET body = excluded.body, changed = now()
"""
_DROP_RECORD = "DELETE FROM toolcrib.record WHERE fleet = %s AND server = %s"
_ANSWERS = "SELECT tool, caller, allow, at, by FROM toolcrib.answer WHERE fleet = %s ORDER BY tool, caller"
_ANSWER = "SELECT allow FROM toolcrib.answer WHERE fleet = %s AND tool = %s AND caller = %s"
_PUT_ANSWER = """
INSERT INTO toolcrib.answer (fleet, tool, caller, allow, at, by) VALUES (%s, %s, %s, %s, %s, %s)
ON CONFLICT (fleet, tool, caller) DO UPDATE SET allow = excluded.allow, at = excluded.at, by = excluded.by
"""
_DROP_ANSWERS = """
DELETE FROM toolcrib.answer WHERE fleet = %s AND tool = %s AND (%s::text[] IS NULL OR caller = ANY(%s)) RETURNING caller
"""


class PgLedger:
    """Reads what is in the database at that moment; nothing of it is kept here."""

    def __init__(self, database: PgDatabase) -> None:
        self._database = database
        self._turn = asyncio.Lock()

    async def lock(self) -> Lock:
        """All of it, as it was at one moment."""
        fleet = (self._database.name,)
        async with self._database.transaction() as connection:
            await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            records = await (await connection.execute(_RECORDS, fleet)).fetchall()
            answers = await (await connection.execute(_ANSWERS, fleet)).fetchall()
        return Lock(_to_records(records), _to_answers(answers))

    async def read(self) -> Mapping[str, Record]:
        """The records of all servers."""
        return _to_records(await self._database.rows(_RECORDS, (self._database.name,)))

    async def update(self, server: str, change: Change) -> None:
        """Change one record; the last that was asked for is the last that is written."""
        key = self._database.name, to_text(server)
        async with self._turn, changing(self._database, MARK) as connection:
            row = await (await connection.execute(_RECORD, key)).fetchone()
            changed = change(None if row is None else read_record(server, row[0]))
            if changed is None:
                await connection.execute(_DROP_RECORD, key)
            else:
                await connection.execute(_PUT_RECORD, (*key, write_record(changed)))

    async def find(self, tool: str, caller: str) -> bool | None:
        """What was answered, by whichever replica; it is an error if that cannot be found out."""
        rows = await self._database.quick_rows(_ANSWER, (self._database.name, to_text(tool), to_text(caller)))
        return bool(rows[0][0]) if rows else None

    async def write(self, tool: str, caller: str, allow: bool, by: str) -> None:
        """Keep an answer."""
        row = to_text(tool), to_text(caller), allow, timestamp(datetime.now(UTC)), to_text(by)
        async with changing(self._database, MARK) as connection:
            await connection.execute(_PUT_ANSWER, (self._database.name, *row))

    async def forget(self, tool: str, callers: Sequence[str] | None = None) -> list[str]:
        """Take answers back; whose there were."""
        named = None if callers is None else [to_text(caller) for caller in callers]
        async with changing(self._database, MARK) as connection:
            cursor = await connection.execute(_DROP_ANSWERS, (self._database.name, to_text(tool), named, named))
            return sorted(from_text(row[0]) for row in await cursor.fetchall())

    async def stamp(self) -> object:
        """What is different after every change."""
        return await stamp_of(self._database, MARK)


def _to_records(rows: Sequence[tuple[Any, ...]]) -> dict[str, Record]:
    return {name: read_record(name, body) for name, body in ((from_text(server), body) for server, body in rows)}


def _to_answers(rows: Sequence[tuple[Any, ...]]) -> dict[str, dict[str, StandingAnswer]]:
    found: dict[str, dict[str, StandingAnswer]] = {}
    for tool, caller, allow, at, by in rows:
        found.setdefault(from_text(tool), {})[from_text(caller)] = StandingAnswer(allow, at, from_text(by))
    return found
